"""Observations: a tool call's answer, normalised. Evidence, never truth.

Drivers make an observation of each returned value or raised exception. Reconciliation and the record read observations.
Normalising draws no conclusion about the world and never raises: an unintelligible answer is an observation, too.

Source: the action verification specification, "Observation Object" and the trust ladder (a normalised observation is
level 1, raw output level 0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from readback.agent_errors import UpstreamLostError
from readback.canon import Json, json_value, parse_json, stored_bytes
from readback.canon.frozen import dataclass
from readback.canon.limits import EVIDENCE_MAX_BYTES, ID_MAX_BYTES
from readback.domain.verdict import Level
from readback.domain.verification.observation_signs import (
    DETAIL_MAX_CHARACTERS,
    ERROR_TEXT_CODE,
    ObservationStatus,
    Sign,
    http_sign,
    one_line,
    signs_of,
    text_sign,
    worst,
)
from readback.errors import NotDispatchedError

__all__ = ["Observation", "ObservationStatus", "guarded", "normalise", "normalise_exception", "one_line"]

TEXT_MAX_CHARACTERS: Final = 4_096
"""Largest number of characters of raw text (level 0) in an observation's body."""

_T = TypeVar("_T")
_Given = TypeVarTuple("_Given")


@dataclass(frozen=True, slots=True)
class Observation:
    """One normalised answer.

    `dispatched` is False only where provably nothing was sent. `code` is stable; `detail` is one bounded line for
    people; `reference` is a hint at the provider's id. `body` is plain JSON.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> dict[str, str]: return {"status": "ok"}
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.observation.status.value, outcome.verified)
        success False
    """

    status: ObservationStatus
    dispatched: bool
    code: str
    detail: str
    body: Json
    reference: str | None
    at_us: int
    http_status: int | None = None
    level: Level = Level.NORMALISED

    @property
    def claims_success(self) -> bool:
        """Whether the tool claimed success. A claim verifies nothing."""
        return self.status is ObservationStatus.SUCCESS

    @classmethod
    def missing(cls, at_us: int) -> Observation:
        """The observation of an attempt without an answer. Its effect is open."""
        return cls(_O.NONE, True, "none", "No answer was recorded for the attempt.", None, None, at_us)

    def envelope(self) -> dict[str, Json]:
        """The form for the ledger: everything but the body. The body is stored as evidence."""
        return {
            "status": self.status._value_,
            "dispatched": self.dispatched,
            "code": self.code,
            "detail": self.detail,
            "reference": self.reference,
            "at_us": self.at_us,
            "http_status": self.http_status,
            "level": int(self.level),
        }

    @classmethod
    def from_envelope(cls, data: Mapping[str, Any], body: Json = None) -> Observation:
        """The observation written by `envelope`, with its body from evidence."""
        return cls(
            ObservationStatus(data["status"]),
            bool(data["dispatched"]),
            str(data["code"]),
            str(data["detail"]),
            body,
            data["reference"],
            int(data["at_us"]),
            data["http_status"],
            Level(data["level"]),
        )


_O = ObservationStatus


def normalise(raw: object, at_us: int) -> Observation:
    """Return the observation of a returned value. `at_us`: time of the answer. Never raises.

    An explicit failure outweighs everything else in the answer; words of acceptance outweigh a success code; raw text
    is never a success.
    """
    _, seen = guarded(_returned, raw)
    if seen is None:
        seen = _malformed("value", "The returned value cannot be examined.")
    return _at(seen, at_us)


def normalise_exception(exc: BaseException, at_us: int, *, connect_proves: bool = False) -> Observation:
    """Return the observation of a raised exception. Never raises.

    `NotDispatchedError` proves no dispatch. A refused connection proves no dispatch only with `connect_proves`: the
    caller knows of exactly one request in the call (built-in executors). In a tool with several requests an earlier
    request may have landed.
    """
    _, seen = guarded(_raised, exc, connect_proves)
    if seen is None:
        seen = _error("exception", f"The call raised {type(exc).__name__}.")
    return replace(seen, at_us=at_us)


def _at(seen: Observation, at_us: int) -> Observation:
    """`replace(seen, at_us=at_us)`, at a quarter of the cost."""
    return Observation(
        seen.status,
        seen.dispatched,
        seen.code,
        seen.detail,
        seen.body,
        seen.reference,
        at_us,
        seen.http_status,
        seen.level,
    )


def guarded(ask: Callable[[*_Given], _T], *given: *_Given) -> tuple[bool, _T | None]:
    """Query an unknown object. Any exception means no usable answer."""
    try:
        return True, ask(*given)
    except Exception:  # tidy: boundary -- a foreign object may raise anything on access
        return False, None


def _make(
    status: ObservationStatus, code: str, detail: str, body: Json = None, *, http: int | None = None
) -> Observation:
    return Observation(status, True, code, one_line(detail), body, _reference(body), 0, http)


def _error(code: str, detail: str, body: Json = None) -> Observation:
    return _make(_O.ERROR, code, detail, body)


