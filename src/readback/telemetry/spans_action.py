"""The spans of one action, from its entries in order.

The chain of the specification: model inference -> validation -> deterministic wrapper -> execution -> verification ->
reconciliation -> recovery. The caller's span is the model inference: the parent of the first span and of each
execution. Each span of the chain links to the span before.

A span depends on the entries up to its own only. So a follower emits each span once, as soon as its last entry exists.
"""

from __future__ import annotations

import re
from typing import Final

from readback.canon import Json, json_text
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind, ParsedEnvelope
from readback.domain.recovery.action import RecoveryAction
from readback.domain.state import TERMINAL, State
from readback.domain.tracing import names
from readback.domain.tracing.attributes import (
    Attributes,
    caller_span,
    cut,
    execution_ids,
    execution_name,
    execution_of,
    facts_of,
    terms_of,
    trace_of,
)
from readback.domain.tracing.trace_context import (
    STAMP_PREFIX,
    entry_span_id,
    first_span_id,
    is_trace_id,
    step_span_id,
)
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation_signs import ObservationStatus
from readback.telemetry.spans import (
    GAP_US,
    Bodies,
    OpenStretch,
    Relation,
    Span,
    SpanEvent,
    SpanLink,
    Stretch,
    later_root,
)

_K, _S, _R = EventKind, State, RecoveryAction
PAYLOAD_MAX_CHARACTERS: Final = 8_192
EVALUATIONS_MAX: Final = 64
_UNSETTLED: Final = frozenset({_S.PROPOSED, _S.VALIDATED})
_DECISIONS: Final = frozenset({_K.APPROVED, _K.DENIED, _K.RESOLVED, _K.LIFTED, _K.CANCELLED, _K.SIGNALLED, _K.ERASED})
_CLAIMS: Final = frozenset({_K.CLAIM_CONTESTED, _K.CLAIM_RETRACTED, _K.CLAIM_REINSTATED})
_JUDGED_LAST: Final = _CLAIMS | {_K.JUDGED}
_RESUMPTIONS: Final = frozenset({_K.RESUMED, _K.OBSERVED, _K.STAGED_SETTLED, _K.COMPENSATION})
_ALWAYS_RESTING: Final = _DECISIONS | {_K.WATCHED, _K.REJECTED, _K.HELD, _K.APPROVAL_REQUESTED, _K.COMPENSATION}
_OPEN: Final = frozenset({_S.UNKNOWN, _S.PENDING, _S.EXECUTING, _S.ACCEPTED})
_AT_WORK: Final = frozenset({_S.COMPENSATING, _S.RECONCILIATION_FAILED})
"""After a judgement in one of these states the same work continues."""
NO_RECOVERY: Final = frozenset(
    {
        "",
        _R.ACCEPT.value,
        _R.RECORD_NO_OP.value,
        _R.RECORD_IDEMPOTENT_REPLAY.value,
        _R.RETRY_VERIFICATION.value,
        _R.FORCE_STRONG_READ.value,
        _R.HOLD_PENDING.value,
        _R.POLL_IDEMPOTENCY_RECORD.value,
        _R.REPORT_UNVERIFIED.value,
        _R.KEEP_UNKNOWN.value,
    }
)
"""Rows without recovery: the result stands, or verification continues."""
_CLEAN: Final = frozenset(
    {ObservationStatus.SUCCESS.value, ObservationStatus.ACCEPTED.value, ObservationStatus.PENDING.value}
)
LABELS: Final = {"holds": "verified", "violated": "refuted"}
_DELEGATION: Final = re.compile(r"(.+)/([0-9]{1,3})", re.DOTALL)
OUTCOMES: Final = {Verdict.VERIFIED.value: "passed", Verdict.REFUTED.value: "failed"}


@dataclass(slots=True)
class _Execution:
    """An attempt on its way: made durable, without a recorded end."""

    at_us: int
    leaf: str
    root: str
    span_id: str
    parent_id: str
    own: Attributes
    conventions: Attributes


