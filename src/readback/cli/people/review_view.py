"""Draw a review case. Every outside value passes through `safe` or `value`, without markup. Decides nothing."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.text import Text

from readback.cli.actions.render import facts, grid, identity, postconditions, section, side_by_side
from readback.cli.terminal import BAD, NONE, OK, OPEN, mark, moment, quoted_name, safe
from readback.domain.people.review import ReviewCase
from readback.views.outcome_text import plain, verdict_text

STATES: Final = ("intended", "requested", "observed", "before", "authoritative")
HISTORY_MAX: Final = 40
CHANGED_SHOWN_MAX: Final = 8


def draw(packet: ReviewCase, console: Console, where: str) -> None:
    """Print the possible decisions first and the evidence after them."""
    body: dict[str, Any] = packet.as_json()
    title = f"{plain(packet.state).upper()}  {safe(body['contract'])} on {quoted_name(body['target'])}"
    console.print(Text.assemble(mark(OPEN if packet.reason else NONE), " ", (title, "bold")))
    console.print(facts(_summary(packet, body)))
    section(console, "States side by side", side_by_side({name: body.get(name) for name in STATES}))
    ensure = body.get("postconditions")
    section(console, "Postconditions", postconditions(ensure) if isinstance(ensure, list) else None)
    found = body.get("identity")
    section(console, "Identity of what was read", identity(found) if isinstance(found, list) else None)
    section(console, "Steps", _steps(body.get("steps")))
    section(console, "Decision", facts(_decision(body["decision"])))
    section(console, "So far", _history(body.get("history")))
    section(console, "What may be decided", _choices(packet))
    for one in packet.choices:
        if one.open:
            command = f"readback review resolve {packet.id} --decision {one.decision.value}"
            console.print(
                Text(f"\nNext: {command} --expect-version {packet.version} --reason TEXT{where}"), soft_wrap=True
            )
            break


def _summary(packet: ReviewCase, body: dict[str, Any]) -> list[tuple[str, str]]:
    found = body["discrepancy"]
    incidents = ", ".join(f"{i['id']} ({i['severity']})" for i in body["incidents"])
    return [
        ("id", packet.id),
        ("version", str(packet.version)),
        ("why", plain(safe(packet.reason)) or "nothing waits for a person (any more)"),
        ("class", plain(body["side_effect"])),
        ("verdict", verdict_text(body["verdict"], body["why"])),
        ("discrepancy", f"{plain(found['class'])}: {found['definition']}" if found else ""),
        ("attribution", plain(body["attribution"])),
        ("effect", "a reading shows one" if body["effect_shown"] else "no reading shows one"),
        ("code", safe(body["code"])),
        ("detail", safe(body["detail"])),
        ("hold", safe(body["hold"])),
        ("attested", plain(body["resolution"])),
        ("contested", "a later reading contradicts it" if body["contested"] else ""),
        ("drifted", _drift(body.get("drift"))),
        ("break glass", safe(body["break_glass"])),
        ("reversal", safe(body["compensation"])),
        ("frozen", safe(", ".join(body["freezes"]))),
        ("incidents", safe(incidents)),
        ("asked for by", safe(body["principal"])),
        ("operation", safe(body["operation"])),
        ("erased", f"its payloads, at {moment(body['erased_us'])}" if body["erased_us"] else ""),
        ("signature", "needed: it is a critical mutation" if body["needs_signature"] else ""),
    ]


def _drift(found: Any) -> str:
    if not isinstance(found, dict):
        return ""
    changed = ", ".join(safe(path, 80) for path in found["changed"][:CHANGED_SHOWN_MAX]) or "what cannot be shown"
    return f"last seen to hold at {moment(found['held_us'])}; since then changed: {changed}"


def _decision(found: dict[str, Any]) -> list[tuple[str, str]]:
    if not found["row"]:
        return []
    return [
        ("row", safe(found["row"])),
        ("finding", plain(found["finding"])),
        ("decided", plain(found["action"])),
        ("because", safe(found["rationale"])),
    ]


def _steps(found: Any) -> Any:
    """The steps, for a saga."""
    table = grid("step", "region", "state", "action", "reversal", "")
    for each in found if isinstance(found, list) else []:
        undone = f"{each['reversal']} {plain(each['reversal_state'])}".strip()
        texts = (each["step"], each["region"], plain(each["state"]), each["action"], undone, each["detail"])
        table.add_row(*(Text(safe(text)) for text in texts))
    return table


def _history(found: Any) -> Any:
    table = grid("version", "time", "event", "states", "row")
    for each in (found if isinstance(found, list) else [])[-HISTORY_MAX:]:
        if "$cut" in each:
            table.add_row("", "", Text(f"({safe(each['$cut'])} left out)"), "", "")
            continue
        path = " > ".join(plain(state) for state in each["path"])
        kind, row = Text(plain(each["kind"])), Text(safe(each["row"]))
        table.add_row(str(each["version"]), moment(each["at_us"]), kind, Text(path), row)
    return table


def _choices(packet: ReviewCase) -> Any:
    table = grid("", "decision", "what it will do")
    for one in packet.choices:
        said = one.will if one.open else f"Not possible: {one.why_not}"
        table.add_row(mark(OK if one.open else BAD), Text(one.decision.value), Text(said))
    return table
