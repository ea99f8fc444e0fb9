"""What several handlers share: the outcome as JSON, its status, waiting, and the ids of a request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from readback.canon import Json, parse_json
from readback.canon.fault import CanonError
from readback.client.session import check_id
from readback.domain.contract.approval import HOLD
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import TERMINAL, State
from readback.errors import ArgumentError, NotFoundError, ProposalError, UnknownOutcomeError
from readback.server.errors import BodyError, IdempotencyKeyError, ServerBusyError
from readback.server.ledgers import ActionHandle, ServerClient
from readback.server.routing import Call, Reply

T = TypeVar("T")
FINAL: Final = TERMINAL - {State.REVIEW_REQUIRED}
"""States that are known and final. HTTP says 200 for each of them, also for a failure."""
OK: Final = 200
ACCEPTED: Final = 202
RETRY_AFTER_MAX_S: Final = 60
US: Final = 1_000_000
WAIT_DEFAULT_S: Final = 10.0
WAIT_MAX_S: Final = 60.0
MARGIN_S: Final = 0.1
"""How long the engine may take after the wait to return by itself, in seconds."""
RECORD_S: Final = 0.05
_WAIT: Final = re.compile(r"wait\s*=\s*\"?([0-9]{1,9}(?:\.[0-9]{1,3})?)\"?", re.ASCII)
_ETAG: Final = re.compile(r'"(0|[1-9][0-9]{0,11})"', re.ASCII)
"""A strong tag. If-Match compares strongly, and no weak tag is equal to another (RFC 9110, section 13.1.1)."""


async def beside(look: Callable[..., T], *given: Any, **named: Any) -> T:
    """Run a look at the ledger in a thread, so that other requests go on."""
    return await asyncio.to_thread(look, *given, **named)


def preferred_wait(call: Call, default: float = WAIT_DEFAULT_S) -> float:
    """Return the seconds to wait for a settled outcome, by `Prefer` (RFC 7240), up to WAIT_MAX_S."""
    prefer = call.header("prefer")
    if not prefer:
        return default
    for each in prefer.split(","):
        named = each.partition(";")[0].strip().lower()
        if named == "respond-async":
            return 0.0
        found = _WAIT.fullmatch(named)
        if found is not None:
            return min(float(found[1]), WAIT_MAX_S)
    return default


def operation_of(call: Call) -> str:
    """Return the Idempotency-Key as the operation. A structured string of RFC 8941 loses its quotes.

    Raises IdempotencyKeyError for a blank key, and for bytes beyond ASCII, because their encoding is not known (RFC
    9110, section 5.5). Raises ProposalError for another key that cannot be an operation.
    """
    given = call.header("idempotency-key").strip()
    if not given.isascii():
        said = "The Idempotency-Key holds bytes beyond ASCII."
        raise IdempotencyKeyError(said, remedy="Send ASCII characters, for example percent-encoded UTF-8.")
    if len(given) >= 2 and given[0] == given[-1] == '"':
        given = re.sub(r"\\(.)", r"\1", given[1:-1])
    if not given.strip():
        raise IdempotencyKeyError("The Idempotency-Key is blank.")
    check_id("Idempotency-Key", given, ProposalError)
    return given


def expected_version(call: Call) -> int:
    """Return the version in If-Match. Raises BodyError for anything but one entity tag of this API."""
    found = _ETAG.fullmatch(call.header("if-match").strip())
    if found is None:
        raise BodyError('If-Match must hold one ETag of this API, such as "7".', remedy="Send the ETag of the case.")
    return int(found[1])


def exact(raw: msgspec.Raw | None, name: str) -> Json:
    """Return a raw part of the body with exact numbers. Raises ArgumentError."""
    if raw is None:
        return None
    try:
        return parse_json(bytes(raw))
    except CanonError as error:
        raise ArgumentError(f"`{name}` has no exact JSON form. {error.message}") from error


def exact_object(raw: msgspec.Raw | None, name: str) -> dict[str, Json]:
    """Return a raw object of the body. Raises ArgumentError for anything but an object."""
    value = exact(raw, name)
    if not isinstance(value, dict):
        raise ArgumentError(f"`{name}` must be a JSON object.")
    return value


def optional_object(raw: msgspec.Raw, name: str) -> dict[str, Json] | None:
    """Return a raw object of the body, or None for null. Raises ArgumentError for anything else."""
    return None if bytes(raw) == b"null" else exact_object(raw, name)


def retry_after_s(outcome: Outcome, now_us: int) -> int:
    """Return when the next look at the action is useful, in seconds."""
    due_us = outcome.due_us
    if due_us is None:
        return RETRY_AFTER_MAX_S if outcome.hold or outcome.review else 1
    return max(1, min(RETRY_AFTER_MAX_S, -((now_us - due_us) // US)))


def outcome_json(outcome: Outcome, *, test: bool) -> dict[str, Any]:
    """Return the outcome as the API shows outcomes."""
    words, suffix = outcome.wording(), "?test=true" if test else ""
    home = f"/v1/actions/{quote(outcome.id, safe='')}"
    found: dict[str, Any] = outcome.as_json(words.user)
    found["version"] = outcome.version
    found["final"] = outcome.state in FINAL
    found["message"] = words.user
    found["for_model"] = words.model
    found["repeat_allowed"] = words.may_repeat
    found["in_doubt"] = words.in_doubt
    found["test"] = test
    found["links"] = {
        "self": home + suffix,
        "events": f"{home}/events{suffix}",
        "proof": f"{home}/proof{suffix}",
        "bundle": f"{home}/bundle{suffix}",
        "explain": f"{home}/explain{suffix}",
    }
    return found


def outcome_reply(call: Call, client: ServerClient, outcome: Outcome, *, test: bool, created: int = 0) -> Reply:
    """Return the answer for an outcome: 200 where the state is known and final, else 202 with the place to look."""
    session = client.session
    body, version = outcome_json(outcome, test=test), outcome.version
    headers = [
        (b"location", body["links"]["self"].encode("ascii")),
        (b"etag", f'"{version}"'.encode("ascii")),
    ]
    if outcome.state in FINAL:
        return Reply(created or OK, body, tuple(headers))
    seconds = retry_after_s(outcome, session.runtime.now_us())
    headers.append((b"retry-after", str(seconds).encode("ascii")))
    return Reply(created or ACCEPTED, body, tuple(headers))


async def settled_reply(
    call: Call,
    client: ServerClient,
    work: Coroutine[Any, Any, Outcome],
    ticket: ActionHandle,
    wait_s: float,
    *,
    test: bool,
) -> Reply:
    """Await the work up to `wait_s` and answer with the outcome, or with the current knowledge of a recorded action.

    An unknown outcome is an answer, never an error. Raises ServerBusyError where the server stops before anything is
    recorded.
    """
    try:
        task = await call.ledgers.attended(work, wait_s + MARGIN_S)
        outcome = task.result() if task.done() else None
        while outcome is None:
            outcome = await _recorded(client, ticket)
            if outcome is None and call.ledgers.stopping:
                raise ServerBusyError("The server is stopping, and the action is not recorded yet.")
            if outcome is None:  # the attempt waits for its commit, or for a thread
                await asyncio.wait({task}, timeout=RECORD_S)
                outcome = task.result() if task.done() else None
    except UnknownOutcomeError as error:  # reported by the client already, in every place there is
        if isinstance(error.outcome, Outcome):
            return _unrecorded(error.outcome, test=test)
        raise
    return outcome_reply(call, client, outcome, test=test)


async def _recorded(client: ServerClient, ticket: ActionHandle) -> Outcome | None:
    try:
        return await client.get(ticket.action_id) if ticket.action_id else None
    except NotFoundError:
        return None


def _unrecorded(outcome: Outcome, *, test: bool) -> Reply:
    """The end of an attempt could not be recorded: the state is unknown, and a later look reads the system again."""
    body = {**outcome_json(outcome, test=test), "version": 0}
    headers = ((b"location", body["links"]["self"].encode("ascii")), (b"retry-after", b"5"))
    return Reply(ACCEPTED, body, headers)


def is_held(outcome: Outcome) -> bool:
    """Return whether the action waits for an approver."""
    return outcome.hold == HOLD


def page_of(rows: list[T], limit: int) -> tuple[list[T], bool]:
    """Return the page, and whether more rows follow. `rows` were read with one row beyond the limit."""
    return rows[:limit], len(rows) > limit


def without_nulls(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping without empty values."""
    return {name: value for name, value in found.items() if value is not None}
