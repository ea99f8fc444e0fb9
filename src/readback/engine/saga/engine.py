"""Sagas: several actions as one. In the end all are verified, or none has an effect, or a person knows.

Called by the clients and workers through their drivers. Sans-I/O and level-based, like the engine: each look folds the
saga, loads its actions, asks `domain.saga` for the next moves, and records each move before the work. A process may die
anywhere in between; the next process finds the announced ids and continues from the ledger alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.claim import ClaimKind, ClaimStatus, own_status
from readback.domain.idempotency import KeyDecision, KeyStatus, aged, former_operation, key_hash, on_key
from readback.domain.saga.fold import KIND, Direction, Saga
from readback.domain.saga.planner import LOOK_AGAIN_US, SagaPlan, plan_moves
from readback.domain.state import State
from readback.engine import coordinator, tenant_limits
from readback.engine.claims.entries import REVERSED, enter_claims, is_reversed
from readback.engine.compiled_contract import CallerContext, CompiledContract
from readback.engine.effects import (
    Commit,
    Effects,
    GetClock,
    Lease,
    LoadKey,
    RunAll,
)
from readback.engine.engine import Engine
from readback.engine.entries.recorder import Recorder
from readback.engine.resume import PlanOf
from readback.engine.run_result import Duplicate, StopAtWait, Work
from readback.engine.saga import record as saga_record
from readback.engine.saga import steps as saga_steps
from readback.engine.saga.begin import SagaRequest, begin_run, check
from readback.engine.saga.steps import Definition
from readback.engine.saga_run import LEASE_MAX_US, LEASE_US, SagaRun, load_family, load_json
from readback.engine.schedule import lease_until
from readback.errors import InputError, InvariantError, PayloadConflictError
from readback.ports.storage.store import Appended, KeyConflict, KeyRecord, TooManyInFlight


class Left(StrEnum):
    """How a look at a saga ended."""

    WAITING = "waiting"
    """Everything is durable. The saga is due again later, or has ended."""
    ELSEWHERE = "elsewhere"
    """Another worker moved the saga on."""


CLAIM_LEASE_US: Final = 5_000_000

Look = Effects[Left]
Steps = Effects[None]


def begin(
    engine: Engine, request: SagaRequest, scope: CallerContext, plans: PlanOf, ticket: coordinator.ActionHandle
) -> Effects[None]:
    """Start a saga, or find the operation's existing saga and name it in the ticket.

    Raises SagaError with all faults of the definition, and PayloadConflictError for another definition under the same
    operation; then nothing was done.
    """
    terms = check(request, scope)
    begun = yield from GetClock(fresh=True)
    run, body = begin_run(request, terms, scope, begun, engine.table.version)
    taken = yield from _key_holder(run)
    if taken is None and engine.limits is not None:  # the saga's steps are admitted with the saga
        own = engine.limits.of(scope.tenant)
        yield from tenant_limits.check_evidence_quota(scope.tenant, own)
        run.in_flight_max = own.in_flight
    if taken is None:
        ticket.action_id = run.saga.id
        desk = _SagaExecutor(engine, plans, run, Definition.of(body, run.saga))
        ended = yield from desk.work(first=True)
        taken = ended if isinstance(ended, Duplicate) else None
    if taken is not None:
        ticket.action_id, ticket.replayed = taken.action_id, True


def _key_holder(run: SagaRun) -> Effects[Duplicate | None]:
    found = yield from LoadKey(run.saga.tenant, run.saga.key_hash)
    if found is not None:
        return _existing(run, found)
    composed = former_operation(run.saga.operation)
    if not composed:
        return None
    # Earlier releases composed the id's letters. Another definition under the composed id is another saga.
    found = yield from LoadKey(run.saga.tenant, key_hash(run.saga.tenant, f"{KIND}:{run.saga.name}", composed))
    record = found
    if record is None or record.request_hash != run.saga.request_hash:
        return None
    return Duplicate(record.action_id, in_flight=record.status == KeyStatus.PENDING.value)


def _existing(run: SagaRun, record: KeyRecord) -> Duplicate | None:
    same = record.request_hash == run.saga.request_hash
    match on_key(aged(KeyStatus(record.status), record.expires_us, run.now_us), same_request=same):
        case KeyDecision.EXECUTE:
            run.take_over(record.action_id)
            return None
        case KeyDecision.REFUSE:
            raise PayloadConflictError(
                f"Operation {run.saga.operation!r} of saga {run.saga.name!r} already exists with another definition.",
                details={"action": record.action_id},
            )
        case KeyDecision.REPLAY | KeyDecision.JOIN:
            return Duplicate(record.action_id, in_flight=record.status == KeyStatus.PENDING.value)


def proceed(engine: Engine, plans: PlanOf, run: SagaRun) -> Look:
    """Continue a leased saga until its next wait or its end."""
    ended = yield from _SagaExecutor(engine, plans, run).work()
    return Left.ELSEWHERE if isinstance(ended, Duplicate) else ended


@dataclass(slots=True)
class _SagaExecutor:
    """Executes one leased saga."""

    engine: Engine
    plans: PlanOf
    run: SagaRun
    definition: Definition | None = None

    def work(self, *, first: bool = False) -> Effects[Left | Duplicate]:
        """Look, record, work; repeat until nothing can be done now."""
        run = self.run
        before: tuple[int, tuple[tuple[str, int], ...]] = (-1, ())
        while True:
            family = {} if first else (yield from load_family(run.saga))
            first = False
            moves = plan_moves(run.saga, family, run.now_us)
            if moves.undone and not (yield from _take_back(run.saga, moves.undone, family)):
                saga_record.wait(run, run.now_us + LOOK_AGAIN_US, quiet=False)
                return (yield from self._commit(release_lease=True)) or Left.WAITING
            saga_record.news(run, moves, family)
            if moves.turn is not None:
                if saga_record.turn(run, moves, self.engine.table):
                    continue
                return (yield from self._commit(release_lease=True)) or Left.WAITING
            present = (run.saga.version, tuple(sorted((a.id, a.version) for a in family.values())))
            if moves.end is not None or not moves.works or present == before:
                return (yield from self._rest(moves, family, stalled=present == before))
            if moves.reverse and not saga_record.may_reverse(run, moves, family, self.engine.table):
                return (yield from self._commit(release_lease=True)) or Left.WAITING
            before = present
            works = yield from self._works(moves, family)
            if run.pending:
                ended = yield from self._commit(release_lease=False)
                if ended is not None:
                    return ended
                before = (run.saga.version, present[1])
            yield from self._together(works)

    def _rest(self, moves: SagaPlan, family: dict[str, Action], *, stalled: bool) -> Effects[Left | Duplicate]:
        """Nothing can be done now: record the time of the next look and release the lease."""
        run = self.run
        if moves.end is not None:
            saga_record.end(run, moves, family, self.engine.table)
        elif stalled:
            saga_record.wait(run, run.now_us + LOOK_AGAIN_US, quiet=False)
        elif moves.until_us is None:
            raise InvariantError(f"Saga {run.saga.id} waits for nothing and has not ended.")
        else:
            saga_record.wait(run, max(moves.until_us, run.now_us), quiet=moves.quiet, hold=moves.hold)
        return (yield from self._commit(release_lease=True)) or Left.WAITING

    # --- work ---

    def _works(self, moves: SagaPlan, family: dict[str, Action]) -> Effects[list[tuple[str, Work]]]:
        """The work by step ("" for continued actions). Every new action is announced first."""
        run, plans = self.run, self.plans
        works: list[tuple[str, Work]] = []
        for name in moves.begin:
            works += yield from self._begin(name, family)
        for name in moves.begun:
            works += yield from self._begin(name, family, run.saga.steps[name].action_id)
        for name in moves.withdraw:
            works += yield from self._withdraw(name, family)
        for name in (moves.reverse, moves.reversing):
            if name:
                works += yield from self._reverse(name, family)
        works += [("", coordinator.resume(self.engine, each, run.saga.tenant, plans)) for each in moves.go_on]
        run.lease_us = self._lease_us(len(works))
        return works

    def _begin(self, name: str, family: dict[str, Action], announced: str = "") -> Effects[list[tuple[str, Work]]]:
        run, terms = self.run, self.run.saga.step(name)
        action_id = announced or (yield from _fresh_id())
        try:
            request = yield from saga_steps.request_of(
                run.saga, (yield from self._defined()), terms, action_id, self._plan(terms.contract), family
            )
        except InputError as refused:
            saga_record.refused(run, name, refused)
            return []
        if not announced:
            saga_record.begins(run, name, action_id)
        return [(name, self.engine.run(request, run.scope))]

    def _withdraw(self, name: str, family: dict[str, Action]) -> Effects[list[tuple[str, Work]]]:
        run, terms = self.run, self.run.saga.step(name)
        action_id = run.saga.steps[name].action_id
        child = family.get(action_id)
        if child is not None:
            return [("", saga_steps.withdraw(self.engine, child, self.plans))]
        try:
            request = yield from saga_steps.request_of(
                run.saga, (yield from self._defined()), terms, action_id, self._plan(terms.contract), family
            )
        except InputError as refused:
            saga_record.refused(run, name, refused)
            return []
        return [("", saga_steps.decline(self.engine, request, run.scope))]

    def _reverse(self, name: str, family: dict[str, Action]) -> Effects[list[tuple[str, Work]]]:
        run = self.run
        record = run.saga.steps[name]
        undo_id = record.undo_id or (yield from _fresh_id())
        effect = family[record.action_id]
        try:
            request = yield from saga_steps.reversal_of(run.saga, effect, undo_id, self.plans)
        except InputError as refused:  # not proposed: the effect stays, and a person must know
            saga_record.unreversed(run, name, refused)
            return []
        if not record.undo_id:
            saga_record.reverses(run, name, undo_id)
        return [(name, self.engine.run(request, run.scope))]

    def _together(self, works: list[tuple[str, Work]]) -> Steps:
        """Run all work, each up to its first wait. An error for a step's caller becomes the step's end."""
        if not works:
            return
        run = self.run
        ready = tuple(saga_steps.guarded(StopAtWait(work, may_wait=False)) for _, work in works)
        gathered = yield from RunAll(ready)
        begun = yield from GetClock()
        run.passed(begun.now_us)
        for (name, _), result in zip(works, gathered, strict=True):
            if isinstance(result, InputError):
                self._refused(name, result)
            elif isinstance(result, BaseException):
                raise result
            elif name and isinstance(result, Duplicate):
                self._taken(name, result)

    def _refused(self, name: str, refused: InputError) -> None:
        if not name:
            raise refused
        record = self.run.saga.steps[name]
        if record.undo_id:
            saga_record.unreversed(self.run, name, refused)
        else:
            saga_record.refused(self.run, name, refused)

    def _taken(self, name: str, existing: Duplicate) -> None:
        """The key belongs to another action. Adopt a reversal of the same effect; refuse a step."""
        record = self.run.saga.steps[name]
        if existing.action_id in (record.action_id, record.undo_id):
            return
        if record.undo_id:
            saga_record.reverses(self.run, name, existing.action_id)
            return
        taken = PayloadConflictError(
            f"The step's operation is action {existing.action_id}'s, which is no part of this saga.",
            code="saga.operation-taken",
        )
        saga_record.refused(self.run, name, taken)

    # --- loading and committing ---

    def _defined(self) -> Effects[Definition]:
        if self.definition is None:
            saga = self.run.saga
            self.definition = Definition.of((yield from load_json(saga, saga.definition_ref)), saga)
        return self.definition

    def _plan(self, name: str) -> CompiledContract:
        plan = self.plans(name)
        assert plan is not None
        return plan

    def _lease_us(self, works: int) -> int:
        plans = (self.plans(step.contract) for step in self.run.saga.terms)
        longest = max((lease_until(plan.contract, 0) for plan in plans if plan is not None), default=LEASE_US)
        return min(LEASE_US + works * longest, LEASE_MAX_US)

    def _commit(self, *, release_lease: bool) -> Effects[Left | Duplicate | None]:
        run = self.run
        if not run.pending:
            return None
        committed = yield from Commit(run.append(release_lease=release_lease))
        run.passed(committed.now_us)
        match committed.result:
            case Appended(version, _):
                run.committed(version)
                return None
            case KeyConflict(record):
                return _existing(run, record) or Left.ELSEWHERE
            case TooManyInFlight(in_flight):
                raise tenant_limits.too_many_in_flight(run.saga.tenant, in_flight)
            case _:
                return Left.ELSEWHERE


def _fresh_id() -> Effects[str]:
    begun = yield from GetClock(fresh=True)
    return begun.action_id


# --- claims of reversed steps ---
#
# The step's own entries record a verified reversal, before the saga does. A crash in between loses nothing: every look
# finds the reversal as news until the saga records it, and recorded claims are not repeated.


def _take_back(saga: Saga, undone: Iterable[str], family: Mapping[str, Action]) -> Effects[bool]:
    """Retract the claims of steps with a verified reversal. Returns False if another worker holds a step."""
    for name in undone:
        record = saga.steps[name]
        effect, undo = family.get(record.action_id), family.get(record.undo_id)
        if effect is None or undo is None or undo.state is not State.RECONCILED_SUCCESS or not _claims(effect):
            continue
        if not (yield from _retract(effect)):
            return False
    return True


def _claims(action: Action) -> bool:
    """The action's effect was claimed to hold, and no reversal is recorded; other retractions do not matter."""
    status = own_status(action.claims, ClaimKind.HOLDS, made=action.claimed_us > 0)
    return status is not ClaimStatus.NONE and not (status is ClaimStatus.RETRACTED and is_reversed(action))


def _retract(effect: Action) -> Effects[bool]:
    begun = yield from GetClock()
    leased = yield from Lease(effect.id, begun.now_us + CLAIM_LEASE_US, effect.version)
    if leased.fence is None or leased.version != effect.version:
        return False
    entries = Recorder(effect, effect.version)
    yield from enter_claims(entries, (REVERSED,), leased.now_us)
    # Nothing is durable yet: a crash here leaves an expiring lease, and the reversal stays news.
    committed = yield from Commit(entries.append(leased.fence))
    return isinstance(committed.result, Appended)


__all__ = ["Direction", "Left", "State", "begin", "proceed"]
