"""The requirements manifest: what the specifications ask for, read from data/*.toml.

Called by the two-way test, by scripts/coverage_table.py, and by tests that walk a whole table
with ``requirement_ids``. It must not import the product: it says what is asked, not what is built.

A table in a data file has a name, an area (its row in the README), a section of its specification,
and ids in two groups: ``required`` (id = sentence) and ``deferred`` (id = sentence and reason). A required id whose
only proof is a golden text or a look at the table says so: id = sentence and proof.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

DATA = Path(__file__).parent / "data"

_FILE_KEYS = {"spec", "table"}
_TABLE_KEYS = {"name", "spec", "area", "section", "required", "deferred"}
_DEFERRED_KEYS = {"sentence", "reason"}
_WEAK_KEYS = {"sentence", "proof"}
WEAK_PROOFS = {"a golden text": "golden", "a look at the table": "table"}
"""What the manifest calls a proof that is no behaviour, and the kind of claim that it names."""


class ManifestError(ValueError):
    """The data files are malformed; the message names file and table."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One behaviour that a specification asks for."""

    id: str
    sentence: str
    status: Literal["required", "deferred"]
    reason: str
    """Why it is deferred; empty when it is required."""
    spec: str
    section: str
    area: str
    """Its row in the coverage table."""
    table: str
    """The name that requirement_ids knows it by."""
    file: str
    """The data file that holds it, for messages."""
    proof: str = ""
    """A key of WEAK_PROOFS where no test shows the behaviour itself; empty where one does."""

    @property
    def required(self) -> bool:
        return self.status == "required"


def read_manifest(folder: Path) -> tuple[Requirement, ...]:
    """Every requirement in the folder's files, in the order of files and lines. Raises ManifestError."""
    found: dict[str, Requirement] = {}
    for path in sorted(folder.glob("*.toml")):
        for requirement in _read_file(path):
            if (first := found.get(requirement.id)) is not None:
                raise ManifestError(f"{path.name}: {requirement.id} is already in {first.file}")
            found[requirement.id] = requirement
    if not found:
        raise ManifestError(f"no requirements in {folder}")
    return tuple(found.values())


@cache
def requirements() -> tuple[Requirement, ...]:
    """The project's manifest."""
    return read_manifest(DATA)


@cache
def requirement_ids(table: str) -> tuple[str, ...]:
    """The required ids of one table, for a test that walks all of it.

    Used as ``@pytest.mark.parametrize("requirement_id", requirement_ids("TRANSITION"))``;
    the two-way test reads that decorator and takes each of these ids as tested.
    """
    ids = tuple(each.id for each in requirements() if each.table == table and each.required)
    if not ids:
        raise ManifestError(f"no table named {table!r} holds required ids")
    return ids


def _read_file(path: Path) -> Iterator[Requirement]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"{path.name}: {error}") from error
    _refuse_unknown(path.name, data, _FILE_KEYS)
    for table in data.get("table", []):
        _refuse_unknown(f"{path.name}, {table.get('name')}", table, _TABLE_KEYS)
        yield from _read_table(path.name, data.get("spec"), table)


def _read_table(file: str, file_spec: str | None, table: Mapping[str, Any]) -> Iterator[Requirement]:
    where = f"{file}, {table.get('name')}"
    facts = {
        "table": table.get("name", ""),
        "spec": table.get("spec", file_spec or ""),
        "area": table.get("area", ""),
        "section": table.get("section", ""),
    }
    if missing := [key for key, value in facts.items() if not value]:
        raise ManifestError(f"{where}: missing {', '.join(missing)}")
    for id_, sentence in table.get("required", {}).items():
        proof = ""
        if isinstance(sentence, dict):
            if set(sentence) != _WEAK_KEYS or sentence["proof"] not in WEAK_PROOFS:
                raise ManifestError(f"{where}: {id_} needs a sentence and a proof, one of {', '.join(WEAK_PROOFS)}")
            sentence, proof = sentence["sentence"], sentence["proof"]
        yield Requirement(id_, _text(where, id_, sentence), "required", "", file=file, proof=proof, **facts)
    for id_, entry in table.get("deferred", {}).items():
        if not isinstance(entry, dict) or set(entry) != _DEFERRED_KEYS:
            raise ManifestError(f"{where}: {id_} is deferred and needs exactly a sentence and a reason")
        sentence, reason = _text(where, id_, entry["sentence"]), _text(where, id_, entry["reason"])
        yield Requirement(id_, sentence, "deferred", reason, file=file, **facts)


def _text(where: str, id_: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ManifestError(f"{where}: {id_} needs a text")
    return value


def _refuse_unknown(where: str, data: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(set(data) - known):
        raise ManifestError(f"{where}: unknown keys {', '.join(unknown)}")
