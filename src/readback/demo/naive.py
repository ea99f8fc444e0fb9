"""The naive agent: believes and reports the answers of tools. Also the notes of these answers, and careless wrappers.

The naive agent receives the same answers of the same calls as Readback. Its rules are common among agents. Nothing here
knows the faults:

    the tool returned, and no HTTP status says otherwise    done
    the tool answered with an HTTP status of 400 or more    failed
    the tool timed out, or never answered                   failed, and tried again
    the tool raised anything else                           failed
    the model itself claims success                         done
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from readback import Context
from readback.canon.frozen import dataclass
from readback.demo.desk import TENANT, TOOL_TIMEOUT_S, desk

if TYPE_CHECKING:
    import httpx

P = ParamSpec("P")
R = TypeVar("R")
TEXT_MAX: Final = 2_000
TRIES: Final = 2
TRIP_STEPS: Final = {
    "flights": "hold a seat",
    "hotel": "book a room",
    "car": "reserve a car",
    "payments": "charge the card",
    "tickets": "issue the tickets",
}


class Claim(StrEnum):
    """A report to the user about an action."""

    DONE = "done"
    REVERSED = "reversed"
    FAILED = "failed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Told:
    """A claim and its words."""

    claim: Claim
    words: str


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer of one call. `status`: the HTTP status of a response. `raised`: the names of an exception's types."""

    stamp: str
    operation: str = ""
    status: int | None = None
    text: str = ""
    raised: str = ""


def tell(task: str, heard: Sequence[Heard]) -> Told:
    """The naive agent's report about a task, from the first answer."""
    if not heard:
        return Told(Claim.FAILED, f"No answer, trying again: {task}.")
    answer = heard[0]
    if "Timeout" in answer.raised:
        return Told(Claim.FAILED, f"Timed out, trying again: {task}.")
    if answer.raised or (answer.status is not None and answer.status >= 400):
        return Told(Claim.FAILED, f"Failed: {task}.")
    return repeat(task)


def repeat(task: str) -> Told:
    """The naive agent's report of an action claimed by a tool or by the model. The agent does not check for a call."""
    return Told(Claim.DONE, f"Done: {task}.")


# --- the notes of all tool answers: the naive agent's only source. They also count the real calls. ---


def overheard(function: Callable[Concatenate[Context, P], R]) -> Callable[Concatenate[Context, P], R]:
    """Decorator below `@action`: note the tool's answer or exception, and pass it on unchanged."""

    @wraps(function)
    def listening(ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            answer = function(ctx, *args, **kwargs)
        except Exception as error:
            kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
            _note(Heard(ctx.stamp, ctx.operation, None, str(error)[:TEXT_MAX], kinds))
            raise
        status = getattr(answer, "status_code", None)
        said: object = getattr(answer, "text", "") if isinstance(status, int) else getattr(answer, "answer", answer)
        text = said if isinstance(said, str) else json.dumps(said, default=str)
        _note(Heard(ctx.stamp, ctx.operation, status, text[:TEXT_MAX]))
        return answer

    return listening


def _note(heard: Heard) -> None:
    """Write one line in one write, so that threads and processes do not mix lines. Does nothing without a file."""
    if desk.overheard == Path():
        return
    file = os.open(desk.overheard, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(asdict(heard)).encode() + b"\n")
    finally:
        os.close(file)


def all_heard(path: Path) -> list[Heard]:
    """All notes, in order of arrival."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Heard(**json.loads(line)) for line in lines]


# --- well-meant wrappers around tools. Each stands for a pattern of the action verification specification. ---


def blindly_retried(call: Callable[[], httpx.Response]) -> httpx.Response:
    """HS-06: retry every server error. The first call may have had its effect."""
    answer = call()
    return call() if answer.status_code >= 500 else answer


def politely(call: Callable[[], httpx.Response], done: str) -> dict[str, object]:
    """HS-02: summarise a refusal as success."""
    return {"status": "done", "message": done, "notes": int(400 <= call().status_code < 500)}


def in_prose(call: Callable[[], httpx.Response]) -> str:
    """HS-10: the answer as text for the model. An error reads like any other sentence."""
    body = call().json()
    said = body.get("message") or " ".join(str(body[name]) for name in ("id", "status") if name in body)
    return f"Request processed: {said}."


# --- the naive agent books a trip: one step after the other, believes each reply, and reverses nothing ---


class GaveUpError(Exception):
    """A step failed, from the naive agent's view."""


@dataclass(frozen=True, slots=True)
class NaiveAgent:
    """Sends HTTP requests to the providers, like a model with five plain tools. No answer means: try again."""

    client: httpx.Client

    def book(self, trip: str, wanted: dict[str, str]) -> Told:
        """Book the trip, and return the report to the user. The inputs of a step are the replies of earlier steps."""
        replies: dict[str, dict[str, Any]] = {}
        for book, step in TRIP_STEPS.items():
            details: dict[str, object] = {"what": wanted.get(book)}
            if book == "payments":
                details = {"cents": sum(int(replies[each].get("cents", 0)) for each in wanted)}
            if book == "tickets":
                details = {"what": replies["flights"].get("id"), "paid_by": replies["payments"].get("id")}
            try:
                replies[book] = self._call(book, {"trip": trip, **details})
            except GaveUpError:
                return Told(Claim.FAILED, f"Failed: {step}. The trip was not booked.")
        return Told(Claim.DONE, "Done: the trip is booked.")

    def _call(self, book: str, body: dict[str, object]) -> dict[str, Any]:
        import httpx

        for _ in range(TRIES):
            try:
                answer = self.client.post(f"/{book}", json=body)
            except httpx.TransportError:
                continue
            if answer.status_code < 400:
                reply: dict[str, Any] = answer.json()
                return reply
            break
        raise GaveUpError(book)


def naive_client(providers_url: str) -> httpx.Client:
    """The naive agent's own connection. The caller closes it."""
    import httpx

    headers = {"X-Tenant": TENANT, "X-Actor": "agent:naive"}
    return httpx.Client(base_url=providers_url, headers=headers, timeout=TOOL_TIMEOUT_S, trust_env=False)
