"""One live span around a call of a tool, and the caller's span at the proposal.

The guard comes first: without OpenTelemetry in the program, or without a recording span, a call costs a look-up. With a
recording span the execution becomes a real span, so the tool's own spans nest below. The live span has the ids, the
parent and the attributes of the span that the projector makes from the ledger. A backend sees one span.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.tracing import names
from readback.domain.tracing.attributes import (
    execution_ids,
    execution_name,
    execution_of,
    facts_of,
    terms_of,
    trace_of,
)
from readback.domain.tracing.trace_context import TraceContext
from readback.domain.verification.observation import normalise_exception
from readback.engine.compiled_contract import CallerContext
from readback.engine.effects import Called, Dispatch, Ending
from readback.systems.trace_headers import current

_API: Final = "opentelemetry.trace"
SCOPE: Final = "readback"


@dataclass(frozen=True, slots=True)
class Incoming:
    """The trace context of a request from another process, and facts about the request for the record."""

    trace: TraceContext | None = None
    origin: Mapping[str, Json] | None = None


INCOMING: ContextVar[Incoming | None] = ContextVar("readback_incoming", default=None)
"""The request that the current task serves, such as a call through the gateway."""


def with_caller(scope: CallerContext) -> CallerContext:
    """Return the scope with the caller's span: of the served request, or the current span of the program.

    A trace named by the client stays. The current span then counts only inside this trace.
    """
    served = INCOMING.get()
    found = served.trace if served is not None and served.trace is not None else current()
    if served is not None and served.origin:
        scope = replace(scope, origin=served.origin)
    if found is None or (scope.trace and scope.trace != found.trace_id):
        return scope
    s = scope
    return CallerContext(  # every action of a traced program comes here: `replace` costs ten times as much
        s.tenant, s.principal, s.run, s.plan, s.task_state, s.boundary, found.trace_id, s.budget, s.break_glass,
        found.span_id, s.scopes, found.sampled, s.origin, s.shadow,
    )  # fmt: skip


class LiveSpan:
    """An open span of one execution.

    The SDK's own span would copy and check each attribute on the action's path. This span keeps a dictionary, and
    reaches the processors of the SDK as a finished span. A tracer of another kind makes a span of its own.
    """

    __slots__ = ("_api", "_attributes", "_context", "_name", "_parent", "_scope", "_span", "_started_ns", "_token")

    def __init__(self, api: Any, step: Dispatch, started_us: int) -> None:
        action = step.action
        span_id, parent_id = execution_ids(action)
        trace_id = int(trace_of(action), 16)
        sampled = api.TraceFlags(1)
        self._api, self._name, self._started_ns = api, execution_name(action), started_us * 1000
        self._attributes = {
            **terms_of(action, step.verification_table),
            **facts_of(action, step.recovery_table, 0),
            **execution_of(action),
        }
        self._parent = api.SpanContext(trace_id, int(parent_id, 16), True, sampled)
        self._scope = _tracer(api)
        if hasattr(self._scope, "span_processor"):
            self._span = _span_class(api)(api.SpanContext(trace_id, int(span_id, 16), False, sampled))
        else:
            context = api.set_span_in_context(api.NonRecordingSpan(self._parent))
            self._span = self._scope.start_span(self._name, context, attributes=self._attributes)
        self._context = sys.modules["opentelemetry.context"]
        self._token = self._context.attach(api.set_span_in_context(self._span))

    def end(self, called: Called | None) -> None:
        """End the span. A tool's error is evidence, so the status stays UNSET."""
        self._context.detach(self._token)
        if called is not None and (kind := _error_type(called)):
            self._span.set_attribute(names.ERROR_TYPE, kind)
        processor = getattr(self._scope, "span_processor", None)
        if processor is None:
            self._span.end()
            return
        sdk = sys.modules["opentelemetry.sdk.trace"]
        ended_ns = called.finished_us * 1000 if called is not None else self._started_ns
        kinds = self._api.SpanKind
        finished = sdk.ReadableSpan(
            self._name,
            context=self._span.get_span_context(),
            parent=self._parent,
            resource=self._scope.resource,
            attributes={**self._attributes, **self._span.attributes},
            events=tuple(self._span.events),
            kind=kinds.CLIENT if names.MCP_METHOD_NAME in self._attributes else kinds.INTERNAL,
            start_time=self._started_ns,
            end_time=max(ended_ns, self._started_ns),
            instrumentation_scope=_instrumentation(),
        )
        processor.on_end(finished)


_tracers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The tracer of each provider: the SDK's own look-up costs more than a span."""


def _tracer(api: Any) -> Any:
    provider = api.get_tracer_provider()
    known = _tracers.get(provider)
    if known is None:
        known = _tracers[provider] = provider.get_tracer(SCOPE)
    return known


@cache
def _span_class(api: Any) -> Any:
    """Return the class of the current span inside a tool: a recording span that keeps attributes and events."""

    class ExecutionSpan(api.NonRecordingSpan):  # type: ignore[misc]
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.attributes: dict[str, Any] = {}
            self.events: list[Any] = []

        def is_recording(self) -> bool:
            return True

        def set_attribute(self, key: str, value: Any) -> None:
            self.attributes[key] = value

        def set_attributes(self, attributes: Mapping[str, Any]) -> None:
            self.attributes.update(attributes)

        def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
            self.events.append(sys.modules["opentelemetry.sdk.trace"].Event(name, attributes, timestamp))

    return ExecutionSpan


@cache
def _instrumentation() -> Any:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    return InstrumentationScope(SCOPE)


def begin(step: Dispatch, started_us: int) -> LiveSpan | None:
    """Return an open span around the call; None without a recording span of the program."""
    api: Any = sys.modules.get(_API)
    if api is None:
        return None
    span = api.get_current_span()
    if not span.is_recording() or not span.get_span_context().trace_flags & 1:
        return None
    return LiveSpan(api, step, started_us)


def _error_type(called: Called) -> str:
    match called.ending:
        case Ending.RETURNED:
            failed = isinstance(called.value, dict) and called.value.get("isError") is True
            return names.TOOL_ERROR if failed else ""
        case Ending.RAISED:
            assert called.error is not None
            return normalise_exception(called.error, called.finished_us).code
        case _:
            return called.ending.value