class ActionSpans:
    """Makes the spans of one action. `payloads`: include arguments and results, as redacted by the contract."""

    def __init__(self, action_id: str, tenant: str, *, payloads: bool = False) -> None:
        self.action = Action(action_id, tenant)
        self._payloads = payloads
        self._trace, self._first = "", first_span_id(action_id)
        self._tables = ("", "")
        self._terms: Attributes = {}
        self._root: OpenStretch | None = None
        self._execution: _Execution | None = None
        self._previous: SpanLink | None = None
        """The last span of the chain."""
        self._before: list[SpanEvent] = []
        self._readings: list[tuple[int, int, SpanEvent]] = []
        self._sampled = True
        self._seq = 0
        self._known_facts: Attributes | None = None
        self._last_kind = _K.PROPOSED

    @property
    def _facts(self) -> Attributes:
        """The attributes as of the last entry, computed for an entry with a span."""
        if self._known_facts is None:
            self._known_facts = facts_of(self.action, self._tables[1], self._seq)
        return self._known_facts

    @property
    def version(self) -> int:
        """The number of entries taken."""
        return self.action.version

    def take(self, opened: ParsedEnvelope, leaf: str, seq: int, bodies: Bodies) -> list[Span]:
        """Return the spans that end with this entry. Raises StoreCorruptError for an impossible entry."""
        event, spans = opened.event, list[Span]()
        before = self.action.state
        self._breaks(event, spans)
        self.action.apply(event, leaf)
        if event.kind is _K.PROPOSED:
            self._proposed(event)
        elif event.kind is _K.ADMITTED:
            self._admitted(event)
        self._seq, self._known_facts = seq, None
        root = self._root = self._root or self._opened(event, leaf, before)
        root.last_us = max(root.last_us, event.at_us)
        self._of_entry(event, leaf, before, root, bodies, spans)
        self._last_kind = event.kind
        if self._rests(event, root):
            spans.append(self._close(root))
        return spans

    # --- stretches ---

    def _breaks(self, event: Event, spans: list[Span]) -> None:
        """Close a stretch that another process, or the same process much later, continues."""
        root = self._root
        if event.kind is _K.RESUMED:
            self._interrupted(event, spans)
        if root is None:
            return
        pause = self._last_kind in _JUDGED_LAST and event.at_us - root.last_us > GAP_US
        if event.kind is _K.RESUMED or pause:
            root.extra[names.INTERRUPTED] = True
            spans.append(self._close(root))

    def _close(self, root: OpenStretch) -> Span:
        self._root = None
        self._before, self._readings = [], []
        attributes = {**self._terms, **self._facts}
        return root.closed(self._trace, self.action.contract, attributes, sampled=self._sampled)

    def _opened(self, event: Event, leaf: str, before: State) -> OpenStretch:
        if event.kind is _K.PROPOSED:
            return self._call(event.at_us)
        if event.kind in _DECISIONS:
            kind = Stretch.DECISION
        elif event.kind in _CLAIMS:
            kind = Stretch.CLAIM
        elif event.kind in _RESUMPTIONS:
            kind = Stretch.RESUME
        elif event.kind is _K.WATCHED or before in TERMINAL:
            kind = Stretch.LATE_LOOK
        else:
            kind = Stretch.LOOK
        started = event.data.get("started") if event.kind is _K.READ else None
        at_us = min(started, event.at_us) if isinstance(started, int) else event.at_us
        return later_root(kind, leaf, at_us, self._first)

    def _call(self, at_us: int) -> OpenStretch:
        """Return the first root: below the caller's span, or below the step of a saga."""
        action, links = self.action, list[SpanLink]()
        saga, reverses = str(action.context.get("saga") or ""), str(action.context.get("reverses") or "")
        caller = parent = caller_span(action)
        if saga:
            parent = step_span_id(saga, action.id)
        if caller:
            links.append(SpanLink(caller, Relation.INFERENCE))
            self._previous = SpanLink(caller, Relation.INFERENCE)
        if reverses.startswith(STAMP_PREFIX):
            links.append(SpanLink(first_span_id(reverses.removeprefix(STAMP_PREFIX)), Relation.REVERSES))
        return OpenStretch(Stretch.CALL, self._first, at_us, at_us, parent, bool(caller), tuple(links))

    def _rests(self, event: Event, root: OpenStretch) -> bool:
        """Whether the work waits, or has ended, after this entry."""
        kind, data = event.kind, event.data
        if kind in _ALWAYS_RESTING:
            return True
        if kind in _CLAIMS:
            return root.kind is Stretch.CLAIM  # inside other work a claim changes with the judgement before it
        if kind is _K.JUDGED:
            again = data["recovery"] == _R.DISPATCH_AGAIN.value and self.action.state is _S.PENDING
            return not again and self.action.state not in _AT_WORK
        if kind is _K.PROPOSED or kind is _K.ATTEMPTED:
            return "due" in data  # submitted, or handed out
        due = data.get("due") if kind is _K.OBSERVED else None
        return isinstance(due, int) and due > event.at_us

    # --- entries ---

    def _proposed(self, event: Event) -> None:
        action, data = self.action, event.data
        self._trace = trace_of(action)
        self._sampled = action.context.get("sampled") != "0"
        self._tables = (str(data.get("verification_table", "")), str(data.get("recovery_table", "")))
        self._terms = terms_of(action, self._tables[0])
        given = cut(action.context.get("trace"))
        if given and not is_trace_id(given.replace("-", "").lower()):
            self._terms[names.CALLER_TRACE] = given
        saga = cut(action.context.get("saga"))
        if saga:
            self._terms[names.SAGA_ID] = saga
            self._terms[names.SAGA_REGION] = cut(action.context.get("region"))

    def _admitted(self, event: Event) -> None:
        """Take the terms of a request made by name."""
        kept = {name: self._terms[name] for name in (names.CALLER_TRACE, names.SAGA_ID) if name in self._terms}
        data = event.data
        self._tables = (str(data.get("verification_table", "")), str(data.get("recovery_table", "")))
        self._terms = terms_of(self.action, self._tables[0]) | kept

    def _of_entry(
        self, event: Event, leaf: str, before: State, root: OpenStretch, bodies: Bodies, spans: list[Span]
    ) -> None:
        match event.kind:
            case _K.READ:
                self._read(event)
            case _K.ATTEMPTED:
                self._attempted(event, leaf, before, root, spans)
            case _K.OBSERVED:
                self._observed(event, bodies, spans)
            case _K.JUDGED:
                self._judged(event, leaf, root, bodies, spans)
            case _K.WATCHED:
                self._watched(event, leaf, root, spans)
            case _K.REJECTED | _K.HELD | _K.APPROVAL_REQUESTED if before in _UNSETTLED:
                code: Attributes = {names.CODE: cut(event.data.get("code")) or cut(event.data.get("hold"))}
                spans.append(self._validation(leaf, root, event.at_us, code))
            case _K.COMPENSATION | _K.STAGED_SETTLED:
                self._recovered(event, leaf, root, spans)
            case _K.CLAIM_CONTESTED | _K.CLAIM_RETRACTED | _K.CLAIM_REINSTATED:
                root.extra[names.CLAIM_KIND] = cut(event.data.get("claim"))
                root.extra[names.CLAIM_STATUS] = event.kind.value.removeprefix("claim_")
            case _ if event.kind in _DECISIONS:
                root.extra[names.DECISION] = cut(event.data.get("decision")) or event.kind.value
            case _:
                pass

    def _read(self, event: Event) -> None:
        reading = reading_event(event.data, event.at_us)
        if event.data["role"] == "before":
            self._before.append(reading)
            return
        started, finished = _whole(event.data["started"]), _whole(event.data["finished"])
        self._readings.append((started, finished, reading))

    def _validation(self, leaf: str, root: OpenStretch, end_us: int, extra: Attributes | None = None) -> Span:
        events, self._before = tuple(self._before), []
        return self._chained(leaf, names.VALIDATION, root.span_id, root.start_us, end_us, extra or {}, events)

    def _attempted(self, event: Event, leaf: str, before: State, root: OpenStretch, spans: list[Span]) -> None:
        if before in _UNSETTLED:  # sending again after a wait is decided by a judgement, not by a validation
            spans.append(self._validation(leaf, root, event.at_us))
        span_id, parent_id = execution_ids(self.action)
        own = {**self._terms, **self._facts}
        self._execution = _Execution(
            event.at_us, leaf, root.span_id, span_id, parent_id, own, execution_of(self.action)
        )

    def _observed(self, event: Event, bodies: Bodies, spans: list[Span]) -> None:
        data, held = event.data, self._execution
        if held is None:
            return
        started, ended = _whole(data["started"]), _whole(data["ended"])
        status = str(data["status"])
        extra: Attributes = {names.OBSERVATION: status}
        if status not in _CLEAN:
            extra[names.ERROR_TYPE] = error_type(held.conventions, status, cut(data.get("code")))
        if self._payloads:
            extra |= _payloads(bodies, self.action)
        self._executed(held, started, ended, extra, spans)

    def _interrupted(self, event: Event, spans: list[Span]) -> None:
        """End an execution without an answer: its process ended, or lost the lease."""
        held = self._execution
        if held is not None:
            extra: Attributes = {names.OBSERVATION: ObservationStatus.NONE.value, names.INTERRUPTED: True}
            self._executed(held, held.at_us, event.at_us, extra, spans)

    def _executed(self, held: _Execution, started: int, ended: int, extra: Attributes, spans: list[Span]) -> None:
        self._execution = None
        started = max(started, held.at_us)
        spans.append(self._chained(held.leaf, names.WRAPPER, held.root, held.at_us, started, {}, facts=held.own))
        links = (self._previous,) if self._previous is not None else ()
        spans.append(
            Span(
                self._trace,
                held.span_id,
                held.parent_id,
                execution_name(self.action),
                started,
                max(started, ended),
                {**held.own, **held.conventions, **extra},
                (),
                links,
                client=names.MCP_METHOD_NAME in held.conventions,
                sampled=self._sampled,
                remote=held.parent_id != self._first,
            )
        )
        self._previous = SpanLink(held.span_id, Relation.PREVIOUS)

    def _judged(self, event: Event, leaf: str, root: OpenStretch, bodies: Bodies, spans: list[Span]) -> None:
        data = event.data
        error = error_of(data, self.action.state)
        begin, end, events = self._verified(event)
        events += evaluations(bodies(event.refs.get("judgement", "")), self.action.contract, event.at_us)
        spans.append(self._chained(leaf, names.VERIFICATION, root.span_id, begin, end, {}, events, error=error))
        row: Attributes = {names.ROW: str(data["row"]), names.RECOVERY: str(data["recovery"])}
        found = {**row, names.ATTRIBUTION: str(data["attribution"])}
        if data["review"]:
            found[names.REVIEW] = str(data["review"])
        spans.append(self._chained(leaf, names.RECONCILIATION, root.span_id, end, event.at_us, found, error=error))
        if data["recovery"] not in NO_RECOVERY:
            spans.append(self._chained(leaf, names.RECOVERY_SPAN, root.span_id, event.at_us, event.at_us, row))
        root.error = root.error or error
        if (delegated := self._delegated(data)) is not None:
            start = min(self.action.executed_us or event.at_us, event.at_us)
            spans.append(self._beside(leaf, names.DELEGATION_SPAN, root.span_id, start, event.at_us, delegated, error))

    def _watched(self, event: Event, leaf: str, root: OpenStretch, spans: list[Span]) -> None:
        if "source" in event.data:
            data = event.data
            started, finished = _whole(data["started"]), _whole(data["finished"])
            self._readings.append((started, finished, reading_event(data, event.at_us)))
            root.start_us = min(root.start_us, started)
        begin, end, events = self._verified(event)
        spans.append(self._chained(leaf, names.VERIFICATION, root.span_id, begin, end, {}, events))

    def _verified(self, event: Event) -> tuple[int, int, tuple[SpanEvent, ...]]:
        """Return begin and end of the readings since the last judgement, and their events."""
        readings, self._readings = self._readings, []
        begin = min((each[0] for each in readings), default=event.at_us)
        end = max((each[1] for each in readings), default=event.at_us)
        return min(begin, event.at_us), min(end, event.at_us), tuple(each[2] for each in readings)

    def _recovered(self, event: Event, leaf: str, root: OpenStretch, spans: list[Span]) -> None:
        data, action = event.data, self.action
        how = str(data.get("how", ""))
        if event.kind is _K.STAGED_SETTLED and how == "committed":
            return
        extra: Attributes = {names.RECOVERY: how or "compensation"}
        error = "compensation_failed" if _S.COMPENSATION_FAILED in event.path else ""
        root.error = root.error or error
        child = str(data.get("action") or "")
        links = (SpanLink(first_span_id(child), Relation.COMPENSATION),) if child and child != action.id else ()
        begin = root.start_us if event.kind is _K.COMPENSATION else event.at_us
        spans.append(
            self._chained(
                leaf, names.RECOVERY_SPAN, root.span_id, begin, event.at_us, extra, error=error, more_links=links
            )
        )

    def _delegated(self, data: dict[str, Json]) -> Attributes | None:
        """Return the attributes of a judged delegation; None for another action, or before the result is settled."""
        action = self.action
        found = _DELEGATION.fullmatch(action.operation)
        if found is None or not action.target.startswith(f"delegation/{action.contract}/"):
            return None
        verdict = str(data["verdict"])
        unverified = data["why"] == Why.UNVERIFIABLE.value
        if verdict not in OUTCOMES and not unverified and action.due_us is not None:
            return None
        return {
            names.DELEGATION_ID: cut(found[1]),
            names.DELEGATION_KIND: action.contract,
            names.DELEGATION_ATTEMPTS: int(found[2]) + 1,
            names.DELEGATION_PASSED: verdict == Verdict.VERIFIED.value,
            names.DELEGATION_OUTCOME: OUTCOMES.get(verdict, "skipped" if unverified else "undetermined"),
        }

    # --- spans ---

    def _chained(
        self,
        leaf: str,
        name: str,
        parent_id: str,
        start_us: int,
        end_us: int,
        extra: Attributes,
        events: tuple[SpanEvent, ...] = (),
        *,
        error: str = "",
        facts: Attributes | None = None,
        more_links: tuple[SpanLink, ...] = (),
    ) -> Span:
        """Return a span of the chain, linked to the span before."""
        links = (*((self._previous,) if self._previous is not None else ()), *more_links)
        span_id = entry_span_id(leaf, name)
        self._previous = SpanLink(span_id, Relation.PREVIOUS)
        attributes = {**self._terms, **(self._facts if facts is None else facts), **extra}
        start_us = min(start_us, end_us)
        return Span(
            self._trace, span_id, parent_id, name, start_us, end_us, attributes, events, links, error,
            sampled=self._sampled,
        )  # fmt: skip

    def _beside(
        self, leaf: str, name: str, parent_id: str, start_us: int, end_us: int, extra: Attributes, error: str
    ) -> Span:
        """Return a span beside the chain."""
        attributes = {**self._terms, **self._facts, **extra}
        span_id = entry_span_id(leaf, name)
        links = (SpanLink(self._first, Relation.FIRST),)
        return Span(
            self._trace, span_id, parent_id, name, start_us, end_us, attributes, (), links, error,
            sampled=self._sampled,
        )  # fmt: skip


