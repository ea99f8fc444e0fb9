"""A fault world around a tool of the user's own: the real tool and the real readers, on the declared sandbox.

Tool and readers belong to the action's safe twin, never to the action itself. The faults bend the calls:
withheld, doubled, cut off, or answered with an older reading. `effects` states the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from inspect import isawaitable
from typing import Any, Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.sandbox_actions import Drillable, SafeTarget, safe_twin
from readback.domain.context import Context
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Lookup, Reading
from readback.engine.compiled_contract import CompiledContract
from readback.engine.stages.execute import is_staged
from readback.errors import DrillRefusedError
from readback.ports.handlers import Handler
from readback.ports.runtime import Runtime
from readback.testing.driver_virtual import CallHangs
from readback.testing.faults.fault import Fault, NotInjectable, Truth

EARLIER: Final = "rb-earlier"
"""The stamp of the earlier, equal action behind a cached confirmation."""
Bent = Callable[[Context, Mapping[str, object]], object]


@dataclass(frozen=True, slots=True)
class SandboxWorld:
    """The sandbox of an action with a declared twin.

    Attributes:
        action: The action. The twin (`.twin`) is called, nothing else.
        arguments: The arguments of one call.
        reset: Restores the sandbox to the state before the call.
        effects: Returns the number of right and of wrong effects with the context's stamp.
        foreign: Acts for another tenant, as a wrongly routed tool. Left out, the fault stays undetermined.
        partial: Commits a part of the effect. Left out, the fault stays undetermined.

    Example:
        >>> from readback import Context, Reading, action
        >>> from readback.testing import Fault, SandboxWorld, inject
        >>> def switching(lamp: dict[str, bool]):
        ...     @action("lamp", ensure="authoritative.on", within="10ms")
        ...     def switch_on() -> None: lamp["on"] = True
        ...     @switch_on.read(strong=True)
        ...     def read_lamp() -> Reading: return Reading.of(dict(lamp))
        ...     return switch_on
        >>> live, sandbox = {"on": False}, {"on": False}
        >>> switch_on = switching(live)
        >>> twin = switch_on.twin(switching(sandbox))
        >>> world = SandboxWorld(
        ...     switch_on, {}, reset=lambda: sandbox.update(on=False), effects=lambda ctx: (int(sandbox["on"]), 0)
        ... )
        >>> inject(switch_on.plan, world, Fault.STALE_READ_CONFIRMS).standing.value
        'held'
        >>> live
        {'on': False}
    """

    action: Drillable
    arguments: Mapping[str, Json]
    reset: Callable[[], object]
    effects: Callable[[Context], tuple[int, int]]
    foreign: Bent | None = None
    partial: Bent | None = None

    @property
    def contract(self) -> str:
        """The contract's name."""
        return self.action.name

    def scene(self, plan: CompiledContract, fault: Fault, runtime: Runtime) -> SandboxScene:
        """Prepare a run on a fresh sandbox. Raises NotInjectable, DrillRefusedError."""
        declared = getattr(self.action, "declared_twin", None)
        twin, bound, _ = safe_twin(self.action, declared, self.arguments)
        for needed, what, by in (
            (Fault.WRONG_TENANT, "foreign", self.foreign),
            (Fault.WRONG_TENANT_READ, "foreign", self.foreign),
            (Fault.PARTIAL_COMMIT, "partial", self.partial),
        ):
            if fault is needed and by is None:
                raise NotInjectable(f"The sandbox world does not state `{what}`.", undetermined=True)
        if fault is Fault.WRONG_TENANT_READ:
            raise NotInjectable("The readers of a sandbox read the place that they are asked for.")
        self.reset()
        return SandboxScene(self, declared, twin, fault, bound)


