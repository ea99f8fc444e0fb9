"""The spans of one saga, from its entries in order: a root for each stretch, a span for each step, and the recovery.

A step's span is the parent of the first span of the step's action. The ids of the saga and of the action give the id
of the step's span, because the action's own entries come first.
"""

from __future__ import annotations

from typing import Final

from readback.domain.events import Event, EventKind, ParsedEnvelope
from readback.domain.records.pointer import EntryPointer
from readback.domain.saga.fold import Saga
from readback.domain.state import STATUS, State
from readback.domain.tracing import names
from readback.domain.tracing.attributes import Attributes, cut, tenant_hash
from readback.domain.tracing.trace_context import (
    entry_span_id,
    first_span_id,
    is_span_id,
    step_span_id,
    trace_id_of,
)
from readback.telemetry.spans import Bodies, OpenStretch, Relation, Span, SpanLink, Stretch, later_root

_K: Final = EventKind
_DECISIONS: Final = frozenset({_K.CANCELLED, _K.RESOLVED, _K.ERASED, _K.HELD})
FAILED_STEPS: Final = frozenset({State.COMPENSATION_FAILED.value})


class SagaSpans:
    """Makes the spans of one saga."""

    def __init__(self, saga_id: str, tenant: str) -> None:
        self.saga = Saga(saga_id, tenant)
        self._first = first_span_id(saga_id)
        self._trace, self._parent = "", ""
        self._terms: Attributes = {}
        self._root: OpenStretch | None = None
        self._begun: dict[str, int] = {}
        """Start times of the steps in the current stretch."""
        self._sampled = True
        self._previous = ""

    @property
    def version(self) -> int:
        """The number of entries taken."""
        return self.saga.version

    def take(self, opened: ParsedEnvelope, leaf: str, seq: int, bodies: Bodies) -> list[Span]:
        """Return the spans that end with this entry. Raises StoreCorruptError for an impossible entry."""
        event, spans = opened.event, list[Span]()
        self.saga.apply(event, leaf)
        if event.kind is _K.SAGA_BEGUN:
            self._begins()
        facts = self._facts(seq)
        root = self._root = self._root or self._opened(event, leaf)
        root.last_us = max(root.last_us, event.at_us)
        if event.kind is _K.SAGA_STEP:
            self._step(event, leaf, root, facts, spans)
        elif event.kind is _K.SAGA_TURNED or (event.kind is _K.SAGA_ENDED and event.data["review"]):
            spans.append(self._recovery(event, leaf, root, facts))
        elif event.kind in _DECISIONS:
            root.extra[names.DECISION] = cut(event.data.get("decision")) or event.kind.value
        waits = event.kind is _K.SAGA_STEP and event.data["what"] == "waits"
        if waits or event.kind is _K.SAGA_ENDED or event.kind in _DECISIONS:
            spans.append(self._close(root, facts))
        return spans

    def _begins(self) -> None:
        saga, context = self.saga, self.saga.context
        given, span = str(context.get("trace") or ""), str(context.get("parent_span") or "")
        self._trace = trace_id_of(given, saga.id)
        self._parent = span if given and is_span_id(span) else ""
        self._sampled = context.get("sampled") != "0"
        self._terms = {
            names.ACTION_ID: saga.id,
            names.WORKFLOW_RUN_ID: cut(context.get("run")) or names.NOT_GIVEN,
            names.TOOL_NAME: saga.contract,
            names.TOOL_VERSION: names.NOT_GIVEN,
            names.VERIFICATION_POLICY_VERSION: names.NOT_GIVEN,
            names.RECOVERY_POLICY_VERSION: saga.table or names.NOT_GIVEN,
            names.SIDE_EFFECT_CLASS: saga.side_effect.ledger_name,
            names.IDEMPOTENCY_KEY_HASH: saga.key_hash or names.NOT_GIVEN,
            names.APPROVAL_ID: names.NOT_GIVEN,
            names.DISCREPANCY_CLASS: names.NOT_GIVEN,
            names.TENANT_HASH: tenant_hash(saga.tenant),
            names.CONTRACT: saga.contract,
            names.CONTRACT_HASH: saga.request_hash or names.NOT_GIVEN,
            names.SAGA_ID: saga.id,
        }

    def _facts(self, seq: int) -> Attributes:
        saga = self.saga
        return {
            names.RECONCILIATION_STATUS: STATUS[saga.state].reconciliation.value,
            names.LEDGER_ENTRY_ID: str(EntryPointer(saga.id, saga.version, saga.head)),
            names.STATE: saga.state.value,
            names.VERDICT: names.NOT_GIVEN,  # the actions have verdicts; a saga's end verifies nothing
            names.WHY: saga.reason or names.NOT_GIVEN,
            names.FINDING: names.NOT_GIVEN,
            names.ATTEMPT: 0,
            names.POSITION: seq,
        }

    def _opened(self, event: Event, leaf: str) -> OpenStretch:
        self._begun = {}
        if event.kind is _K.SAGA_BEGUN:
            caller = self._parent
            links = (SpanLink(caller, Relation.INFERENCE),) if caller else ()
            at_us = event.at_us
            return OpenStretch(Stretch.CALL, self._first, at_us, at_us, caller, bool(caller), links)
        kind = Stretch.DECISION if event.kind in _DECISIONS else Stretch.LOOK
        return later_root(kind, leaf, event.at_us, self._first)

    def _close(self, root: OpenStretch, facts: Attributes) -> Span:
        self._root = None
        attributes = {**self._terms, **facts}
        return root.closed(self._trace, self.saga.contract, attributes, sampled=self._sampled)

    def _step(self, event: Event, leaf: str, root: OpenStretch, facts: Attributes, spans: list[Span]) -> None:
        data = event.data
        what, name, action = str(data["what"]), str(data["step"]), str(data.get("action") or "")
        if what in ("begins", "reverses"):
            self._begun[name] = event.at_us
            return
        if what not in ("ended", "reversed", "refused"):
            return
        terms = self.saga.step(name)
        undone = what == "reversed"
        state = State.FAILED.value if what == "refused" else str(data["state"])
        attributes: Attributes = {
            **self._terms,
            **facts,
            names.TOOL_NAME: terms.undo if undone else terms.contract,
            names.TOOL_VERSION: names.NOT_GIVEN if undone else terms.contract_version,
            names.SIDE_EFFECT_CLASS: terms.side_effect.ledger_name,
            names.STATE: state,
            names.SAGA_STEP: name,
            names.SAGA_REGION: terms.region.value,
        }
        if state in STATUS:
            attributes[names.RECONCILIATION_STATUS] = STATUS[State(state)].reconciliation.value
        if action:
            attributes[names.ACTION_ID] = action
        if data.get("code"):
            attributes[names.CODE] = cut(data["code"])
        span_id = step_span_id(self.saga.id, action) if action else entry_span_id(leaf, names.STEP)
        links = [SpanLink(self._previous, Relation.PREVIOUS)] if self._previous else []
        if action:
            links.append(SpanLink(first_span_id(action), Relation.STEP))
        error = f"{what}: {state}" if state in FAILED_STEPS else ""
        begin = self._begun.pop(name, event.at_us)
        label = names.RECOVERY_SPAN if undone else names.STEP
        spans.append(
            Span(
                self._trace, span_id, root.span_id, f"{label} {name}", begin, event.at_us, attributes, (),
                tuple(links), error, sampled=self._sampled,
            )
        )  # fmt: skip
        self._previous = span_id

    def _recovery(self, event: Event, leaf: str, root: OpenStretch, facts: Attributes) -> Span:
        data = event.data
        extra: Attributes = {names.ROW: str(data["row"]), names.RECOVERY: str(data["recovery"])}
        if "to" in data:
            extra[names.DIRECTION] = str(data["to"])
        if data.get("review"):
            extra[names.REVIEW] = str(data["review"])
        links = (SpanLink(self._previous, Relation.PREVIOUS),) if self._previous else ()
        span_id = entry_span_id(leaf, names.RECOVERY_SPAN)
        attributes = {**self._terms, **facts, **extra}
        self._previous = span_id
        return Span(
            self._trace, span_id, root.span_id, names.RECOVERY_SPAN, event.at_us, event.at_us, attributes, (),
            links, sampled=self._sampled,
        )  # fmt: skip
