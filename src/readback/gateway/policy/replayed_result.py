"""What a tool answered, out of the ledger: for a call that is answered from the record.

Asked by the gate and the own tools. Only an answer that was kept whole is handed on: what was shortened or redacted
when it was recorded would pass for the tool's own words.
"""

from __future__ import annotations

from readback.canon import Json
from readback.domain.outcome.outcome import Outcome
from readback.domain.verification.change import is_withheld


def content_of(outcome: Outcome) -> dict[str, Json] | None:
    """The recorded `tools/call` result; None where it is not there, or not whole."""
    seen = outcome.observation
    body = None if seen is None else seen.body
    if not isinstance(body, dict) or not isinstance(body.get("content"), list) or _is_cut(body):
        return None
    return body


def _is_cut(value: Json) -> bool:
    if is_withheld(value):
        return True
    if isinstance(value, dict):
        return any(_is_cut(part) for part in value.values())
    return isinstance(value, list) and any(_is_cut(part) for part in value)
