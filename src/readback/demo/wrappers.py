"""Well-meant wrappers around tools, and their effects on an answer.

Some tools of the demo's contracts use a wrapper for every call; without faults the wrappers do no harm. Each wrapper
stands for a pattern of the action verification specification ("Hallucinated Success Patterns"). Readback treats the
answers of all wrappers as evidence only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

Call = Callable[[], "httpx.Response"]


def blindly_retried(call: Call) -> httpx.Response:
    """HS-06: retry every server error. The first call may have had its effect."""
    answer = call()
    return call() if answer.status_code >= 500 else answer


def politely(call: Call, done: str) -> dict[str, object]:
    """HS-02: summarise a refusal as success."""
    answer = call()
    refused = 400 <= answer.status_code < 500
    return {"status": "done", "message": done, "notes": 1 if refused else 0}


def in_prose(call: Call) -> str:
    """HS-10: the answer as text for the model. An error reads like any other sentence."""
    answer = call()
    body = answer.json()
    said = body.get("message") or " ".join(str(body[name]) for name in ("id", "status") if name in body)
    return f"Request processed: {said}."
