"""The engine: the only module with the order of the stages. Sans-I/O: the engine yields effects, and a driver performs
them.

    propose -> validate -> execute -> observe -> verify -> reconcile -> recover -> report

The engine is level-based. `run` starts an action, and `proceed` continues an action from its recorded events, after any
crash and any number of lost or doubled wake-ups. An action verified at the first reading takes two commits: one before
the side effect, one with everything after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.limits import Limits
from readback.domain.events import EventKind
from readback.domain.idempotency import KeyDecision, KeyStatus, aged, on_key
from readback.domain.people.review import Decision as Decided
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable
from readback.domain.state import TERMINAL, State
from readback.domain.tracing.attributes import trace_of
from readback.domain.verdict import Level, Verdict, Why
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine import tenant_limits
from readback.engine.claims import entries as claim
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.effects import (
    AllowEarlyDispatch,
    Called,
    ClockResult,
    Commit,
    Effects,
    GetClock,
    Lease,
    LoadAction,
    LoadCounts,
    LoadPreconditions,
    Wait,
)
from readback.engine.recovery import resend
from readback.engine.recovery import resend as other_engine
from readback.engine.recovery.transition_paths import path_through
from readback.engine.run import Run
from readback.engine.run_result import Completed, Duplicate, RunResult, StopAtWait, Superseded, Work
from readback.engine.schedule import Timing, lease_until, timing
from readback.engine.stages import approve, compensate, execute, recover, shadow, submit, validate, verify, watch
from readback.engine.stages.consequence import consequence, is_observation_only
from readback.engine.stages.recover import Decision
from readback.engine.stages.report import outcome_of_run
from readback.errors import (
    EnvelopeProfileError,
    InputError,
    PayloadConflictError,
    ReadbackError,
    StoreCorruptError,
    StoreError,
    StoreVersionError,
    UnknownOutcomeError,
)
from readback.ports.storage.store import Appended, Frozen, KeyConflict, KeyRecord, Opened, TooManyInFlight

# The meaning of a failed record: without a durable attempt nothing happened, otherwise the result is unknown.

NEWER_REMEDY: Final = "Do not repeat the action; run `readback resume` of the release that knows the ledger's schema."

LOST: Final = "store.lost"
LOST_REMEDY: Final = (
    "Do not repeat the action: look at its target. Was a backup put back, or did a standby take over that lacked it?"
)


def check_not_rolled_back(run: Run, version: int) -> None:
    """Detect a restored ledger: versions only grow, so a ledger behind an acknowledged version was restored.

    No worker continues the missing entries, and no record mentions their effect. Raises the error of
    `unrecorded_outcome`.
    """
    if version < run.durable_version:
        error = StoreCorruptError(
            f"The ledger acknowledged version {run.durable_version} of action {run.action.id} and has {version} now.",
            remedy=LOST_REMEDY,
            code=LOST,
        )
        raise unrecorded_outcome(run, error) from error


def unrecorded_outcome(run: Run, error: ReadbackError) -> ReadbackError:
    """The error for a failed record. Without a durable attempt nothing happened. After a durable attempt, the error
    must not read as "nothing was done".
    """
    if run.durable_version == 0 or run.action.attempts == 0:
        return error
    outcome = replace(
        outcome_of_run(run),
        state=State.UNKNOWN,
        verdict=Verdict.UNDETERMINED,
        why=Why.INCOMPLETE,
        may_repeat=False,
        level=Level.NORMALISED,
        told={},
        detail=f"What became of it could not be recorded: {error}",
    )
    return UnknownOutcomeError(
        f"Action {run.action.id} ({run.contract.name} on {run.action.target}) was attempted and its record failed.",
        outcome=outcome,
        remedy=_remedy(error),
        details={"action": run.action.id, "cause": error.code},
    )


def _remedy(error: ReadbackError) -> str:
    if isinstance(error, StoreVersionError):
        return NEWER_REMEDY
    return LOST_REMEDY if error.code == LOST else ""


S, R = State, RecoveryAction
_ANSWERED: Final = frozenset({KeyDecision.REPLAY, KeyDecision.JOIN})
"""The caller gets the outcome of an earlier request."""
_COMPENSATING: Final = S.COMPENSATING
_RECONCILIATION_FAILED: Final = S.RECONCILIATION_FAILED
_FAILED: Final = S.FAILED
_FORCE_STRONG_READ: Final = R.FORCE_STRONG_READ
_VERIFY_AGAIN: Final = Decided.VERIFY_AGAIN
_SETTLING: Final = Why.SETTLING
_VERIFIED: Final = Verdict.VERIFIED


def cancelled_by(principal: str, reason: str) -> dict[str, Json]:
    """The data of a cancellation."""
    return {"by": principal, "reason": reason} if reason else {"by": principal}


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs actions by the contract and the recovery table. Immutable; one engine serves many actions at once."""

    table: RecoveryTable = DEFAULT_TABLE
    approvals: approve.Approvals = approve.NO_APPROVALS
    limits: Limits | None = None
    """Limits for each tenant. None disables all limits and their queries."""
    assume_owner_may_be_alive: bool = False
    """Processes may run on other machines: an owner presumed dead may still be in the middle of a call."""

    # --- propose and validate ---

    def run(self, request: Request, scope: CallerContext, named: Callable[[ClockResult], None] | None = None) -> Work:
        """Start an action. Raises InputError for a fault of the caller; then nothing was done.

        `named` receives the id as soon as the id exists, before any work under it.
        """
        run, opened, taken = yield from self._propose(request, scope, named, submitted=False)
        if taken is not None:
            return taken
        run.counts = opened.counts
        return (yield from self._first(run, opened))

    def submit(
        self, request: Request, scope: CallerContext, named: Callable[[ClockResult], None] | None = None
    ) -> Work:
        """Record the request durably, after all checks without readings. A worker with the contract executes the
        action. Raises as `run` does.
        """
        submit.check(request.plan.contract, scope)
        run, _, taken = yield from self._propose(request, scope, named, submitted=True)
        if taken is not None:
            return taken
        execute.reserve(run)
        run.require_not_frozen(execute.attempt_subjects(run))
        # Durable: a crash from here on leaves a due action without an attempt.
        return (yield from self._commit(run, release_lease=True)) or Completed(run)

    def _propose(
        self, request: Request, scope: CallerContext, named: Callable[[ClockResult], None] | None, *, submitted: bool
    ) -> Effects[tuple[Run, Opened, Duplicate | None]]:
        """Return the new action and its preconditions, or the operation's existing action."""
        validate.admit(request, scope)
        begun = yield from GetClock(fresh=not request.action_id)
        if request.action_id:  # announced by a saga: every worker starts the same action
            begun = replace(begun, action_id=request.action_id)
        if named is not None:
            named(begun)
        draft = execute.draft(request, scope, begun)
        opened = yield from LoadPreconditions(scope.tenant, draft.key_hash, draft.freeze_subjects)
        if request.ahead and opened.freeze is None and self.limits is None and validate.only_freezes(request):
            yield from AllowEarlyDispatch()  # no question remains before the attempt
        run = execute.propose(draft, self.table.version, begun.now_us if submitted else None)
        run.binds_goal = request.binds_goal
        if opened.record is not None and (request.operation or request.plan.contract.key_fields):
            taken = yield from self._existing(run, opened.record, begun.now_us)
            if taken is not None:
                return run, opened, taken
        elif (
            draft.former
            and (former := (yield from submit.former_record(run, draft.former, by_fields=not request.operation)))
            is not None
        ):
            taken = yield from self._existing(run, former, begun.now_us, former=True)
            if taken is not None:
                return run, opened, taken
        if self.limits is not None:
            yield from tenant_limits.admit(run, request, self.limits)
        return run, opened, None

    def _first(self, run: Run, opened: Opened | None = None) -> Work:
        """Continue from the proposal: check the world, request approvals, and attempt."""
        refused = yield from validate.check(run, opened)
        if refused is not None and shadow.passes(run, refused):
            run.would_refuse, refused = refused.code, None
        if refused is not None:
            return (yield from self._refuse(run, refused))
        if run.contract.approval is not None and (yield from approve.ask(run, self.approvals)):
            return (yield from self._commit(run, release_lease=True)) or Completed(run)
        execute.attempt(run, run.now_us)
        ended = yield from self._commit(run, release_lease=run.outside)
        if ended is not None or run.outside:
            return ended or Completed(run)
        # Durable: a crash from here on leaves an attempt without an observation: verified, never repeated.
        try:
            return (yield from self._attempted(run))
        except UnknownOutcomeError:
            raise
        except (StoreError, EnvelopeProfileError) as error:  # the caller must not read this error as "nothing was done"
            raise unrecorded_outcome(run, error) from error

    def _existing(self, run: Run, record: KeyRecord, now_us: int, *, former: bool = False) -> Effects[Duplicate | None]:
        """The operation's existing action. `former`: a key in an earlier form, never taken over by a new action."""
        same = yield from submit.same_request(run, record)
        status = aged(KeyStatus(record.status), record.expires_us, now_us)
        decision = on_key(status, same_request=same)
        if decision in _ANSWERED and (yield from submit.has_another_goal(run, record)):
            decision = KeyDecision.REFUSE
        match decision:
            case KeyDecision.EXECUTE:
                if not former:
                    run.take_over(record.action_id)
                return None
            case KeyDecision.REFUSE:
                raise PayloadConflictError(
                    f"Operation {run.action.operation!r} of {run.contract.name!r} was run before with another payload.",
                    details={"action": record.action_id},
                )
            case KeyDecision.REPLAY:
                return Duplicate(record.action_id, in_flight=False)
            case KeyDecision.JOIN:
                return Duplicate(record.action_id, in_flight=True)

    def _refuse(self, run: Run, refusal: validate.Refusal) -> Work:
        """Record the refusal: this action is not executed, now or later."""
        now_us = run.now_us
        validate.record_refusal(run, refusal, self.table, now_us)
        return (yield from self._commit(run, release_lease=True)) or Completed(run)

    # --- execute and observe ---

    def report(self, run: Run, called: Called) -> Work:
        """Continue after an external attempt with this result; the caller holds the lease.

        An attempt already given up is observed all the same, and a reading follows.
        """
        run.passed(called.finished_us)
        counted = yield from LoadCounts(run.scope.tenant)
        run.counts = counted
        if run.contract.approval is not None:
            run.doubt = yield from approve.doubt(run, self.approvals)
        return (yield from self._answered(run, called))

    def _attempted(self, run: Run) -> Work:
        return (yield from self._answered(run, (yield from execute.dispatch(run, self.table.version))))

    def _answered(self, run: Run, called: Called) -> Work:
        if self.limits is not None:
            yield from tenant_limits.schedule_first_read(run, self.limits, called.finished_us)
        run.observation = execute.observe(run, called)
        if run.staged is not None:
            settled = yield from compensate.settle_staged(run)
            if settled is not None:
                decided = recover.dropped(run, self._decide(run, self._timing(run), settled, run.action.ended_us))
                path = path_through(run.action.state, S.ROLLED_BACK)
                recover.record_judgement(run, decided, path, run.action.ended_us, due_us=None, held_since_us=0)
                yield from claim.after_judgement(run, settled, path, news=False, now_us=run.action.ended_us)
                return (yield from self._commit(run, release_lease=True)) or Completed(run)
        if run.action.due_us is not None and run.action.due_us > run.now_us:
            ended = (yield from self._commit(run, release_lease=True)) or (yield from self._sleep(run))
            if ended is not None:
                return ended
        return (yield from self._follow(run))

    # --- verify, reconcile, recover ---

    def proceed(self, run: Run) -> Work:
        """Continue a leased action from its recorded events."""
        action = run.action
        if action.state in TERMINAL and action.due_us is None:
            return Completed(run)
        counted = yield from LoadCounts(run.scope.tenant)
        run.counts = counted
        if action.state is S.RECONCILED_SUCCESS:
            return (yield from watch.look(run, self._desk))
        if action.state is S.PROPOSED:  # submitted only
            return (yield from self._first(run))
        if action.state is S.VALIDATED:
            if action.decision == Decided.REOPEN and run.attemptable:
                refused = yield from validate.check(run)  # the world may have changed since the hold
                if refused is not None:
                    return (yield from self._refuse(run, refused))
            if (run.attemptable and resend.knows_key(run)) or approve.waits(action):
                return (yield from self._again(run))
            validate.record_forgotten(run, run.now_us)  # arguments redacted, or the external caller is absent
            return (yield from self._commit(run, release_lease=True)) or Completed(run)
        if action.attempt_open:
            yield from execute.take_over(run, assume_owner_may_be_alive=self.assume_owner_may_be_alive)
        if run.contract.approval is not None:
            run.doubt = yield from approve.doubt(run, self.approvals)
        if action.state is _COMPENSATING:
            return (yield from self._compensate(run))
        if action.state is _RECONCILIATION_FAILED:
            return (yield from self._rolled_back(run))
        return (yield from self._follow(run))

    def _follow(self, run: Run) -> Work:
        """Read until nothing is left to wait for. Every wait is durable first."""
        while True:
            ended = yield from self._look(run)
            if ended is not None:
                return ended
            action = run.action
            if action.state in TERMINAL or action.due_us is None or action.state is S.UNKNOWN:
                return Completed(run)
            ended = yield from self._sleep(run)
            if ended is not None:
                return ended

    def _sleep(self, run: Run) -> Effects[RunResult | None]:
        """Wait until due, without a lease. Then acquire the lease again, unless another worker continued the action."""
        action = run.action
        assert action.due_us is not None
        woken = yield from Wait(action.id, action.due_us)
        leased = yield from Lease(action.id, lease_until(run.contract, woken), run.durable_version)
        if leased.fence is None or leased.version != run.durable_version:
            check_not_rolled_back(run, leased.version)
            return Superseded(action.id)
        run.fence, run.lease_released = leased.fence, False
        run.passed(leased.now_us)
        return None

    def _look(self, run: Run) -> Effects[RunResult | None]:
        """Take one round of readings and commit the consequence. None: more work may follow."""
        as_of_us = run.now_us  # the round counts from here, regardless of its duration
        when = self._timing(run)
        if run.observation is not None and not run.observation.dispatched and not run.action.left_before:
            return (yield from self._never_dispatched(run, when, as_of_us))
        held = run.action.held_since_us
        result = yield from self._round(run, when, as_of_us)
        decision = self._decide(run, when, result, as_of_us)
        if decision.row.action is _FORCE_STRONG_READ:
            yield from verify.take_strongest(run)
            decision = self._decide(run, when, self._judge(run, when, as_of_us, held), as_of_us)
        if decision.row.action is R.DISPATCH_AGAIN and not (yield from approve.may_send_again(run, self.approvals)):
            decision = self._decide(run, when, self._judge(run, when, as_of_us, held), as_of_us)
        return (yield from self._act(run, when, decision, run.now_us))

    def _round(self, run: Run, when: Timing, as_of_us: int) -> Effects[Reconciliation]:
        """Take readings, and the searches needed to settle them: as few as the moment requires."""
        closing = as_of_us >= when.close_us or run.action.decision == _VERIFY_AGAIN
        if run.contract.readers:
            yield from verify.take_checks(run, closing=closing)
        held = run.action.held_since_us
        result = self._judge(run, when, as_of_us, held)
        if verify.wants_lookup(run, result):
            yield from verify.look_up(run)
            result = self._judge(run, when, as_of_us, held)
        settling = result.why is _SETTLING and verify.look_due(run, when) and self._search_now(run, when, as_of_us)
        doubtful = result.verdict is not _VERIFIED and (closing or result.why is Why.UNATTRIBUTED)
        if run.contract.has_find and (settling or doubtful):  # an earlier search misses newer effects
            yield from verify.search(run)
            result = self._judge(run, when, as_of_us, held)
        return result

    def _search_now(self, run: Run, when: Timing, as_of_us: int) -> bool:
        if run.contract.depth.find_at_close and as_of_us < when.close_us and run.action.looked_us:
            return False  # one early search found present duplicates; the next is at the close
        run.found, run.search_proven = None, False
        return True

    def _judge(self, run: Run, when: Timing, as_of_us: int, held_us: int) -> Reconciliation:
        """`held_us`: since when the postconditions held before this round. A later reading of the round may show them
        valid again.
        """
        run.action.held_since_us = held_us
        started = run.read_from(as_of_us)
        result = verify.judge(run, when, as_of_us, dead=verify.is_dead(run, when, started))
        holding = (
            result.why is _SETTLING or result.verdict is _VERIFIED or recover.duplicates_are_equivalent(run, result)
        )
        if run.contract.stable_for_us and holding and run.action.held_since_us == 0:
            run.action.held_since_us = started
        elif not holding:
            run.action.held_since_us = 0
        return result

    def _decide(self, run: Run, when: Timing, result: Reconciliation, now_us: int) -> Decision:
        run.action.judgement.table = self.table.version
        if run.action.engine != run.plan.predicates.name and run.doubt is None:
            other_engine.doubt(run)
        return recover.decide(run, self.table, when, result, now_us)

    def _timing(self, run: Run) -> Timing:
        return timing(run.contract, run.action, verify.ended_by_itself(run))

    def _never_dispatched(self, run: Run, when: Timing, now_us: int) -> Effects[RunResult | None]:
        result = execute.never_dispatched(run)
        decision = self._decide(run, when, result, now_us)
        path = path_through(run.action.state, _FAILED)
        recover.record_judgement(run, decision, path, now_us, due_us=None, held_since_us=0)
        return (yield from self._commit(run, release_lease=True)) or Completed(run)

    # --- act on the row ---

    def _act(self, run: Run, when: Timing, decision: Decision, now_us: int) -> Effects[RunResult | None]:
        action, result = run.action, decision.result
        if action.state is _FAILED:
            return (yield from watch.late(run, decision, when, self._desk, now_us))
        if shadow.applies(run, decision):
            return (yield from self._shadowed(run, when, decision, now_us))
        recover.count_faults(run, result)
        for judged in (*run.missed, *run.checks):
            verify.record_reading(run, judged)
        run.missed = ()
        if is_observation_only(action, result):
            return (yield from watch.aside(run, decision, when, self._desk, now_us))
        follows = consequence(run, when, decision, now_us)
        due = resend.sooner(run, result, follows.path, follows.due_us)
        held = action.held_since_us
        if self.limits is not None and due is not None:
            due = yield from tenant_limits.schedule_next_read(run, self.limits, follows.path, due)
        recover.record_judgement(run, decision, follows.path, now_us, due_us=due, held_since_us=held)
        if action.claims or action.state in claim.TELLING:
            yield from claim.after_judgement(run, result, follows.path, news=False, now_us=now_us)
        return (yield from self._after(run, again=follows.again))

    def _shadowed(self, run: Run, when: Timing, decision: Decision, now_us: int) -> Effects[RunResult | None]:
        """Record the judgement of a shadow action. Within the window another reading follows; afterwards nothing."""
        recover.count_sources(run, decision.result)
        for judged in (*run.missed, *run.checks):
            verify.record_reading(run, judged)
        run.missed = ()
        follows, held = consequence(run, when, decision, now_us), run.action.held_since_us
        if shadow.looks_again(run, decision, follows):
            due = follows.due_us
            if self.limits is not None and due is not None:
                due = yield from tenant_limits.schedule_next_read(run, self.limits, follows.path, due)
            recover.record_judgement(run, decision, follows.path, now_us, due_us=due, held_since_us=held)
        else:
            judgement = shadow.judgement_data(run, decision, follows)
            told, path = shadow.withheld(decision, self.table), shadow.path_of(run)
            recover.record_judgement(run, told, path, now_us, due_us=None, held_since_us=0, shadow=judgement)
        return (yield from self._commit(run, release_lease=True))

    def _after(self, run: Run, *, again: bool) -> Effects[RunResult | None]:
        state = run.action.state
        working = again or state in (_COMPENSATING, _RECONCILIATION_FAILED)
        ended = yield from self._commit(run, release_lease=not working)
        if ended is not None:
            return ended
        if again:
            return (yield from self._again(run))
        if state is _COMPENSATING:
            return (yield from self._compensate(run))
        if state is _RECONCILIATION_FAILED:
            return (yield from self._rolled_back(run))
        return None

    def cancel(self, run: Run, reason: str = "") -> Work:
        """Cancel for the caller. An action without an attempt is never executed; an attempted action is read once more,
        and reversed.
        """
        action = run.action
        idle = action.attempts == 0 or action.state is S.VALIDATED  # not called, or no further call
        end = S.ABANDONED if action.state is S.REVIEW_REQUIRED else _FAILED
        run.record(EventKind.CANCELLED, run.now_us, (end,) if idle else (), cancelled_by(run.scope.principal, reason))
        ended = yield from self._commit(run, release_lease=idle)
        if ended is not None or idle:
            return ended or Completed(run)
        return (yield from self.proceed(run))

    # --- repeat and reverse ---

    def _again(self, run: Run) -> Work:
        """Attempt an approved action, or repeat an attempt under the same key as allowed by the table."""
        stands_on: tuple[str, ...] | None = run.stands_on
        if run.action.state is not S.PENDING:  # sending again was checked before
            refused = yield from validate.relying(run)
            if refused is not None:
                return (yield from self._refuse(run, refused))
            stands_on = yield from approve.gate(run, self.approvals, self.table)
        if stands_on is None:
            return (yield from self._commit(run, release_lease=True)) or Completed(run)
        execute.attempt(run, run.now_us, stands_on)
        ended = yield from self._commit(run, release_lease=run.outside)
        if ended is not None or run.outside:
            return ended or Completed(run)
        return (yield from self._attempted(run))

    def _rolled_back(self, run: Run) -> Work:
        ended = yield from compensate.roll_back(run, partial(self._commit, release_lease=False))
        if ended is not None:
            return ended
        return (yield from self._commit(run, release_lease=True)) or Completed(run)

    def _compensate(self, run: Run) -> Work:
        """Run the compensation as an action of its own, under its own key, so that it runs once. This action waits for
        the compensation.
        """
        try:
            request = yield from compensate.compensation_of(run)
            if (
                run.blind or run.action.compensation_id
            ):  # a compensation without effect freed its key: start no second one
                yield from compensate.follow_begun(run, request, self.table)
                yield from claim.after_reversal(run, run.now_us)
                return (yield from self._commit(run, release_lease=True)) or Completed(run)
            scope = run.scope
            if not scope.trace and run.action.context.get("saga"):  # the reversal stays in the saga's trace
                scope = replace(scope, trace=trace_of(run.action))
            ended = yield from StopAtWait(self.run(request, scope), may_wait=False)
        except InputError as refused:  # not even proposed: the effect stays, and a person must know
            compensate.record_uncompensated(run, str(refused), self.table, run.now_us)
            return (yield from self._commit(run, release_lease=True)) or Completed(run)
        child = yield from compensate.child_of(ended)
        compensate.record_compensation(run, child, self.table, run.now_us)
        yield from claim.after_reversal(run, run.now_us)
        return (yield from self._commit(run, release_lease=True)) or Completed(run)

    # --- commit ---

    @property
    def _desk(self) -> watch.WatchContext:
        return watch.WatchContext(self.table, self.limits, partial(self._commit, release_lease=True))

    def _commit(self, run: Run, *, release_lease: bool) -> Effects[RunResult | None]:
        try:
            committed = yield from Commit(run.append(run.action.updated_us, release_lease=release_lease))
        except StoreError as error:
            raise unrecorded_outcome(run, error) from error
        run.passed(committed.now_us)
        result = committed.result
        if type(result) is Appended:
            run.committed(result.version, release_lease)
            return None
        match result:
            case KeyConflict(record):
                return (yield from self._existing(run, record, committed.now_us)) or Superseded(record.action_id)
            case TooManyInFlight(in_flight):
                raise tenant_limits.too_many_in_flight(run.action.tenant, in_flight)
            case Frozen(freeze):
                return (yield from self._barred(run, validate.by_freeze(freeze)))
            case _:
                check_not_rolled_back(run, result.version)
                return Superseded(run.action.id)

    def _barred(self, run: Run, refusal: validate.Refusal) -> Work:
        """A freeze refused the attempt's append. Nothing of the append was kept, so record the refusal instead."""
        action = run.action
        if run.durable_version == 0:
            assert run.origin is not None
            begun = ClockResult(action.created_us, action.id, run.owner)
            fresh = execute.propose(execute.draft(run.origin, run.scope, begun), self.table.version)
            fresh.passed(run.now_us)
            return (yield from self._refuse(fresh, refusal))
        folded = yield from LoadAction(action.id)
        assert folded is not None
        run.begin_again(folded)
        if run.action.state is S.PENDING:  # the request was to be sent again: the result is still read
            return Superseded(action.id)
        return (yield from self._refuse(run, refusal))
