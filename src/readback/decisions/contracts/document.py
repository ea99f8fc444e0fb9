"""A JSON or YAML file as a plain value with the position of each part, as far as the notation has positions.

Used by the loader of envelopes and by importers. Repeated keys, NaN, aliases, tags, deep nesting and files above one
megabyte are faults. This module knows no key's meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.files.document import Place, Written, read_document
from readback.traces import TraceError
from readback.traces.format.strict_json import strict_json

FILE_MAX_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a file: the path of keys, and the position in YAML."""

    path: str
    said: str
    place: Place | None = None

    def line(self, file: str) -> str:
        """The fault in one line, in the form of editors."""
        at = f":{self.place.line}:{self.place.column}" if self.place else ""
        return f"{file}{at}: {self.path or 'the whole'}: {self.said}"

    def as_json(self, file: str) -> dict[str, Json]:
        """Return plain data for error details and `--json`."""
        place: dict[str, Json] = {"line": self.place.line, "column": self.place.column} if self.place else {}
        return {"file": file, "key": self.path, "reason": self.said, **place}


@dataclass(frozen=True, slots=True)
class Document:
    """A value and the faults of its form. With faults the value is None or unreliable."""

    value: Json
    findings: tuple[Finding, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)

    def at(self, path: str, said: str) -> Finding:
        """Return a finding at this path, or at the nearest known part above."""
        near = path
        while near and near not in self.places:
            near = near[: max(near.rfind("."), near.rfind("["), 0)]
        return Finding(path, said, self.places.get(near))


def read_text(content: bytes, name: str) -> Document:
    """Read YAML or JSON, by the file's name."""
    if len(content) > FILE_MAX_BYTES:
        return Document(None, (Finding("", f"The file is over {FILE_MAX_BYTES} bytes."),))
    if name.lower().endswith((".yaml", ".yml")):
        return _yaml(content)
    return read_json(content)


def read_json(content: bytes) -> Document:
    """Read one JSON value."""
    try:
        return Document(strict_json(content, "The file", bytes_max=FILE_MAX_BYTES))
    except TraceError as error:
        return Document(None, (Finding("", error.message),))


def _yaml(content: bytes) -> Document:
    root, faults = read_document(content)
    found = tuple(Finding(each.path, each.said, each.place) for each in faults)
    if root is None:
        return Document(None, found)
    places: dict[str, Place] = {"": root.place}
    _note(root, "", places)
    return Document(root.plain(), found, places)


def _note(node: Written, path: str, places: dict[str, Place]) -> None:
    if node.mapping is not None:
        for name, each in node.mapping.items():
            inner = f"{path}.{name}" if path else name
            places[inner] = node.keys[name]
            _note(each, inner, places)
    for number, each in enumerate(node.listed or ()):
        places[f"{path}[{number}]"] = each.place
        _note(each, f"{path}[{number}]", places)
