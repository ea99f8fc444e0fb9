"""The picture of one action on one screen, at most 40 lines. `show -v` draws everything.

Every outside value passes through `safe` or `value`. No line is wider than the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from readback.cli.actions.render import safe_lines, sign_of
from readback.cli.terminal import NONE, mark, moment, safe, value
from readback.domain.outcome.outcome import Outcome
from readback.views.fields import watched_text
from readback.views.labels import ATTRIBUTION, outcome_label
from readback.views.outcome_text import headline, mark_of, plain, shadow_lines, verdict_text

LINES_MAX: Final = 40
POSTCONDITIONS_MAX: Final = 8
VALUES_MAX: Final = 8
EVENTS_MAX: Final = 8
MESSAGE_LINES_MAX: Final = 8
TIME_OF_DAY: Final = slice(len("2026-01-01 "), len("2026-01-01 00:00:00"))
DAY: Final = slice(len("2026-01-01"))

Picture = dict[str, Any]
Line = tuple[str, str]
"""The mark before a line ("" for none) and the text."""


def draw_brief(outcome: Outcome, picture: Picture, console: Console) -> None:
    """Draw the outcome of the action on one screen."""
    console.print(_cut(mark_of(outcome), headline(outcome), console.width, style="bold"))
    message = safe_lines(outcome.message)
    wrapped = Text(message.strip()).wrap(console, max(console.width - 2, 20))[:MESSAGE_LINES_MAX]
    for number, line in enumerate(wrapped, 1):
        more = "…" if number == MESSAGE_LINES_MAX and not message.rstrip().endswith(line.plain.rstrip()) else ""
        console.print(Text(f"  {line.plain.rstrip()}{more}"), no_wrap=True, crop=True)
    body = [*_facts(outcome, picture), *_postconditions(outcome, picture), *_values(picture), *_events(picture)]
    room = LINES_MAX - 2 - len(wrapped)
    for sign, said in body[:room]:
        console.print(_cut(sign, said, console.width))
    console.print(_cut("", f"All of it: readback show {outcome.id} -v", console.width))


def _cut(sign: str, said: str, width: int, *, style: str = "") -> Text:
    line = Text.assemble(mark(sign), " ", (said, style)) if sign else Text(said, style=style)
    line.truncate(max(width - 1, 20), overflow="ellipsis")
    line.no_wrap = True
    return line


def _facts(outcome: Outcome, picture: Picture) -> Iterator[Line]:
    watch = picture["watch"]
    found = [
        ("outcome", outcome_label(outcome)),
        ("verdict", verdict_text(outcome.verdict, outcome.why)),
        *(("shadow", line) for line in shadow_lines(outcome)),
        ("cause", ATTRIBUTION[outcome.attribution]),
        ("discrepancy", plain(outcome.discrepancy.value) if outcome.discrepancy else ""),
        ("trust level", f"{picture['level']['number']} ({picture['level']['means']})"),
        ("repetition", "allowed" if outcome.repeat_allowed else "not allowed"),
        ("operation", safe(outcome.operation)),
        ("code", safe(outcome.code)),
        ("detail", safe(outcome.detail)),
        ("review", safe(outcome.review)),
        ("approval", safe(outcome.approval)),
        ("incident", safe(outcome.incident)),
        ("reversal", safe(outcome.compensation)),
        ("looked at again", moment(outcome.due_us) if outcome.due_us is not None else ""),
        ("last look", f"could not tell ({plain(watch['why'])})" if watch and watch["failing"] else ""),
        ("watched", watched_text(watch)),
        ("erased", f"its payloads, at {moment(outcome.erased_us)}" if outcome.erased else ""),
        ("claims", "; ".join(f"{plain(each.kind)}: {plain(each.status)}" for each in outcome.claims)),
        ("stamp", safe(outcome.stamp)),
    ]
    width = max(len(name) for name, said in found if said)
    for name, said in found:
        if said:
            yield "", f"  {name:{width}}  {said}"


def _postconditions(outcome: Outcome, picture: Picture) -> Iterator[Line]:
    found = picture["postconditions"]
    if not found:
        return
    yield "", "Postconditions"
    for each in found[:POSTCONDITIONS_MAX]:
        values = ", ".join(f"{safe(path, 60)} = {value(shown, 60)}" for path, shown in each["values"][:2])
        sign = sign_of(each["truth"], verified=outcome.standing)
        yield sign, f"{safe(each['name'], 40)}: {safe(each['source'], 80)}" + (f"  [{values}]" if values else "")
    yield from _more(len(found) - POSTCONDITIONS_MAX, "postconditions")


def _values(picture: Picture) -> Iterator[Line]:
    read, before = picture["states"].get("authoritative"), picture["states"].get("before")
    if not isinstance(read, dict) or not read:
        return
    yield "", "The record that was read"
    for name in list(read)[:VALUES_MAX]:
        was = f"  (before: {value(before.get(name), 40)})" if isinstance(before, dict) and name in before else ""
        yield "", f"  {safe(name, 40)}: {value(read[name], 60)}{was}"
    yield from _more(len(read) - VALUES_MAX, "fields")


def _events(picture: Picture) -> Iterator[Line]:
    found = picture["events"]
    yield "", f"Events, {len(found)} in all, from {safe(found[0]['at'])}" if found else "No events"
    for each in found[-EVENTS_MAX:]:
        path = " > ".join(plain(state) for state in each["path"])
        yield NONE, f"{_when(each['at'], found[0]['at'])}  {plain(each['kind'])}" + (f"  {path}" if path else "")


def _when(at: str, first: str) -> str:
    """The time of day, with the date if the day differs from the first event's day."""
    return at[TIME_OF_DAY] if at[DAY] == first[DAY] else at[: TIME_OF_DAY.stop]


def _more(count: int, what: str) -> Iterator[Line]:
    if count > 0:
        yield "", f"  and {count} more {what}"
