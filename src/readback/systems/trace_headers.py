"""The trace context of the running code, and the headers for a request to another process.

A program with OpenTelemetry has a current span, and the span's own context goes out. Otherwise the context of the
action's execution goes out, if the action has a trace. Readback never imports OpenTelemetry here. A program without
OpenTelemetry has no current span, and pays one look into the table of modules.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from readback.domain.context import Context
from readback.domain.tracing.trace_context import TraceContext, parse_traceparent

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
_API: Final = "opentelemetry.trace"


def current() -> TraceContext | None:
    """Return the context of the current span; None without a span."""
    api: Any = sys.modules.get(_API)
    if api is None:
        return None
    span = api.get_current_span()
    if span is api.INVALID_SPAN:
        return None
    found = span.get_span_context()
    if not found.is_valid:
        return None
    state = found.trace_state.to_header() if found.trace_state else ""
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", bool(found.trace_flags & 1), state)


def outgoing(ctx: Context) -> dict[str, str]:
    """Return the headers `traceparent` and `tracestate` for a request of this action; empty without a trace."""
    here = current()
    if here is None:
        return {TRACEPARENT: ctx.traceparent} if ctx.traceparent else {}
    return headers_of(here)


def headers_of(context: TraceContext) -> dict[str, str]:
    """Return the headers of a context."""
    state = {TRACESTATE: context.state} if context.state else {}
    return {TRACEPARENT: context.traceparent, **state}


def from_environment() -> TraceContext | None:
    """Return the context that the parent process passed in TRACEPARENT and TRACESTATE; None without one."""
    return parse_traceparent(os.environ.get("TRACEPARENT"), os.environ.get("TRACESTATE", ""))
