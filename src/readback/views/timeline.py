"""The timeline of one action: calls, readings and waits as spans of time, and every entry with a note.

Made from the entries of `views.action.picture`. Times are microseconds.
"""

from __future__ import annotations

from typing import Any, Final

from readback.canon.frozen import dataclass
from readback.views.fields import note_of
from readback.views.outcome_text import plain
from readback.views.text import safe, span

Picture = dict[str, Any]
ENTRIES_MAX: Final = 100
BARS_MAX: Final = 60
CALL, READ, WAIT = "call", "read", "wait"


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of time: a call of the tool, a reading, or a wait for the next reading."""

    kind: str
    label: str
    from_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One ledger entry in words."""

    version: int
    seq: int | None
    at_us: int
    after: str
    kind: str
    path: str
    note: str
    leaf: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Spans and entries in order. `left_out`: entries beyond ENTRIES_MAX, in the middle."""

    bars: tuple[Bar, ...]
    entries: tuple[EntryRow, ...]
    left_out: int

    @property
    def from_us(self) -> int:
        """The start of the first span."""
        return min((each.from_us for each in self.bars), default=0)

    @property
    def until_us(self) -> int:
        """The end of the last span."""
        return max((each.until_us for each in self.bars), default=0)


def timeline_of(events: list[Picture]) -> Timeline:
    """Return the timeline of an action's entries."""
    half = ENTRIES_MAX // 2
    shown = events if len(events) <= ENTRIES_MAX else [*events[:half], *events[-half:]]
    before = [events[0], *shown][: len(shown)]
    rows = tuple(_row(each, each["at_us"] - earlier["at_us"]) for earlier, each in zip(before, shown, strict=True))
    return Timeline(tuple(_bars(shown)[:BARS_MAX]), rows, len(events) - len(shown))


def _row(event: Picture, delta_us: int) -> EntryRow:
    after = f"+{span(delta_us)}" if delta_us >= 0 else span(delta_us)
    path = " > ".join(plain(state) for state in event["path"])
    return EntryRow(
        event["version"], event["seq"], event["at_us"], after, plain(event["kind"]), path, note_of(event), event["leaf"]
    )


def _bars(events: list[Picture]) -> list[Bar]:
    """The spans. A call without an answer ends at the entry that found the answer missing."""
    bars: list[Bar] = []
    called: Picture | None = None
    waits_from = 0
    for event in events:
        kind, data, at_us = event["kind"], event["data"], event["at_us"]
        begins = data["started"] if kind == "read" else at_us
        if waits_from and begins > waits_from:
            bars.append(Bar(WAIT, f"waited {span(begins - waits_from)}", waits_from, begins))
        waits_from = 0
        if kind == "read":
            label = f"{data['role']} reading of {safe(data['source'], 60)}, {span(data['finished'] - data['started'])}"
            bars.append(Bar(READ, label, data["started"], data["finished"]))
        elif kind == "attempted":
            called = event
        elif called is not None and kind in ("observed", "resumed"):
            ended = data.get("ended", at_us)
            answer = "no answer" if kind == "resumed" else plain(str(data.get("status", "")))
            label = f"call {called['data']['attempt']}: {safe(answer, 60)}, {span(ended - called['at_us'])}"
            bars.append(Bar(CALL, label, called["at_us"], ended))
            called = None
        elif kind == "judged" and isinstance(data.get("due"), int):
            waits_from = at_us
    return bars
