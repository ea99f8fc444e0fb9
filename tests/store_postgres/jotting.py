"""An action in the memory of one process: what is jotted down is there, and is read back."""

from __future__ import annotations

from typing import Any

from readback import Context, Reading, action

NOTES: dict[str, dict[str, Any]] = {}


@action(
    name="jot",
    kind="set",
    side_effect="low_risk_internal",
    target="note/{requested.text}",
    identity={"target": "authoritative.id", "tenant": "not_offered"},
    ensure={"written": "authoritative.text == requested.text"},
    within="10s",
    late_window="1s",
    polls=["0s", "1s"],
)
def jot(ctx: Context, text: str) -> object:
    """Writes it down."""
    NOTES[text] = {"id": text, "text": text}
    return {"status": "ok"}


@jot.read(source="notes", consistency="strong", independence="other_client")
def note_of(ctx: Context, text: str) -> Reading:
    """What is written."""
    return Reading.of(NOTES[text]) if text in NOTES else Reading.absent()
