"""Context of an attempt, for actions, readers and searches.

Made by the engine, passed to user code by the drivers. A context holds ids and the attempt's two marks. It gives no
access to the ledger.
"""

from __future__ import annotations

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.tracing.trace_context import TraceContext, execution_span_id, trace_id_of


@dataclass(frozen=True, slots=True)
class Context:
    """The context of an attempt, for a parameter annotated with `Context`.

    Attributes:
        idempotency_key: Prevents a second execution in a tool that honours keys. Equal for all attempts of an action.
        stamp: The mark inside the artefact, found there by another path. Equal for all attempts of an action.
        strong: Asks a reader to bypass caches and replicas.
        observed: The tool's answer, or None before an answer. A hint, such as a provider's id; never truth.
        before: The value read before execution. None before the reading, without one, or for an absent object. Lets a
            reader of a source without stamps recognise newer objects, also after a restart. A copy: a change affects no
            judgement.
        reverses: In a compensation, the stamp of the action to reverse.
        sampled: False where the caller's trace is not sampled.

    Example:
        >>> from readback import Context
        >>> Context("a", "acme", "agent", "op", "order/1", "key", "rb-a").target
        'order/1'
    """

    action_id: str
    tenant: str
    principal: str
    operation: str
    target: str
    idempotency_key: str
    stamp: str
    attempt: int = 1
    strong: bool = False
    observed: Json = None
    run: str = ""
    trace: str = ""
    before: Json = None
    reverses: str = ""
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The W3C `traceparent` of this execution, for a request to another process; "" without a trace.

        Example:
            >>> from readback import Context
            >>> trace = "0af7651916cd43dd8448eb211c80319c"
            >>> Context("a", "acme", "agent", "op", "order/1", "key", "rb-a", trace=trace).traceparent[:36]
            '00-0af7651916cd43dd8448eb211c80319c-'
        """
        if not self.trace:
            return ""
        span_id = execution_span_id(self.action_id, self.attempt)
        return TraceContext(trace_id_of(self.trace, ""), span_id, self.sampled).traceparent

    @property
    def subject_stamp(self) -> str:
        """The stamp on the artefact: in a compensation the stamp of the action to reverse, else the own stamp.

        A reader or search shared with a compensation looks for this stamp.

        Example:
            >>> from readback import Context
            >>> Context("a", "acme", "agent", "op", "order/1", "key", "rb-a", reverses="rb-b").subject_stamp
            'rb-b'
        """
        return self.reverses or self.stamp
