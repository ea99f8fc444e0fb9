"""A notebook in memory: what is written is there, but for what gets lost."""

from __future__ import annotations

import itertools

from readback import Context, Reading, action
from readback.testing.runtime_virtual import VirtualRuntime

NOTES: dict[str, str] = {}
_SEEDS = itertools.count(1)


def runtime() -> VirtualRuntime:
    """One that makes ids of its own, as another process would."""
    return VirtualRuntime(seed=next(_SEEDS))


@action(
    name="stamp_note",
    kind="set",
    side_effect="low_risk_internal",
    target="note/{requested.text}",
    identity={"target": "authoritative.id", "tenant": "not_offered"},
    ensure={"written": "authoritative.text == requested.text"},
    within="10s",
    late_window="1s",
    polls=["1s"],
)
def stamp_note(ctx: Context, text: str) -> object:
    """Writes it down."""
    if text != "lost":
        NOTES[text] = text
    return {"status": "ok"}


@stamp_note.read(source="notes", consistency="strong", independence="other_client")
def note_of(ctx: Context, text: str) -> Reading:
    """What is written."""
    return Reading.of({"id": text, "text": NOTES[text]}) if text in NOTES else Reading.absent()
