"""Drills of a tool's honoured key: a safe sandbox is called twice under one key, and its effects are counted.

For tests of contracts and for `readback drill key`. A drill calls a tool outside any ledger, which nothing else may do.
So a drill runs a declared sandbox only, and refuses before the call. Never use a drill on a real target.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from inspect import isawaitable
from typing import Any, Final, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.sandbox_actions import Drillable, SafeTarget, safe_twin
from readback.domain.context import Context
from readback.domain.contract.contract import Contract
from readback.domain.idempotency import key_hash, key_text
from readback.domain.kind import Kind
from readback.domain.predicate import Path, look
from readback.domain.verification.observation import Observation, ObservationStatus, normalise, normalise_exception
from readback.domain.verification.reading import Presence, Reading
from readback.engine.compiled_contract import CompiledContract
from readback.engine.stages.execute import is_staged
from readback.errors import (
    AnswersDifferError,
    DoubledEffectError,
    DrillRefusedError,
    DrillUndeterminedError,
)
from readback.ports.handlers import Handler

US: Final = 1_000_000
POLL_LAST_SECONDS: Final = 1.0
SECONDS_MAX: Final = 600.0
"""The longest search for effects in one drill, in seconds."""
_ANSWERED: Final = (ObservationStatus.SUCCESS, ObservationStatus.ACCEPTED, ObservationStatus.PENDING)


class Pause(Protocol):
    """The part of a runtime used by a drill."""

    def new_id(self) -> str:
        """Return a fresh id."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        ...


class _Real:
    """This machine's runtime, the default."""

    def new_id(self) -> str:
        return secrets.token_hex(13)

    def sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True)
class KeyDrill:
    """A passed drill: two calls, one effect, and equal answers.

    Example:
        >>> from readback import Context, Reading, action
        >>> from readback.testing import drill_key
        >>> def counting(stock: dict[str, int]):
        ...     answered = {}
        ...     @action("stock", kind="adjust", side_effect="low_risk_internal", operation="add {n}",
        ...         ensure="authoritative.n == before.n + requested.n", execute={"honours_key": True},
        ...         identity={"target": "has(authoritative.n)", "tenant": "not_offered"}, within="10ms")
        ...     def add_stock(ctx: Context, n: int) -> dict[str, str]:
        ...         if ctx.idempotency_key not in answered:
        ...             answered[ctx.idempotency_key] = {"status": "ok"}
        ...             stock["n"] += n
        ...         return answered[ctx.idempotency_key]
        ...     @add_stock.read(strong=True, attributes=True)
        ...     def count() -> Reading: return Reading.of(dict(stock))
        ...     return add_stock
        >>> add_stock = counting({"n": 7})
        >>> twin = add_stock.twin(counting({"n": 7}))
        >>> drill = drill_key(add_stock, {"n": 3})
        >>> print(drill.contract, drill.effects, drill.first, drill.second)
        add_stock 1 success success
    """

    contract: str
    idempotency_key: str
    stamp: str
    target: str
    effects: int
    first: str
    second: str
    seen_by: str

    def as_json(self) -> dict[str, Json]:
        """Return the result as plain data."""
        return {**asdict(self), "honours_key": True}


def drill_key(
    action: Drillable,
    arguments: Mapping[str, object],
    *,
    twin: SafeTarget | Drillable | None = None,
    tenant: str = "drill",
    principal: str = "agent:drill",
    settle: float | None = None,
    runtime: Pause | None = None,
) -> KeyDrill:
    """Call the action's safe sandbox twice under one key. Return after one effect and one answer.

    Args:
        twin: The sandbox declared by the action. Any other sandbox is refused.
        settle: The search time for a second effect, in seconds (the contract's `within`).

    Raises:
        DrillRefusedError: Before any call.
        DoubledEffectError: Two effects were found.
        AnswersDifferError: The answers differ.
        DrillUndeterminedError: The drill settled nothing.

    Example:
        >>> from readback import Context, Reading, action
        >>> from readback.testing import drill_key
        >>> def counting(stock: dict[str, int]):
        ...     answered = {}
        ...     @action("stock", kind="adjust", side_effect="low_risk_internal", operation="add {n}",
        ...         ensure="authoritative.n == before.n + requested.n", execute={"honours_key": True},
        ...         identity={"target": "has(authoritative.n)", "tenant": "not_offered"}, within="10ms")
        ...     def add_stock(ctx: Context, n: int) -> dict[str, str]:
        ...         if ctx.idempotency_key not in answered:
        ...             answered[ctx.idempotency_key] = {"status": "ok"}
        ...             stock["n"] += n
        ...         return answered[ctx.idempotency_key]
        ...     @add_stock.read(strong=True, attributes=True)
        ...     def count() -> Reading: return Reading.of(dict(stock))
        ...     return add_stock
        >>> add_stock = counting({"n": 7})
        >>> twin = add_stock.twin(counting({"n": 7}))
        >>> drill_key(add_stock, {"n": 3}).effects
        1
    """
    declared = getattr(action, "declared_twin", None)
    given = twin if twin is None or isinstance(twin, SafeTarget) else SafeTarget(twin)
    if declared is not None and given is not None and given != declared:
        raise DrillRefusedError(f"This is not the twin that {action.name!r} declares.")
    plan, bound, requested = safe_twin(action, declared or given, arguments)
    _drillable(plan)
    run = _Drill(plan, bound, requested, runtime or _Real(), tenant, principal)
    return run.hold(plan.contract.within_us / US if settle is None else settle)