@dataclass(slots=True)
class SandboxScene:
    """A run on the sandbox under a fault."""

    spec: SandboxWorld
    declared: SafeTarget | None
    twin: CompiledContract
    fault: Fault
    bound: Mapping[str, object]
    calls: int = 0
    staged: bool = False
    """The tool left a transaction open."""
    _context: Context | None = None
    _old: dict[int, Reading] = field(default_factory=dict)
    _earlier: dict[int, Reading] = field(default_factory=dict)

    def act(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Call the twin's tool, as bent by the fault."""
        self._prepare(context)
        if self.calls == 0 and self.fault is Fault.STALE_READ_DENIES:
            self._old = self._readings(context)
        again = self.calls > 0 and self.twin.contract.execution.honours_key
        self.calls += 1
        answer: object = {"status": "ok"}
        match self.fault:
            case Fault.TIMEOUT_BEFORE_COMMIT:
                raise CallHangs
            case Fault.STALE_READ_CONFIRMS:
                return answer
            case Fault.DUPLICATE if not again:
                answer = self._execute(context)
                self._execute(replace(context, idempotency_key=f"{context.idempotency_key}-again"))
            case Fault.WRONG_TENANT:
                assert self.spec.foreign is not None
                answer = _waited(self.spec.foreign(context, self.bound))
            case Fault.PARTIAL_COMMIT:
                assert self.spec.partial is not None
                answer = _waited(self.spec.partial(context, self.bound))
                self.staged = self.staged or is_staged(answer)
            case _:
                answer = self._execute(context)
        if self.fault is Fault.TIMEOUT_AFTER_COMMIT:
            raise CallHangs
        return answer

    def _execute(self, context: Context) -> object:
        value = _waited(self.twin.hands.execute.call(context, self.bound))
        self.staged = self.staged or is_staged(value)
        return value

    def read(self, index: int, context: Context, arguments: Mapping[str, object]) -> object:
        """Read the sandbox, as bent by the fault."""
        self._prepare(context)
        acted = self.calls > 0
        match self.fault:
            case Fault.SOURCE_OUTAGE if acted:
                raise ConnectionError("The system of record does not answer.")
            case Fault.BROKEN_VERIFIER if acted:
                raise KeyError("column")
            case Fault.STALE_READ_DENIES if acted:
                return self._weak(index, self._old[index], Consistency.REPLICA)
            case Fault.STALE_READ_CONFIRMS if acted:
                return self._weak(index, self._earlier[index], Consistency.CACHED)
            case _:
                return self._look(self.twin.hands.readers[index], context)

    def find(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Search the sandbox. A stale search is incomplete, and an incomplete search raises."""
        self._prepare(context)
        if self.calls and self.fault in _BLIND:
            raise ConnectionError("The search does not answer.")
        if self.calls and self.fault is Fault.BROKEN_VERIFIER:
            raise KeyError("column")
        assert self.twin.hands.find is not None
        return self._look(self.twin.hands.find, context)

    def lookup(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Look the key up in the sandbox."""
        self._prepare(context)
        if self.calls and self.fault in (Fault.STALE_READ_DENIES, Fault.STALE_READ_CONFIRMS):
            return Lookup.unknown_key()
        if self.calls and self.fault is Fault.SOURCE_OUTAGE:
            raise ConnectionError("The look-up does not answer.")
        if self.calls and self.fault is Fault.BROKEN_VERIFIER:
            raise KeyError("column")
        assert self.twin.hands.lookup is not None
        return self._look(self.twin.hands.lookup, context)

    def reverse(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Reverse by the twin's own compensation or rollback."""
        back = self.twin.compensation
        hand = back.hands.execute if back is not None else self.twin.hands.rollback
        if hand is None:
            raise DrillRefusedError(f"{self.twin.contract.name!r} has no reversal.")
        return self._look(hand, context)

    def truth(self) -> Truth:
        """Return the sandbox's own count."""
        if self._context is None:
            return Truth(0, 0)
        right, wrong = self.spec.effects(self._context)
        return Truth(right, wrong)

    def _prepare(self, context: Context) -> None:
        if self._context is not None:
            return
        self._context = context
        if self.fault is Fault.STALE_READ_CONFIRMS:
            earlier = replace(context, stamp=EARLIER, idempotency_key=f"{context.idempotency_key}-earlier")
            self._execute(earlier)
            self._earlier = self._readings(earlier)
            self.spec.reset()

    def _readings(self, context: Context) -> dict[int, Reading]:
        found = enumerate(self._look(hand, context) for hand in self.twin.hands.readers)
        return {index: reading for index, reading in found if isinstance(reading, Reading)}

    def _look(self, hand: Handler, context: Context) -> Any:
        return _waited(hand.call(context, self.bound))

    def _weak(self, index: int, reading: Reading, level: Consistency) -> Reading:
        """A strong reader states its failover. A weaker reader is as weak as the contract says."""
        strong = self.twin.contract.readers[index].consistency is Consistency.STRONG
        return replace(reading, consistency=level) if strong else reading


_BLIND: Final = (Fault.SOURCE_OUTAGE, Fault.STALE_READ_DENIES, Fault.STALE_READ_CONFIRMS)


def _waited(value: object) -> object:
    """Finish an async tool or reader of the sandbox."""
    if not isawaitable(value):
        return value

    async def finish() -> object:
        return await value

    return asyncio.run(finish())
