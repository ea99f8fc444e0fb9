"""Recovery tables as YAML: reading an operator's table with the line and column of every fault, and writing any table.

Called by the clients at open, and by `readback table`. Nothing of a file is used before the whole file is sound: the
form is checked here, totality and the floor by `domain.recovery.check`. Nothing is executed, and tags and anchors are
unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import field
from os import PathLike, fspath
from re import compile as pattern
from typing import Any, Final

from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import content_of
from readback.contracts.documents.yaml_nodes import YamlFault, composed, pairs
from readback.contracts.problems import did_you_mean
from readback.domain.finding import Finding
from readback.domain.recovery.row import DOMAINS, Condition, ConditionValue
from readback.domain.recovery.rule import below_demand
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable, Row
from readback.errors import SettingsError

API_VERSION: Final = "readback/v1"
KIND: Final = "RecoveryTable"
TABLE_MAX_BYTES: Final = 262_144
ROWS_MAX: Final = 1_000
TEXT_MAX_CHARACTERS: Final = 500
FAULTS_TOLD_MAX: Final = 100
_ID: Final = pattern("[A-Za-z][A-Za-z0-9-]{0,63}")
_TOP: Final = ("apiVersion", "kind", "metadata", "rows")
_ROW: Final = ("id", "finding", "when", "action", "label", "rationale")
_ROW_NEEDS: Final = ("id", "finding", "action")
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TableFault:
    """One fault of a file, and its place: line and column count from 1."""

    line: int
    column: int
    said: str


def load_table(path: str | PathLike[str], *, pin: str = "") -> RecoveryTable:
    """Load the table in a YAML file. Raises SettingsError with all faults; then nothing of the file is used.

    `pin`: the required SHA-256 of the file.
    """
    name = fspath(path)
    content = read_table(name)
    if pin and sha256_hex(content) != pin:
        raise SettingsError(
            f"The recovery table {name!r} does not match the SHA-256 pinned in the settings.",
            remedy="Check the change; then pin the new hash, or restore the file.",
        )
    table, faults = parsed(content)
    if table is not None and not faults:
        return table
    told = [f"{name}:{one.line}:{one.column}: {one.said}" for one in faults[:FAULTS_TOLD_MAX]]
    raise SettingsError(
        f"The recovery table cannot be used. {'; '.join(told)}",
        remedy=f"Correct {name}; `readback table check` lists all faults. Nothing was run.",
        details={"path": name, "problems": told},
    )


def read_table(path: str) -> bytes:
    """Read the bytes of a table's file. Raises SettingsError for a missing or oversized file."""
    try:
        content = content_of(path, TABLE_MAX_BYTES, pipes=True)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"The recovery table {path!r} cannot be read: {said}.",
            remedy="Correct the path or the permissions, or omit the table to use the default one.",
        ) from error
    if len(content) > TABLE_MAX_BYTES:
        raise SettingsError(
            f"The recovery table {path!r} exceeds {TABLE_MAX_BYTES} bytes.", remedy="Make it smaller: it is not one."
        )
    return content


def parsed(content: bytes) -> tuple[RecoveryTable | None, tuple[TableFault, ...]]:
    """Parse a table. Returns None for a table with faults, and every fault in the order of the file."""
    reading = _Reading()
    try:
        reading.document(composed(content))
    except YamlFault as fault:
        reading.faults.append(TableFault(fault.line, fault.column, fault.said))
    table = None
    if not reading.faults:
        table = RecoveryTable(tuple(reading.rows))
        reading.faults.extend(_placed(reading, ((f.row, f.key, f.said) for f in table.faults())))
    else:  # what is wrong with a row by itself is said all the same; gaps would be guesses
        alone = ((f.row, f.key, f.said) for row in reading.rows for f in below_demand(row))
        reading.faults.extend(_placed(reading, alone))
    faults = tuple(sorted(reading.faults, key=lambda one: (one.line, one.column)))
    return (None if faults else table), faults


def _placed(reading: _Reading, faults: Iterable[tuple[str, str, str]]) -> Iterator[TableFault]:
    for row, key, said in faults:
        places = reading.places.get(row, {})
        yield TableFault(*(places.get(key) or places.get("id") or reading.rows_at), said)


