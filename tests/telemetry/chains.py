"""What tests ask of the spans of a ledger: the spans of the whole log, the chain of an action, and rules for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from readback.domain.tracing import names
from readback.domain.tracing.trace_context import is_span_id, is_trace_id
from readback.ports.storage.store import LedgerStore
from readback.telemetry.projector import Projector
from readback.telemetry.spans import Span

STAGES: Final = (
    names.VALIDATION,
    names.WRAPPER,
    names.EXECUTE_TOOL,
    names.VERIFICATION,
    names.RECONCILIATION,
    names.RECOVERY_SPAN,
)
OF_ONE_RUN: Final = frozenset({names.ACTION_ID, names.LEDGER_ENTRY_ID, names.ATTEMPT, names.POSITION})
"""Attributes that differ between two runs of the same operation."""


def spans_in(store: LedgerStore, *, piece: int = 64, start: int = 0) -> list[Span]:
    """The spans of a log from a position on, read in pieces."""
    projector, found, seq = Projector(store), list[Span](), start
    while True:
        part = projector.after(seq, piece)
        assert part.damaged == 0
        found += part.spans
        if not part.entries:
            return found
        seq = part.last_seq


def stage_of(span: Span) -> str:
    """The stage of the chain that a span is; "" for another span."""
    return next((stage for stage in STAGES if span.name == stage or span.name.startswith(f"{stage} ")), "")


def chain(spans: Sequence[Span], contract: str) -> dict[str, Span]:
    """The last span of each stage of a contract's last action, in the order of the first ones."""
    mine = [span for span in spans if span.attributes[names.CONTRACT] == contract]
    last = [span.attributes[names.ACTION_ID] for span in mine if span.name.startswith("readback.call ")][-1]
    found: dict[str, Span] = {}
    for span in mine:
        if span.attributes[names.ACTION_ID] == last and (stage := stage_of(span)):
            found[stage] = span
    return found


def required(span: Span) -> dict[str, object]:
    """The required attributes that two runs of one operation share."""
    return {name: span.attributes[name] for name in names.REQUIRED if name not in OF_ONE_RUN}


def check_same(found: dict[str, Span], expected: dict[str, Span]) -> None:
    """A chain after a crash equals the chain without the crash.

    The ledger decides the end. A crash before the answer may lead to another end: the execution then says that it was
    interrupted, and the chain up to the execution is equal. A crash inside a reversal may end the recovery elsewhere.
    """
    told, wanted = (
        [(stage, span.attributes[names.STATE], span.attributes[names.DISCREPANCY_CLASS]) for stage, span in one.items()]
        for one in (_before_recovery(found), _before_recovery(expected))
    )
    if told != wanted:
        assert found[names.EXECUTE_TOOL].attributes.get(names.INTERRUPTED) is True, "another end without a reason"
        return
    for stage, span in expected.items():
        if stage == names.RECOVERY_SPAN and found[stage].attributes[names.STATE] != span.attributes[names.STATE]:
            continue
        assert required(found[stage]) == required(span), stage
        assert bool(found[stage].error) == bool(span.error), stage


def _before_recovery(chain_: dict[str, Span]) -> dict[str, Span]:
    return {stage: span for stage, span in chain_.items() if stage != names.RECOVERY_SPAN}


def check_each(spans: Sequence[Span]) -> None:
    """The rules for all spans of a log."""
    ids = [span.span_id for span in spans]
    assert len(ids) == len(set(ids)), "two spans have one id"
    for span in spans:
        assert is_trace_id(span.trace_id)
        assert is_span_id(span.span_id)
        assert 0 < span.start_us <= span.end_us
        for name in (*names.REQUIRED, *names.OWN):
            assert name in span.attributes, f"{span.name} lacks {name}"
            assert span.attributes[name] != "", f"{span.name} has no {name}"
        assert all(not isinstance(value, dict | list | type(None)) for value in span.attributes.values())


def check_links(spans: Sequence[Span], callers: Iterable[str] = ()) -> None:
    """Every parent and every link is a span of the log, or the caller's own."""
    known = {span.span_id for span in spans} | set(callers)
    for span in spans:
        assert not span.parent_id or span.parent_id in known, f"{span.name} has a parent that does not exist"
        for link in span.links:
            assert link.span_id in known, f"{span.name} links to no span: {link.relation}"
