"""Spans as plain values, and the stretches of work that they belong to.

A stretch is the work between two waits: a call, a resumption after a crash, a worker's look, a person's decision, or a
late look. Each stretch has one root span. No span covers a wait. A later root links to the first span of its action.

The values follow from the entries alone. The same entries give the same spans in any process, at any time, also after
`kill -9`. `telemetry.spans_action` and `telemetry.spans_saga` make the spans; `telemetry.projector_otlp` exports them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import Final, TypeAlias

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.tracing import names
from readback.domain.tracing.attributes import Attributes
from readback.domain.tracing.trace_context import entry_span_id

Bodies: TypeAlias = Callable[[str], Json]
"""Returns the evidence with a digest; None where the evidence is erased or unavailable."""
GAP_US: Final = 60_000_000
"""A longer pause after a judgement ends the stretch: the process did not continue."""


class Stretch(StrEnum):
    """What a stretch of work is."""

    CALL = "call"
    RESUME = "resume"
    LOOK = "look"
    DECISION = "decision"
    LATE_LOOK = "late_look"
    CLAIM = "claim"


class Relation(StrEnum):
    """What a linked span is to the span with the link."""

    INFERENCE = "inference"
    PREVIOUS = "previous"
    FIRST = "first"
    REVERSES = "reverses"
    COMPENSATION = "compensation"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to another span of the same trace."""

    span_id: str
    relation: Relation
    trace_id: str = ""
    """"" for the trace of the span with the link."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """A moment inside a span."""

    name: str
    at_us: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """One finished span. Ids are lower-case hex; times are microseconds since the epoch.

    `error`: why the status is ERROR; "" for the status UNSET. An unknown or pending result is no error.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_us: int
    end_us: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: str = ""
    client: bool = False
    """Whether the span calls another process (kind CLIENT), else kind INTERNAL."""
    sampled: bool = True
    """False where the caller's own trace is not sampled."""
    root: bool = False
    remote: bool = False
    """Whether another process made the parent."""

    def as_json(self) -> dict[str, Json]:
        """Return plain data, for `--json`."""
        return {
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "parent_id": self.parent_id or None,
            "name": self.name,
            "kind": "client" if self.client else "internal",
            "start_us": self.start_us,
            "end_us": self.end_us,
            "status": "error" if self.error else "unset",
            "error": self.error or None,
            "attributes": dict(self.attributes),
            "events": [
                {"name": each.name, "at_us": each.at_us, "attributes": dict(each.attributes)} for each in self.events
            ],
            "links": [
                {"trace_id": each.trace_id or self.trace_id, "span_id": each.span_id, "relation": each.relation.value}
                for each in self.links
            ],
        }


@dataclass(slots=True)
class OpenStretch:
    """The root span of the current stretch, before its end is known."""

    kind: Stretch
    span_id: str
    start_us: int
    last_us: int
    parent_id: str = ""
    remote: bool = False
    links: tuple[SpanLink, ...] = ()
    events: list[SpanEvent] = field(default_factory=list)
    extra: Attributes = field(default_factory=dict)
    error: str = ""

    def closed(self, trace_id: str, contract: str, attributes: Attributes, *, sampled: bool) -> Span:
        """Return the finished root span."""
        return Span(
            trace_id,
            self.span_id,
            self.parent_id,
            f"readback.{self.kind.value} {contract}",
            self.start_us,
            max(self.last_us, self.start_us),
            {**attributes, **self.extra, names.STRETCH: self.kind.value},
            tuple(self.events),
            self.links,
            self.error,
            sampled=sampled,
            root=True,
            remote=self.remote,
        )


def later_root(kind: Stretch, leaf: str, at_us: int, first: str) -> OpenStretch:
    """Return the root of a stretch after the first, with a link to the first span."""
    link = SpanLink(first, Relation.FIRST)
    return OpenStretch(kind, entry_span_id(leaf, "stretch"), at_us, at_us, links=(link,))