# --- reading ---


@dataclass(slots=True)
class _Reading:
    """One file during parsing: the faults, the well-formed rows, and their places."""

    faults: list[TableFault] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    places: dict[str, dict[str, Place]] = field(default_factory=dict)
    rows_at: Place = (1, 1)

    def wrong(self, node: Any, said: str) -> None:
        self.faults.append(TableFault(*_place(node), said))

    def document(self, root: Any) -> None:
        keys = self._keys(root, "A recovery table", _TOP, ("apiVersion", "kind", "rows"))
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
            if name in keys and self._text(keys[name], name) not in (wanted, None):
                self.wrong(keys[name], f"The {name} of a recovery table is {wanted}.")
        if "metadata" in keys:
            for name, node in self._keys(keys["metadata"], "The metadata", ("name",), ()).items():
                self._text(node, name)
        rows = keys.get("rows")
        if rows is None:
            return
        self.rows_at = _place(rows)
        if rows.id != "sequence":
            self.wrong(rows, "The rows must be a list.")
        elif len(rows.value) > ROWS_MAX:
            self.wrong(rows, f"There are more than {ROWS_MAX} rows.")
        else:
            for node in rows.value:
                self._row(node)

    def _row(self, node: Any) -> None:
        before = len(self.faults)
        keys = self._keys(node, "A row", _ROW, _ROW_NEEDS)
        texts = {key: self._text(keys[key], key) for key in keys if key != "when"}
        row_id = texts.get("id")
        if row_id is not None and not _ID.fullmatch(row_id):
            self.wrong(keys["id"], f"{row_id!r} is not an id. Use up to 64 letters, digits and hyphens.")
        finding = self._word(keys.get("finding"), texts.get("finding"), Finding, "finding")
        action = self._word(keys.get("action"), texts.get("action"), RecoveryAction, "action")
        when = self._when(keys["when"]) if "when" in keys else ({},)
        if len(self.faults) > before or row_id is None or finding is None or action is None:
            return
        row = self._named(row_id, Finding(finding), RecoveryAction(action), when, texts)
        if row.id in self.places:
            self.wrong(keys["id"], f"{row.id} is given twice, first on line {self.places[row.id]['id'][0]}.")
            return
        self.rows.append(row)
        self.places[row.id] = {key: _place(value) for key, value in keys.items()}
        self._means_the_same(keys["id"], row)

    def _named(
        self, row_id: str, finding: Finding, action: RecoveryAction, when: tuple[Condition, ...], texts: Any
    ) -> Row:
        known = DEFAULT_TABLE.row(row_id)
        label = texts.get("label") or (known.label if known else finding.value.replace("_", " ").capitalize())
        rationale = texts.get("rationale") or (known.rationale if known else "")
        return Row(row_id, finding, when, action, label, rationale, ours=not row_id.startswith("REC-"))

    def _means_the_same(self, node: Any, row: Row) -> None:
        """An id of the default table keeps its meaning, so that a recorded decision stays readable."""
        known = DEFAULT_TABLE.row(row.id)
        if known is None and row.ours:
            return
        if known is None:
            self.wrong(node, f"{row.id} is not a row of the specification. Give your own row another id.")
        elif (known.finding, known.action) != (row.finding, row.action):
            meant = f"{known.action.value} for {known.finding.value}"
            self.wrong(node, f"{row.id} stands for {meant}. Give your own row another id.")

    def _when(self, node: Any) -> tuple[Condition, ...]:
        if node.id == "mapping":
            return (self._condition(node),)
        if node.id != "sequence":
            self.wrong(node, "`when` must be a condition, or a list of alternative conditions.")
            return ()
        if not node.value:
            self.wrong(
                node, "`when` is empty, so the row could never apply. Omit `when` for a row that always applies."
            )
        return tuple(self._condition(each) for each in node.value)

    def _condition(self, node: Any) -> Condition:
        found: dict[str, tuple[ConditionValue, ...]] = {}
        for name, value in self._keys(node, "A condition", tuple(DOMAINS), ()).items():
            listed = value.value if value.id == "sequence" else [value]
            if not listed:
                self.wrong(value, f"{name} has no value, so the row could never apply.")
            said = tuple(one for one in (self._value(name, each) for each in listed) if one is not None)
            if len(set(said)) < len(said):
                self.wrong(value, f"{name} lists one value twice.")
            found[name] = said
        return found

    def _value(self, name: str, node: Any) -> ConditionValue | None:
        known = {str(one).lower() if isinstance(one, bool) else one.value: one for one in DOMAINS[name]}
        said = node.value if node.id == "scalar" else None
        if isinstance(said, str) and node.style is None and said in known:
            return known[said]
        shown = repr(said) if said is not None else "That"
        self.wrong(node, f"{shown} is not a value of {name}. Valid values: {', '.join(known)}.")
        return None

    def _word(self, node: Any, said: str | None, words: type[Finding] | type[RecoveryAction], key: str) -> str | None:
        if node is None or said is None:
            return None
        known = [one.value for one in words]
        if said not in known:
            self.wrong(node, f"{said!r} is not a {key}.{did_you_mean(said, known)}")
            return None
        return said

    def _text(self, node: Any, key: str) -> str | None:
        if node.id != "scalar" or node.tag != "tag:yaml.org,2002:str" or not node.value:
            self.wrong(node, f"{key} must be text.")
            return None
        if len(node.value) > TEXT_MAX_CHARACTERS or not node.value.isprintable():
            self.wrong(node, f"{key} must be one line of at most {TEXT_MAX_CHARACTERS} characters.")
            return None
        return str(node.value)

    def _keys(self, node: Any, what: str, known: tuple[str, ...], needed: tuple[str, ...]) -> dict[str, Any]:
        """Return the values by key; an unknown, doubled or missing key is a fault at its place."""
        if node is None or node.id != "mapping":
            at = node if node is not None else None
            self.wrong(at, f"{what} must be a mapping of {', '.join(known)}.")
            return {}
        found: dict[str, Any] = {}
        for key, value in pairs(node):
            name = key.value if key.id == "scalar" else None
            if name not in known:
                self.wrong(key, f"{what} has an unknown key {name!r}.{did_you_mean(str(name), known)}")
            elif name in found:
                self.wrong(key, f"{name} is given twice.")
            else:
                found[name] = value
        for name in needed:
            if name not in found:
                self.wrong(node, f"{what} needs {name}.")
        return found


