"""Draw the picture of one action for `show -v`. Every outside value passes through `safe` or `value`, without markup.

The module orders the parts and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from readback.canon import Json
from readback.cli.terminal import BAD, NONE, OPEN, mark, moment, safe, span, value
from readback.domain.outcome.outcome import Outcome
from readback.domain.predicate import Truth
from readback.views import fields
from readback.views.fields import CELL_MAX_CHARACTERS, note_of, shows, watched_text
from readback.views.labels import ATTRIBUTION, outcome_label
from readback.views.outcome_text import MARK_OF_TRUTH, headline, mark_of, plain, shadow_lines, verdict_text

HASH_SHOWN: Final = 12
TIME_OF_DAY: Final = len("2026-01-01 ")
EVENTS_MAX: Final = 200
NO_PLACE: Final = "-"
"""Shown for an entry without a sequence number."""

Picture = dict[str, Any]


def draw(outcome: Outcome, picture: Picture, console: Console) -> None:
    """Draw the whole picture, most important facts first, audit details last."""
    console.print(Text.assemble(mark(mark_of(outcome)), " ", (headline(outcome), "bold")))
    console.print(Text(f"  {outcome.message}"))
    console.print(facts(_summary(outcome, picture)))
    section(console, "Postconditions", postconditions(picture["postconditions"], verified=outcome.standing))
    section(console, "States side by side", side_by_side(picture["states"]))
    section(console, "Identity of what was read", identity(picture["identity"], verified=outcome.standing))
    section(console, "Readings", _readings(picture["readings"]))
    section(console, "Discrepancy", facts(_discrepancy(picture["discrepancy"])))
    section(console, "Decision", facts(_decision(picture["decision"])))
    section(console, "Approval", facts(_approval(picture["approval"])))
    section(console, f"Lifecycle, from {picture['events'][0]['at']}", _lifecycle(picture["events"]))
    section(console, "Record", facts(_record(outcome, picture)))
    section(console, "What the model may be told", Text(safe_lines(picture["said"]["model"])))


def safe_lines(text: str) -> str:
    """Our own text of several lines, each escaped."""
    return "\n".join(f"  {safe(line, 2000)}" for line in text.split("\n"))


def section(console: Console, title: str, body: Table | Text | None) -> None:
    if body is None or (isinstance(body, Table) and not body.rows):
        return
    console.print()
    console.print(Text(title, style="bold"))
    console.print(body)


def grid(*names: str) -> Table:
    table = Table(box=None, pad_edge=True, show_edge=False, header_style="dim", show_header=any(names))
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    table = grid("", "")
    for name, said in pairs:
        if said:
            table.add_row(Text(name, style="dim"), Text(said))
    return table


def _approval(found: Picture) -> list[tuple[str, str]]:
    if not found["required"]:
        return []
    people = "1 person" if found["people"] == 1 else f"{found['people']} people"
    return [
        ("approval", safe(found["approval_id"])),
        ("needs", people),
        ("signed by", safe(", ".join(found["signed_by"]) or "no approver yet")),
        ("denied by", safe(found["denied_by"])),
        ("bytes, SHA-256", safe(found["payload_hash"])),
        ("until", safe(found["expires_at"])),
        ("policy", safe(found["policy_version"][:HASH_SHOWN])),
    ]


def _summary(outcome: Outcome, picture: Picture) -> list[tuple[str, str]]:
    level = picture["level"]
    status = picture["status"]
    repeat = "allowed" if outcome.may_repeat else "not allowed"
    return [
        ("state", f"{outcome_label(outcome)} (stored: {outcome.state.value})"),
        ("verdict", verdict_text(outcome.verdict, outcome.why)),
        *(("shadow", line) for line in shadow_lines(outcome)),
        ("discrepancy", plain(outcome.discrepancy.value) if outcome.discrepancy else "none"),
        ("attribution", f"{ATTRIBUTION[outcome.attribution]} (stored: {outcome.attribution.value})"),
        ("trust level", f"{level['number']} ({level['means']})"),
        ("record", ", ".join(f"{name} {said}" for name, said in status.items())),
        ("repetition", repeat),
        ("contested", "the earlier finding is contradicted" if outcome.contested else ""),
        ("claims", "; ".join(f"{plain(each.kind)}: {plain(each.status)}" for each in outcome.claims)),
        ("fallen", safe(", ".join(outcome.fallen))),
        ("parts", _parts(outcome)),
        ("code", safe(outcome.code)),
        ("detail", safe(outcome.detail)),
        ("due", moment(outcome.due_us) if outcome.due_us is not None else ""),
        ("watched", watched_text(picture["watch"])),
        ("hold", safe(outcome.hold)),
        ("attested", plain(outcome.resolution)),
        ("review", safe(outcome.review)),
        ("incident", safe(outcome.incident)),
        ("compensation", safe(outcome.compensation)),
        ("erased", f"its payloads, at {moment(outcome.erased_us)}" if outcome.erased else ""),
    ]


def _parts(outcome: Outcome) -> str:
    if not outcome.parts_done and not outcome.parts_open:
        return ""
    done, open_ = ", ".join(outcome.parts_done) or "none", ", ".join(outcome.parts_open) or "none"
    return safe(f"done: {done}; open: {open_}")


def sign_of(truth: str, *, verified: bool) -> str:
    """The mark of a truth. A verified outcome has no red mark; a later contrary reading is open."""
    sign = MARK_OF_TRUTH[Truth(truth)]
    return OPEN if verified and sign == BAD else sign


def postconditions(found: list[Picture], *, verified: bool = False) -> Table:
    table = grid("", "name", "postcondition", "values", "reason")
    for each in found:
        name = f"{each['group']}: {each['name']}" if each["group"] else each["name"]
        values = "\n".join(f"{safe(path, 80)} = {value(v, CELL_MAX_CHARACTERS)}" for path, v in each["values"])
        sign = mark(sign_of(each["truth"], verified=verified))
        said = f"{plain(each['truth'])}: {safe(each['reason'])}" if each["reason"] else plain(each["truth"])
        table.add_row(sign, Text(safe(name)), Text(safe(each["source"])), Text(values), Text(said))
    return table


def side_by_side(states: dict[str, Json]) -> Table:
    """One row a field, one column a state, without empty columns."""
    found = fields.side_by_side(states)
    table = grid("field", *found.columns)
    for row in found.rows:
        table.add_row(Text(row.field, style="dim"), *(Text(cell) for cell in row.cells))
    if found.left_out:
        table.add_row(Text(f"and {found.left_out} more: --json has them"), *("" for _ in found.columns))
    return table


def identity(found: list[Picture], *, verified: bool = False) -> Table:
    table = grid("", "key", "expected", "found")
    for each in found:
        try:
            sign = mark(sign_of(each["truth"], verified=verified))
        except ValueError:
            sign = mark(NONE)  # the source offers no such value
        expected, actual = value(each["expected"], CELL_MAX_CHARACTERS), value(each["actual"], CELL_MAX_CHARACTERS)
        table.add_row(sign, Text(safe(each["key"])), Text(expected), Text(actual))
    return table


def _readings(found: list[Picture]) -> Table:
    table = grid("role", "source", "reader", "consistency", "independence", "shows", "as of", "took", "seq")
    for each in found[:EVENTS_MAX]:
        as_of = moment(each["source_as_of"]) if each["source_as_of"] else ""
        version = f"version {each['source_version']}" if each["source_version"] is not None else ""
        table.add_row(
            *(Text(safe(plain(each[name]))) for name in ("role", "source", "reader", "consistency", "independence")),
            Text(safe(shows(each))),
            Text(safe(" ".join(part for part in (as_of, version) if part) or "not said")),
            Text(span(each["finished"] - each["started"])),
            Text(str(each["seq"] or NO_PLACE)),
        )
    return table


def _discrepancy(found: Picture | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    return [
        ("class", f"{found['class']} ({found['code']}, severity {found['severity']} of 11)"),
        ("means", found["definition"]),
        ("usual recovery", found["recovery"]),
    ]


def _decision(found: Picture | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    table = found["table"][:HASH_SHOWN]
    whose = "" if found["ours"] is None else " (ours)" if found["ours"] else " (of the specification)"
    other = "" if found["table_is_present_one"] else "; another table than the present one, so its words are not here"
    return [
        ("row", f"{safe(found['row'])}{whose}"),
        ("finding", plain(found["finding"])),
        ("condition", safe(found["condition"])),
        ("decided", plain(found["action"])),
        ("because", safe(found["rationale"])),
        ("table", f"version {safe(table)}{other}"),
    ]


def _lifecycle(events: list[Picture]) -> Table:
    table = grid("version", "time", "after", "event", "states", "note", "seq", "leaf")
    for each in events[:EVENTS_MAX]:
        table.add_row(
            str(each["version"]),
            each["at"][TIME_OF_DAY:],
            f"+{span(each['delta_us'])}" if each["delta_us"] >= 0 else span(each["delta_us"]),
            Text(plain(each["kind"])),
            Text(" > ".join(plain(state) for state in each["path"])),
            Text(note_of(each)),
            str(each["seq"] or NO_PLACE),
            each["leaf"][:HASH_SHOWN],
        )
    return table


def _record(outcome: Outcome, picture: Picture) -> list[tuple[str, str]]:
    key, context, lease = picture["key"], picture["context"], picture["lease"]
    contract = picture["contract"]
    made_for = ", ".join(f"{name} {said}" for name, said in context.items() if said and name not in ("schema",))
    kind = f"{plain(contract.get('kind', ''))}, {plain(contract.get('side_effect', ''))}" if contract else ""
    held = f"{lease['owner']}, fence {lease['fence']}" + (" (gone)" if lease["owner_is_gone"] else "") if lease else ""
    return [
        ("id", outcome.id),
        ("operation", safe(outcome.operation)),
        ("tenant", safe(outcome.tenant)),
        ("principal", safe(outcome.principal)),
        ("contract", safe(f"{outcome.contract} {outcome.contract_version}, {picture['contract_hash'][:HASH_SHOWN]}")),
        ("kind", safe(kind)),
        ("attempts", str(outcome.attempts)),
        ("key", safe(f"{key['text']} ({key['status'] or 'not reserved'})")),
        ("stamp", safe(outcome.stamp)),
        ("made for", safe(made_for)),
        ("lease", safe(held)),
        ("ledger head", outcome.ledger_entry),
    ]