def _drillable(plan: CompiledContract) -> None:
    contract = plan.contract
    if not contract.execution.honours_key:
        raise DrillRefusedError(
            f"The contract {contract.name!r} does not claim that its tool honours a key.",
            remedy="Say execute={'honours_key': True} where it is to be shown.",
        )
    countable = contract.kind in (Kind.SET, Kind.ADJUST, Kind.DELETE) and contract.readers
    if not contract.has_find and not countable:
        raise DrillRefusedError(
            f"{contract.name!r} cannot be drilled: a second {contract.kind.value} would not be seen.",
            remedy="Give it a `find` by the stamp.",
        )


class _Drill:
    """One drill: the calls, and the looks between them."""

    def __init__(
        self,
        plan: CompiledContract,
        bound: Mapping[str, object],
        requested: Mapping[str, Json],
        runtime: Pause,
        tenant: str,
        principal: str,
    ) -> None:
        self._plan, self._bound, self._runtime = plan, bound, runtime
        drill = f"drill-{runtime.new_id()}"
        contract, self._stamp = plan.contract, f"rb-{drill}"
        key = key_text(key_hash(tenant, contract.name, drill))
        scope: dict[str, Json] = {"tenant": tenant, "principal": principal, "operation": drill, "stamp": self._stamp}
        variables: dict[str, Json] = {
            "requested": dict(requested), "intended": dict(requested), "observed": None, "scope": scope,
        }  # fmt: skip
        self._context = Context(drill, tenant, principal, drill, plan.target(variables), key, self._stamp, strong=True)

    def hold(self, settle: float) -> KeyDrill:
        before = self._seen()
        if self._plan.contract.has_find and before != 0:
            raise DrillUndeterminedError("The search finds effects of a stamp that was never used.")
        first = self._called(1)
        if first.status not in _ANSWERED:
            raise DrillUndeterminedError(f"The first call did not work: {first.status.value}, {first.detail}")
        once = self._until(lambda seen: seen != before, self._plan.contract.within_us / US)
        if once == before:
            raise DrillUndeterminedError("No effect of the first call was seen, so that a second one cannot be either.")
        if isinstance(once, int) and once > 1:
            raise DoubledEffectError(f"The first call alone had {once} effects.", details=self._details(once))
        second = self._called(2)
        twice = self._until(lambda seen: seen != once, settle)
        if twice != once:
            count = twice if isinstance(twice, int) else 2
            raise DoubledEffectError(
                f"Two calls of {self._plan.contract.name!r} under one key had {count} effects.",
                details=self._details(count),
            )
        self._compare(first, second)
        by = self._plan.hands.find or self._plan.hands.readers[0]
        return KeyDrill(
            self._plan.contract.name, self._context.idempotency_key, self._stamp, self._context.target, 1,
            first.status.value, second.status.value, by.name,
        )  # fmt: skip

    def _details(self, effects: int) -> dict[str, object]:
        context = self._context
        return {
            "contract": self._plan.contract.name, "target": context.target, "effects": effects,
            "idempotency_key": context.idempotency_key, "stamp": context.stamp,
        }  # fmt: skip

    # --- calling ------------------------------------------------------------------------------------------------

    def _called(self, attempt: int) -> Observation:
        c = self._context
        context = Context(
            c.action_id, c.tenant, c.principal, c.operation, c.target, c.idempotency_key, c.stamp, attempt
        )
        try:
            value = self._let(self._plan.hands.execute, context)
        except Exception as error:  # tidy: boundary -- whatever the tool raises is its answer, as in any driver
            return normalise_exception(error, 0)
        if is_staged(value):
            value.abandon()
            raise DrillRefusedError("The action leaves a transaction open; no key is needed to drop that.")
        return normalise(value, 0)

    def _let(self, hand: Handler, context: Context) -> Any:
        value = hand.call(context, self._bound)
        if not isawaitable(value):
            return value

        async def finish() -> object:
            return await asyncio.wait_for(value, self._plan.contract.execution.timeout_us / US)

        return asyncio.run(finish())

    # --- looking ------------------------------------------------------------------------------------------------

    def _until(self, enough: Callable[[object], bool], limit: float) -> object:
        """Return the last look: early with enough effects, else at the end of the time."""
        seen = self._seen()
        for pause in _pauses(self._plan.contract, min(limit, SECONDS_MAX)):
            if enough(seen):
                return seen
            self._runtime.sleep(pause)
            seen = self._seen()
        return seen

    def _seen(self) -> object:
        """Return the number of effects with the stamp; without a search, the target's version or content."""
        find = self._plan.hands.find
        if find is not None:
            found = self._look(find)
            if not isinstance(found, list) or not all(isinstance(each, Reading) for each in found):
                raise DrillUndeterminedError(f"{find.name!r} gave no list of readings.")
            return sum(1 for each in found if each.presence is Presence.PRESENT and each.stamp in (None, self._stamp))
        reader = self._plan.hands.readers[_strongest(self._plan.contract)]
        reading = self._look(reader)
        if not isinstance(reading, Reading) or reading.presence not in (Presence.PRESENT, Presence.ABSENT):
            raise DrillUndeterminedError(f"{reader.name!r} showed nothing that could be compared.")
        if self._plan.contract.kind is Kind.SET and reading.presence is Presence.PRESENT and reading.version is None:
            raise DrillUndeterminedError("Setting the same twice shows in a version alone, and the reader gives none.")
        return str(reading.version) if reading.version is not None else (reading.presence.value, str(reading.value))

    def _look(self, hand: Handler) -> object:
        try:
            return self._let(hand, self._context)
        except Exception as error:
            raise DrillUndeterminedError(f"{hand.name!r} failed: {type(error).__name__}: {error}") from error

    # --- comparing ----------------------------------------------------------------------------------------------

    def _compare(self, first: Observation, second: Observation) -> None:
        if second.status in (ObservationStatus.TIMEOUT, ObservationStatus.NOT_DISPATCHED):
            raise DrillUndeterminedError(f"The second call got no answer: {second.detail}")
        differ = []
        if second.status not in _ANSWERED:
            differ.append(f"the first said {first.status.value}, the second {second.status.value} ({second.detail})")
        elif first.reference != second.reference:
            differ.append(f"the first named {first.reference!r}, the second {second.reference!r}")
        for path in _relied_on(self._plan):
            said = [look(path, {"observed": each.body}) for each in (first, second)]
            if said[0] != said[1]:
                differ.append(f"{path} was {said[0]!r:.80}, then {said[1]!r:.80}")
        if differ:
            message = f"Two calls of {self._plan.contract.name!r} under one key had one effect and two answers: "
            raise AnswersDifferError(message + "; ".join(differ) + ".", details=self._details(1))


def _relied_on(plan: CompiledContract) -> list[Path]:
    """Return the fields of the tool's answer used by the contract."""
    checks = (*plan.require, *plan.ensure, *plan.fails_when)
    predicates = [each.predicate for each in checks if each.predicate is not None]
    predicates += [each.predicate for each in plan.identity]
    found = [path for each in predicates for path in each.paths]
    found += [Path.named(".".join(path)) for path in getattr(plan.target, "paths", ())]
    return list(dict.fromkeys(path for path in found if path.root == "observed" and len(path.steps) > 1))


def _pauses(contract: Contract, limit: float) -> Iterator[float]:
    spent, polls = 0.0, [each / US for each in contract.polls_us]
    while spent < limit:
        pause = polls.pop(0) if polls else POLL_LAST_SECONDS
        pause = min(max(pause, 0.0), limit - spent)
        spent += pause or limit / 64
        yield pause


def _strongest(contract: Contract) -> int:
    return max(range(len(contract.readers)), key=lambda i: (contract.readers[i].consistency.rank, -i))