def error_of(data: dict[str, Json], state: State) -> str:
    """Return why a judgement is an error: the result is refuted, or the verifier itself failed. "" for no error.

    A refuting reading settles nothing while an effect may still land: the state is then unknown or pending.
    """
    if data["why"] == Why.VERIFIER_ERROR.value:
        return Why.VERIFIER_ERROR.value
    refuted = data["verdict"] == Verdict.REFUTED.value and state not in _OPEN
    return f"refuted: {data['finding']}" if refuted else ""


def error_type(attributes: Attributes, status: str, code: str) -> str:
    """Return the value of `error.type` for an answer that is no success."""
    if names.MCP_METHOD_NAME in attributes and status == ObservationStatus.ERROR.value:
        return names.TOOL_ERROR
    return code or status


def reading_event(data: dict[str, Json], at_us: int) -> SpanEvent:
    """Return the event of one reading, without its content."""
    started, finished = _whole(data["started"]), _whole(data["finished"])
    return SpanEvent(
        names.READING,
        finished or at_us,
        {
            names.READING_SOURCE: str(data["source"]),
            names.READING_ROLE: str(data["role"]),
            names.READING_PRESENCE: str(data["presence"]),
            names.READING_FAULT: str(data["fault"]) or names.NOT_GIVEN,
            names.READING_CONSISTENCY: str(data["consistency"]),
            names.READING_SECONDS: max(finished - started, 0) / 1_000_000,
        },
    )