def _malformed(code: str, detail: str) -> Observation:
    return _make(_O.MALFORMED, "malformed." + code, detail)


# --- returned values ----------------------------------------------------------------------------------------


def _returned(raw: object) -> Observation:
    if isinstance(raw, dict):
        return _structured(raw)  # the common case
    if isinstance(raw, Observation):
        return _plain(raw)
    if raw is None:
        return _make(_O.SUCCESS, "returned.nothing", "The tool returned nothing.")
    if isinstance(raw, BaseException):
        return _raised(raw, connect_proves=False)
    if isinstance(raw, (str, bytes, bytearray, memoryview)):
        return _text_answer(raw)
    if type(raw) is tuple and 2 <= len(raw) <= 3:
        return _tuple_answer(raw)
    if not isinstance(raw, (Mapping, list, tuple, int, float)):
        status = _status_of(raw)
        if status is not None:
            return _http(status, _content(raw))
        done, code = guarded(lambda: cast("Any", raw).returncode)
        if done and (code is None or type(code) is int):
            return _process(raw, code)
    return _structured(raw)


def _plain(seen: Observation) -> Observation:
    """Convert an observation made by the tool into the ledger's form. Its fields may hold any value."""
    return _bounded(
        Observation(
            ObservationStatus(seen.status),
            seen.dispatched is not False,
            one_line(seen.code, ID_MAX_BYTES // 4),
            one_line(seen.detail),
            json_value(seen.body),
            None if seen.reference is None else one_line(seen.reference, ID_MAX_BYTES // 4),
            0,
            None if seen.http_status is None else _http_code(seen.http_status),
            Level(seen.level),
        )
    )


def _http_code(status: int) -> int | None:
    """A valid HTTP status, else None."""
    return int(status) if 100 <= status <= 599 else None


_VALUE: Final = Sign(_O.SUCCESS, "returned.value", "The tool returned a value.")


def _structured(raw: object) -> Observation:
    """A value with a JSON form. Any other value is malformed."""
    done, body = guarded(json_value, raw)
    if not done:
        kind = type(raw).__name__
        return _malformed("unsupported", f"The tool returned a {kind} that has no exact, bounded JSON form.")
    said = worst(*signs_of(body), _VALUE)
    return _bounded(_make(said.status, said.code, said.detail, body))


def _bounded(seen: Observation) -> Observation:
    _, written = guarded(stored_bytes, seen.body)
    if written is not None and len(written) <= EVIDENCE_MAX_BYTES:
        return seen
    if seen.status is _O.ERROR:
        return replace(seen, body=None)
    large = _malformed("too-large", "The answer is over the size limit.")
    return replace(large, http_status=seen.http_status)


def _tuple_answer(raw: tuple[object, ...]) -> Observation:
    """`(status, body)` of HTTP and SMTP clients, and `(ok, value)`; any other tuple is a list."""
    first, second = raw[0], raw[1]
    if type(first) is int and 100 <= first <= 599:
        return _http(first, second)
    if type(first) is not bool:
        return _structured(raw)
    if first:
        return _returned(second) if isinstance(second, Mapping) else _structured(raw)
    _, body = guarded(json_value, raw)
    return _bounded(_error("flag.false", "The tool returned false with its answer.", body))


def _text_answer(raw: str | bytes | bytearray | memoryview) -> Observation:
    _, text = guarded(lambda: raw if isinstance(raw, str) else bytes(raw).decode())
    if text is None:
        return _malformed("binary", "The tool returned bytes that are no text.")
    _, value = guarded(lambda: parse_json(text, bytes_max=EVIDENCE_MAX_BYTES))
    if isinstance(value, (dict, list)):
        return _structured(value)
    said = text_sign(text) or Sign(_O.MALFORMED, "malformed.raw-text", "Raw text is no structured answer.")
    kept = one_line(text, TEXT_MAX_CHARACTERS)
    return replace(_make(said.status, said.code, said.detail, kept), level=Level.RAW)


def _status_of(raw: object) -> int | None:
    """The HTTP status of a response object (httpx, requests, urllib, aiohttp), recognised by its attributes."""
    done, code = guarded(lambda: cast("Any", raw).status_code)
    if not done:
        _, code = guarded(lambda: cast("Any", raw).status if hasattr(raw, "headers") else None)
    if isinstance(code, int) and 100 <= code <= 599:
        return int(code)
    return None


def _content(raw: object) -> object:
    """A response's loaded content. Nothing is fetched, awaited or streamed."""
    for name in ("content", "text"):
        _, content = guarded(getattr, raw, name)
        if isinstance(content, (bytes, str)):
            return content
    return guarded(lambda: json_value(cast("Any", raw).json()))[1]


def _http(status: int, content: object) -> Observation:
    """A status with its content; the worse of the two signs counts."""
    body, level = cast("Json", None), Level.NORMALISED
    if not isinstance(content, (str, bytes)):
        _, body = guarded(json_value, content)
    elif content:
        inner = _text_answer(content)
        body, level = inner.body, inner.level
    text = text_sign(body) if isinstance(body, str) else None
    sign = worst(http_sign(status), *([text] if text is not None else signs_of(body)))
    return _bounded(replace(_make(sign.status, sign.code, sign.detail, body, http=status), level=level))


def _process(raw: object, code: int | None) -> Observation:
    """A finished process (`subprocess.CompletedProcess` and similar), by its return code."""
    if code is None:
        return _make(_O.PENDING, "exit.running", "The process has not ended.")
    body: dict[str, Json] = {"returncode": code}
    said, level = [], Level.NORMALISED
    for name in ("stdout", "stderr"):
        _, output = guarded(getattr, raw, name)
        if isinstance(output, (str, bytes)) and output:
            inner = _text_answer(output)
            body[name] = inner.body
            level = min(level, inner.level)
            if name == "stdout" and (inner.status is not _O.MALFORMED or inner.code == ERROR_TEXT_CODE):
                said.append(Sign(inner.status, inner.code, inner.detail))
    if code != 0:
        return _bounded(replace(_error(f"exit.{code}", f"The process ended with {code}.", body), level=level))
    ended = Sign(_O.SUCCESS, "exit.0", "The process ended with 0.")
    sign = worst(ended, *said)
    return _bounded(replace(_make(sign.status, sign.code, sign.detail, body), level=level))


# --- exceptions ---------------------------------------------------------------------------------------------

_TIMEOUT_NAMES: Final = ("Timeout", "TimeoutError", "TimeoutException", "TimeoutExpired")
_UNCONNECTED_NAMES: Final = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "ConnectionRefusedError",
        "NewConnectionError",
        "PoolTimeout",
        "gaierror",
    }
)
"""Failures before a connection existed: names of the standard library, httpx, requests and urllib3."""


