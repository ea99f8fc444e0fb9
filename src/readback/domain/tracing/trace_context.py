"""W3C trace context, and the ids of an action's spans.

Every id follows from the ledger alone, so two workers compute the same span for the same entry. Two spans have ids
known before their entries exist: the action's first span and the span of one execution. Other processes refer to these
two as parent or link. The id of any other span follows from the leaf hash of its entry.

Source: W3C Trace Context, level 2 (`traceparent`, `tracestate`).
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from readback.canon.frozen import dataclass

TRACE_ID_CHARACTERS: Final = 32
SPAN_ID_CHARACTERS: Final = 16
STATE_MAX_CHARACTERS: Final = 512
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_STATE: Final = re.compile(r"[\x20-\x7e]*")
_NO_TRACE: Final = "0" * TRACE_ID_CHARACTERS
_NO_SPAN: Final = "0" * SPAN_ID_CHARACTERS
_INVALID_VERSION: Final = "ff"
_SAMPLED: Final = 1
STAMP_PREFIX: Final = "rb-"


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of another process: ids in lower-case hex, the sampling flag, and the vendor state.

    Example:
        >>> from readback.domain.tracing.trace_context import TraceContext
        >>> TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331").traceparent
        '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    """

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""

    @property
    def traceparent(self) -> str:
        """The value of the `traceparent` header."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse_traceparent(traceparent: object, tracestate: object = "") -> TraceContext | None:
    """Return the context in a `traceparent` header; None for any invalid value. Invalid state is dropped."""
    found = _PARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == _INVALID_VERSION or (version == "00" and rest) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    plain = isinstance(tracestate, str) and len(tracestate) <= STATE_MAX_CHARACTERS and _STATE.fullmatch(tracestate)
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), str(tracestate) if plain else "")


def is_trace_id(text: str) -> bool:
    """Whether the text is a valid W3C trace id."""
    return _TRACE.fullmatch(text) is not None and text != _NO_TRACE


def is_span_id(text: str) -> bool:
    """Whether the text is a valid W3C span id."""
    return _SPAN.fullmatch(text) is not None and text != _NO_SPAN


def trace_id_of(trace: str, owner: str) -> str:
    """Return the trace id of an action.

    Args:
        trace: The caller's trace. A W3C trace id or a UUID is used as such. Any other text is hashed.
        owner: The id behind the trace where the caller has no trace: the saga, the reversed action, or the action.
    """
    plain = trace.replace("-", "").lower() if trace else ""
    if is_trace_id(plain):
        return plain
    return _digest(f"trace:{trace}" if trace else f"owner:{owner}", TRACE_ID_CHARACTERS)


def first_span_id(action_id: str) -> str:
    """Return the id of the first span of an action or saga."""
    return _digest(f"first:{action_id}", SPAN_ID_CHARACTERS)


def execution_span_id(action_id: str, attempt: int) -> str:
    """Return the id of the span of one execution. `attempt` counts from 1."""
    return _digest(f"execution:{action_id}:{attempt}", SPAN_ID_CHARACTERS)


def step_span_id(saga_id: str, action_id: str) -> str:
    """Return the id of a saga's span for the action of one of its steps."""
    return _digest(f"step:{saga_id}:{action_id}", SPAN_ID_CHARACTERS)


def entry_span_id(leaf: str, role: str) -> str:
    """Return the id of an entry's span. `leaf`: the entry's leaf hash in hex."""
    return _digest(f"{role}:{leaf}", SPAN_ID_CHARACTERS)


def owner_of(action_id: str, saga: str, reverses: str) -> str:
    """Return the id behind a trace id where the caller gave none. `reverses`: the stamp of the reversed action."""
    return saga or reverses.removeprefix(STAMP_PREFIX) or action_id


def _digest(text: str, characters: int) -> str:
    return sha256(text.encode()).hexdigest()[:characters]