def evaluations(judgement: Json, contract: str, at_us: int) -> tuple[SpanEvent, ...]:
    """Return one event for each postcondition. `judgement`: the recorded evidence; without it there are no events."""
    ensure = judgement.get("ensure") if isinstance(judgement, dict) else None
    found = [each for each in ensure[:EVALUATIONS_MAX] if isinstance(each, dict)] if isinstance(ensure, list) else []
    events = list[SpanEvent]()
    for each in found:
        said: Attributes = {
            names.EVALUATION_NAME: f"{contract}.{each.get('name')}",
            names.EVALUATION_LABEL: LABELS.get(str(each.get("truth")), "unknown"),
        }
        if each.get("reason"):
            said[names.EVALUATION_EXPLANATION] = cut(each["reason"])
        if each.get("group"):
            said[names.EFFECT_GROUP] = cut(each["group"])
        events.append(SpanEvent(names.EVALUATION, at_us, said))
    return tuple(events)


def _payloads(bodies: Bodies, action: Action) -> Attributes:
    """Return arguments and result as JSON text, redacted by the contract when they were recorded."""
    found: Attributes = {}
    request = bodies(action.request_ref)
    if isinstance(request, dict) and "requested" in request:
        found[names.GEN_AI_TOOL_CALL_ARGUMENTS] = json_text(request["requested"])[:PAYLOAD_MAX_CHARACTERS]
    result = bodies(action.observation_ref) if action.observation_ref else None
    if result is not None:
        found[names.GEN_AI_TOOL_CALL_RESULT] = json_text(result)[:PAYLOAD_MAX_CHARACTERS]
    return found


def _whole(value: Json) -> int:
    return value if isinstance(value, int) else 0