_MISTAKES: Final = (NameError, AttributeError, TypeError, ImportError, SyntaxError)
"""Errors of the tool's own code. The line number helps the author."""
_FRAMES_MAX: Final = 1_000


def _place_of(exc: BaseException) -> str:
    """The file and line of a mistake in the tool's own code; "" for any other error."""
    if not isinstance(exc, _MISTAKES):
        return ""
    last, frames = exc.__traceback__, 0
    while last is not None and last.tb_next is not None and frames < _FRAMES_MAX:
        last, frames = last.tb_next, frames + 1
    return "" if last is None else f" (at {last.tb_frame.f_code.co_filename[-120:]}:{last.tb_lineno})"


def _raised(exc: BaseException, connect_proves: bool) -> Observation:
    names = {kind.__name__ for kind in type(exc).__mro__}
    _, said = guarded(lambda: one_line(str(exc), DETAIL_MAX_CHARACTERS // 2))
    detail = f"The call raised {type(exc).__name__}" + (f": {said}" if said else ".") + _place_of(exc)
    if isinstance(exc, NotDispatchedError) or (connect_proves and names & _UNCONNECTED_NAMES):
        return replace(_make(_O.NOT_DISPATCHED, "not-dispatched", detail), dispatched=False)
    if "CancelledError" in names or isinstance(exc, KeyboardInterrupt):
        return _make(_O.CANCELLED, "cancelled", "The call was cancelled; its effect may have landed.")
    if isinstance(exc, UpstreamLostError):
        return _make(_O.TIMEOUT, "unanswered", detail)  # the called system may still be working
    if any(name.endswith(_TIMEOUT_NAMES) for name in names):
        return _make(_O.TIMEOUT, "timeout", detail)
    _, response = guarded(lambda: cast("Any", exc).response)
    status = _status_of(response)
    if status is not None:
        seen = _http(status, _content(response))
        worse = seen.status in (_O.ERROR, _O.TIMEOUT)
        raised = replace(seen, status=_O.ERROR, code=f"http.{status}", detail=one_line(detail))
        return seen if worse else raised
    if names & _UNCONNECTED_NAMES:
        return _error("connection.refused", detail)
    return _error("connection.lost" if isinstance(exc, ConnectionError) else "exception", detail)


_REFERENCE_KEYS: Final = (
    "id",
    "reference",
    "transaction_id",
    "message_id",
    "operation_id",
    "job_id",
    "request_id",
    "uid",
)
_REFERENCES: Final = frozenset(_REFERENCE_KEYS)
_WRAPPERS: Final = ("data", "result", "response", "structuredContent")
_WRAPPED: Final = frozenset(_WRAPPERS)


def _reference(body: Json) -> str | None:
    """A hint at the provider's id, from the usual names."""
    if not isinstance(body, dict):
        return None
    holders = (body,) if _WRAPPED.isdisjoint(body) else (body, *[body[name] for name in _WRAPPERS if name in body])
    for holder in holders:
        if isinstance(holder, dict) and not _REFERENCES.isdisjoint(holder):
            for key in _REFERENCE_KEYS:
                value = holder.get(key)
                if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
                    return one_line(str(value), ID_MAX_BYTES // 4)
    return None
