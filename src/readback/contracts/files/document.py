"""A contract file as values with places. Called by `reading`; no key has a meaning here.

YAML's surprises are left out: only `true` and `false` are truth values, only plain decimals are numbers, everything
else is text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final, NamedTuple

from readback.canon.frozen import dataclass
from readback.canon.limits import INTEGER_SAFE_MAX
from readback.contracts.documents.yaml_nodes import YamlFault, composed

FILE_MAX_BYTES: Final = 1_048_576
FAULTS_TOLD_MAX: Final = 200
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}")
_NOTHING: Final = ("", "~", "null")
_TEXT_TAG: Final = "tag:yaml.org,2002:str"


class Place(NamedTuple):
    """Line and column, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a file. `path`: the keys to the fault's value, in dots."""

    place: Place
    path: str
    said: str
    remedy: str = ""
    code: str = "contract.file"


@dataclass(frozen=True, slots=True)
class Written:
    """A value as written in a file: a mapping or a list of values, or a plain value. `keys`: the place of each key.

    `begins`: the column of the text's first character, for columns within the text; 0 where the file writes the text in
    another form. `text`: a plain value as written, so that 1.10 stays 1.10 where text is expected.
    """

    place: Place
    value: dict[str, Written] | list[Written] | str | int | float | bool | None
    keys: dict[str, Place]
    begins: int = 0
    text: str = ""

    @property
    def mapping(self) -> dict[str, Written] | None:
        return self.value if isinstance(self.value, dict) else None

    @property
    def listed(self) -> list[Written] | None:
        return self.value if isinstance(self.value, list) else None

    def plain(self) -> Any:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {key: each.plain() for key, each in self.value.items()}
        if isinstance(self.value, list):
            return [each.plain() for each in self.value]
        return self.value


def read_document(content: bytes) -> tuple[Written | None, list[Fault]]:
    """Return the document, and the faults of its form. None for no usable document."""
    if len(content) > FILE_MAX_BYTES:
        said = f"The file exceeds {FILE_MAX_BYTES} bytes."
        return None, [Fault(Place(1, 1), "", said, "Split it into several files.")]
    try:
        root = composed(content)
    except YamlFault as fault:
        return None, [Fault(Place(fault.line, fault.column), "", fault.said)]
    if root is None:
        return None, [Fault(Place(1, 1), "", "The file is empty.")]
    taking = _Taking([])
    taken = taking.value(root, "")
    return taken, taking.faults


@dataclass(slots=True)
class _Taking:
    faults: list[Fault]

    def value(self, node: Any, path: str) -> Written:
        place = _place(node)
        if node.id == "mapping":
            return self._mapping(node, path, place)
        if node.id == "sequence":
            return Written(place, [self.value(each, f"{path}[{n}]") for n, each in enumerate(node.value)], {})
        return Written(place, self._scalar(node, path, place), {}, _begins(node), str(node.value))

    def _mapping(self, node: Any, path: str, place: Place) -> Written:
        found: dict[str, Written] = {}
        keys: dict[str, Place] = {}
        for key, value in node.value:
            at = _place(key)
            if key.id != "scalar":
                self.faults.append(Fault(at, path, "A key must be text."))
                continue
            name = str(key.value)
            inner = f"{path}.{name}" if path else name
            if name in found:
                line = keys[name].line
                self.faults.append(Fault(at, inner, f"The key {name!r:.80} is given twice, first on line {line}."))
                continue
            keys[name] = at
            found[name] = self.value(value, inner)
        return Written(place, found, keys)

    def _scalar(self, node: Any, path: str, place: Place) -> str | int | float | bool | None:
        text = str(node.value)
        if node.style is not None or node.tag == _TEXT_TAG:
            return text
        if text in _NOTHING:
            return None
        if text in ("true", "false"):
            return text == "true"
        if _INTEGER.fullmatch(text):
            number = int(text)
            if abs(number) > INTEGER_SAFE_MAX:
                self.faults.append(
                    Fault(place, path, f"{text} is too large for an exact number.", "Write the number as text.")
                )
            return number
        if not _NUMBER.fullmatch(text):
            return text
        fraction = float(text)
        if Decimal(repr(fraction)) != Decimal(text):
            self.faults.append(Fault(place, path, f"{text} has too many digits.", "Write the number as text."))
        return fraction


def _place(node: Any) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _begins(node: Any) -> int:
    """Return the column of a plain text, or of a quoted text without escapes after the quote."""
    start, end = node.start_mark, node.end_mark
    if start.line != end.line:
        return 0
    if node.style is None:
        return int(start.column) + 1
    as_written = start.buffer is not None and start.buffer[start.pointer + 1 : end.pointer - 1] == node.value
    return int(start.column) + 2 if node.style in ("'", '"') and as_written else 0
