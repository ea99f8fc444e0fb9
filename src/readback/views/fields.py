"""Fields of an action for people: the five states side by side, and a note for each reading and event.

Every outside value appears on one line, without control characters. Decides nothing.
"""

from __future__ import annotations

from typing import Any, Final

from readback.canon import Json, json_text
from readback.canon.frozen import dataclass
from readback.views.outcome_text import plain, verdict_text
from readback.views.state_help import OVER
from readback.views.text import safe, span, value

COLUMNS: Final = ("intended", "requested", "observed", "before", "authoritative")
FIELDS_MAX: Final = 40
DEPTH_MAX: Final = 4
CELL_MAX_CHARACTERS: Final = 120
_ABSENT: Final = object()
Picture = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field in the shown states. `differs`: the system of record shows another value than intended or requested."""

    field: str
    cells: tuple[str, ...]
    differs: bool


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The states with a value, one row a field. `left_out`: the number of fields beyond FIELDS_MAX."""

    columns: tuple[str, ...]
    rows: tuple[FieldRow, ...]
    left_out: int


def side_by_side(states: dict[str, Json]) -> SideBySide:
    """The states without the empty ones, by field. Fields with a difference between intent and reading are marked."""
    flat = {name: _flat(states[name]) for name in COLUMNS}
    shown = tuple(name for name in COLUMNS if flat[name])
    found = list(dict.fromkeys(field for name in shown for field in flat[name]))
    # Without a stated intent the request counts, in the fields that the system of record has too: an argument's name is
    # often no field of the record.
    read = flat["authoritative"]
    wanted = flat["intended"] or {field: value for field, value in flat["requested"].items() if field in read}
    rows = tuple(
        FieldRow(
            field or "(value)",
            tuple(_cell(flat[name][field]) if field in flat[name] else "" for name in shown),
            bool(read) and field in wanted and not _equal(wanted[field], read.get(field, _ABSENT)),
        )
        for field in found[:FIELDS_MAX]
    )
    return SideBySide(shown, rows, max(len(found) - FIELDS_MAX, 0))


def _equal(wanted: object, read: object) -> bool:
    """Whole values are compared, not the cut texts of the cells."""
    return read is not _ABSENT and json_text(wanted, sort_keys=True) == json_text(read, sort_keys=True)


def _flat(state: Json, path: str = "", depth: int = 0) -> dict[str, Json]:
    """Values by dotted path."""
    if state is None and not path:
        return {}
    if isinstance(state, dict) and state and depth < DEPTH_MAX and not _is_mark(state):
        found: dict[str, Json] = {}
        for key, below in state.items():
            found |= _flat(below, f"{path}.{safe(key, 40)}" if path else safe(key, 40), depth + 1)
        return found
    return {path: state}


def _cell(leaf: Json) -> str:
    return _mark_text(leaf) if _is_mark(leaf) else value(leaf, CELL_MAX_CHARACTERS)


def _is_mark(state: Json) -> bool:
    return isinstance(state, dict) and len(state) == 1 and next(iter(state)).startswith("$")


def _mark_text(state: Json) -> str:
    assert isinstance(state, dict)
    return f"({safe(next(iter(state)).removeprefix('$'))})"


def shows(reading: Picture) -> str:
    """The content of a reading in a few words."""
    if reading["fault"] != "none":
        return f"{plain(reading['fault'])}: {reading['error']}"
    parts = [plain(reading["presence"])]
    parts += ["incomplete"] if not reading["complete"] else []
    parts += ["of another target: content withheld"] if reading["withheld"] else []
    parts += [f"stamp {reading['stamp']}"] if reading["stamp"] else []
    parts += [f"author {reading['author']}"] if reading["author"] else []
    return ", ".join(parts)


def note_of(event: Picture) -> str:
    """A note for the timeline, by event kind."""
    d = event["data"]
    match event["kind"]:
        case "attempted":
            said = f"attempt {d['attempt']}, at most {span(d['timeout'])}"
        case "observed":
            said = f"tool: {d.get('status')}" + (f" ({d['code']})" if d.get("code") else "")
        case "read":
            said = f"{d['role']}: {shows(d)}"
        case "judged":
            said = f"{verdict_text(str(d['verdict']), str(d['why']))}, {d['row']}: {plain(d['recovery'])}"
        case "rejected":
            said = f"{d.get('code', '')}: {d.get('detail', '')}"
        case "held":
            said = f"{d.get('hold', '')}: {d.get('detail', '')}"
        case _:
            names = ("how", "status", "by", "approver", "action", "owner", "error")
            words = [f"{name} {d[name]}" for name in names if d.get(name)]
            said = ", ".join(words)
    return safe(said, CELL_MAX_CHARACTERS)


def watched_text(found: Picture | None) -> str:
    """The result of the watch after success in a few words, or "" without a watch."""
    if found is None:
        return ""
    said = f"{found['looks']} looks since, last seen to hold at {found['held_at']}"
    if found["drifted"]:
        said += "; it has drifted"
    if found["failing"]:
        said += f"; the last {found['failing']} could not tell ({plain(found['why'])})"
    over = OVER[found["over"]] if found["next_us"] is None else f"until {found['until']}"
    return f"{said}; {over}"