def _place(node: Any) -> Place:
    return (1, 1) if node is None else (node.start_mark.line + 1, node.start_mark.column + 1)


# --- writing ---


def table_yaml(table: RecoveryTable, name: str = "default") -> str:
    """Write the table as a file of the same version."""
    lines = [f"apiVersion: {API_VERSION}", f"kind: {KIND}", f"metadata: {{name: {json.dumps(name)}}}"]
    lines += [f"# version {table.version}", "rows:"]
    for row in table.rows:
        lines.append(f"  - id: {row.id}")
        lines.append(f"    finding: {row.finding.value}")
        if row.when != ({},):
            lines.append("    when:")
            lines += [f"      - {{{', '.join(_asked(one))}}}" for one in row.when]
        lines.append(f"    action: {row.action.value}")
        lines.append(f"    label: {json.dumps(row.label, ensure_ascii=False)}")
        if row.rationale:
            lines.append(f"    rationale: {json.dumps(row.rationale, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def _asked(condition: Condition) -> Iterator[str]:
    for name, values in condition.items():
        words = [_plain(value) for value in values]
        yield f"{name}: {words[0] if len(words) == 1 else '[' + ', '.join(words) + ']'}"


def _plain(value: ConditionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else value.value


def table_json(table: RecoveryTable) -> dict[str, Json]:
    """Return the table as data, with the consequences of each row's action."""
    return {"version": table.version, "rows": [_row_as_json(row) for row in table.rows]}


def _row_as_json(row: Row) -> Json:
    return {
        "id": row.id,
        "finding": row.finding.value,
        "when": [
            {name: [one if isinstance(one, bool) else one.value for one in values] for name, values in each.items()}
            for each in row.when
        ],
        "action": row.action.value,
        "target_state": row.target_state.value,
        "opens_review": row.opens_review,
        "opens_incident": row.opens_incident,
        "freezes": row.freezes,
        "label": row.label,
        "rationale": row.rationale,
        "ours": row.ours,
    }
