"""The engine: alone knows the order of the stages. Sans-I/O: it yields steps, a driver does them.

    propose -> validate -> execute -> observe -> verify -> reconcile -> recover -> report

It is level-based. `run` begins an action, `proceed` goes on with one from whatever its events say, after any crash
and any number of lost or doubled wake-ups. Two commits lie on the way of an action that verifies at the first
reading: one before the side effect, one with everything after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.contract.limits import Limits
from readback.domain.events import EventKind
from readback.domain.idempotency import KeyDecision, KeyStatus, aged, on_key
from readback.domain.people.review import Decision as Decided
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Level, Verdict, Why
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine import tenant_limits
from readback.engine.claims import entries as claim
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.effects import (
    AllowEarlyDispatch,
    Begin,
    Begun,
    Called,
    Commit,
    Committed,
    Counted,
    Effect,
    EffectResult,
    Folded,
    Lease,
    Leased,
    LoadAction,
    LoadCounts,
    LoadPreconditions,
    Wait,
    Woken,
)
from readback.engine.recovery import resend
from readback.engine.recovery import resend as other_engine
from readback.engine.recovery.transition_paths import path_through
from readback.engine.run import Run
from readback.engine.run_result import Completed, Duplicate, RunResult, StopAtWait, Superseded, Work
from readback.engine.schedule import Timing, lease_until, timing
from readback.engine.stages import approve, compensate, execute, recover, submit, validate, verify, watch
from readback.engine.stages.consequence import consequence, only_watched
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
from readback.ports.storage.store import Appended, Crowded, Frozen, KeyRecord, KeyTaken, Opened

# What it means that a record could not be made: nothing happened, or anything may have.

NEWER_REMEDY: Final = "Do not repeat the action; run `readback resume` of the release that knows the ledger's schema."

LOST: Final = "store.lost"
LOST_REMEDY: Final = (
    "Do not repeat the action: look at its target. Was a backup put back, or did a standby take over that lacked it?"
)


def check_not_rolled_back(run: Run, version: int) -> None:
    """Versions only grow: a ledger that has fewer of this action than it acknowledged has been put back. Nobody else
    goes on with what it forgot, and its effect is on nobody's record. Raises what `unrecorded` says of that.
    """
    if version < run.durable_version:
        error = StoreCorruptError(
            f"The ledger acknowledged version {run.durable_version} of action {run.action.id} and has {version} now.",
            remedy=LOST_REMEDY,
            code=LOST,
        )
        raise unrecorded_outcome(run, error) from error


def unrecorded_outcome(run: Run, error: ReadbackError) -> ReadbackError:
    """Before an attempt is durable nothing happened; after it, nobody may read the error as "nothing was done"."""
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
_COMPENSATING: Final = S.COMPENSATING
_RECONCILIATION_FAILED: Final = S.RECONCILIATION_FAILED
_FAILED: Final = S.FAILED
_FORCE_STRONG_READ: Final = R.FORCE_STRONG_READ
_VERIFY_AGAIN: Final = Decided.VERIFY_AGAIN
_SETTLING: Final = Why.SETTLING
_VERIFIED: Final = Verdict.VERIFIED


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs actions by the contract and the recovery table. Immutable; one serves any number of actions at once."""

    table: RecoveryTable = DEFAULT_TABLE
    approvals: approve.Approvals = approve.NO_APPROVALS
    limits: Limits | None = None
    """What each tenant may take; None where nobody is limited, and nothing is asked then."""
    presumes: bool = False
    """Others may be on other machines: whoever is taken for dead may still be in the middle of its call."""

    # --- propose and validate ---

    def run(self, request: Request, scope: CallerContext, named: Callable[[Begun], None] | None = None) -> Work:
        """Begins an action. Raises InputError for what is the caller's fault; then nothing was done.

        `named` is told the id as soon as there is one, before anything is done under it.
        """
        run, opened, taken = yield from self._propose(request, scope, named, submitted=False)
        if taken is not None:
            return taken
        run.counts = opened.counts
        return (yield from self._first(run, opened))

    def submit(self, request: Request, scope: CallerContext, named: Callable[[Begun], None] | None = None) -> Work:
        """Makes durable that an action is asked for, checked as far as that asks nothing of the world; whoever knows
        its contract carries it out. Raises as `run` does.
        """
        submit.check(request.plan.contract, scope)
        run, _, taken = yield from self._propose(request, scope, named, submitted=True)
        if taken is not None:
            return taken
        execute.reserve(run)
        run.unless_frozen(execute.touches(run))
        # Durable: a crash from here on leaves an action that was not attempted, and is due.
        return (yield from self._commit(run, park=True)) or Completed(run)

    def _propose(
        self, request: Request, scope: CallerContext, named: Callable[[Begun], None] | None, *, submitted: bool
    ) -> Generator[Effect, EffectResult, tuple[Run, Opened, Duplicate | None]]:
        """The action, and what it meets; the one that the operation is already, where there is one."""
        validate.admit(request, scope)
        begun = yield Begin(fresh=not request.action_id)
        assert isinstance(begun, Begun)
        if request.action_id:  # announced by a saga, so that whoever begins it begins the same action
            begun = replace(begun, action_id=request.action_id)
        if named is not None:
            named(begun)
        draft = execute.draft(request, scope, begun)
        opened = yield LoadPreconditions(scope.tenant, draft.key_hash, draft.touches)
        assert isinstance(opened, Opened)
        if request.ahead and opened.freeze is None and self.limits is None and validate.only_freezes(request):
            yield AllowEarlyDispatch()  # what follows up to its attempt asks nobody
        run = execute.propose(draft, self.table.version, begun.now_us if submitted else None)
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
        """Everything from the proposal on: the world's part is checked, people are asked, and it is attempted."""
        refused = yield from validate.check(run, opened)
        if refused is not None:
            return (yield from self._refuse(run, refused))
        if run.contract.approval is not None and (yield from approve.ask(run, self.approvals)):
            return (yield from self._commit(run, park=True)) or Completed(run)
        execute.attempt(run, run.now_us)
        ended = yield from self._commit(run, park=run.outside)
        if ended is not None or run.outside:
            return ended or Completed(run)
        # Durable: a crash from here on leaves an attempt without an observation, which is verified, never repeated.
        try:
            return (yield from self._attempted(run))
        except UnknownOutcomeError:
            raise
        except (StoreError, EnvelopeProfileError) as error:  # nobody may read it as "nothing was done"
            raise unrecorded_outcome(run, error) from error

    def _existing(
        self, run: Run, record: KeyRecord, now_us: int, *, former: bool = False
    ) -> Generator[Effect, EffectResult, Duplicate | None]:
        """What the operation is already. `former`: its key has an earlier form, which no new action takes over."""
        same = yield from submit.same_request(run, record)
        status = aged(KeyStatus(record.status), record.expires_us, now_us)
        match on_key(status, same_request=same):
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
        """Not executed, and never will be under this action: the record of that is all that remains."""
        now_us = run.now_us
        validate.record_refusal(run, refusal, self.table, now_us)
        return (yield from self._commit(run, park=True)) or Completed(run)

    # --- execute and observe ---

    def report(self, run: Run, called: Called) -> Work:
        """Goes on with an attempt that was made outside, and whose lease is held: this is how it ended.

        One that somebody has given up on meanwhile is observed all the same, and looked at by that.
        """
        run.passed(called.finished_us)
        counted = yield LoadCounts(run.scope.tenant)
        assert isinstance(counted, Counted)
        run.counts = counted.counts
        if run.contract.approval is not None:
            run.doubt = yield from approve.doubt(run, self.approvals)
        return (yield from self._answered(run, called))

    def _attempted(self, run: Run) -> Work:
        return (yield from self._answered(run, (yield from execute.dispatch(run))))

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
                return (yield from self._commit(run, park=True)) or Completed(run)
        if run.action.due_us is not None and run.action.due_us > run.now_us:
            ended = (yield from self._commit(run, park=True)) or (yield from self._sleep(run))
            if ended is not None:
                return ended
        return (yield from self._follow(run))

    # --- verify, reconcile, recover ---

    def proceed(self, run: Run) -> Work:
        """Goes on with an action whose lease is held, from what its events say."""
        action = run.action
        if action.state in TERMINAL and action.due_us is None:
            return Completed(run)
        counted = yield LoadCounts(run.scope.tenant)
        assert isinstance(counted, Counted)
        run.counts = counted.counts
        if action.state is S.RECONCILED_SUCCESS:
            return (yield from watch.look(run, self._desk))
        if action.state is S.PROPOSED:  # it was submitted, and nothing more
            return (yield from self._first(run))
        if action.state is S.VALIDATED:
            if action.decision == Decided.REOPEN and run.attemptable:
                refused = yield from validate.check(run)  # the world may have changed since it was held
                if refused is not None:
                    return (yield from self._refuse(run, refused))
            if (run.attemptable and resend.knows_key(run)) or approve.waits(action):
                return (yield from self._again(run))
            validate.record_forgotten(run, run.now_us)  # nobody here knows its arguments, or can make the attempt
            return (yield from self._commit(run, park=True)) or Completed(run)
        if action.attempt_open:
            yield from execute.take_over(run, presumes=self.presumes)
        if run.contract.approval is not None:
            run.doubt = yield from approve.doubt(run, self.approvals)
        if action.state is _COMPENSATING:
            return (yield from self._compensate(run))
        if action.state is _RECONCILIATION_FAILED:
            return (yield from self._rolled_back(run))
        return (yield from self._follow(run))

    def _follow(self, run: Run) -> Work:
        """Looks until there is nothing more to wait for; every wait is durable first."""
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

    def _sleep(self, run: Run) -> Generator[Effect, EffectResult, RunResult | None]:
        """Waits until it is due, holding nothing; then takes the lease again, unless somebody else went on with it."""
        action = run.action
        assert action.due_us is not None
        woken = yield Wait(action.id, action.due_us)
        assert isinstance(woken, Woken)
        leased = yield Lease(action.id, lease_until(run.contract, woken.now_us), run.durable_version)
        assert isinstance(leased, Leased)
        if leased.fence is None or leased.version != run.durable_version:
            check_not_rolled_back(run, leased.version)
            return Superseded(action.id)
        run.fence, run.parked = leased.fence, False
        run.passed(leased.now_us)
        return None

    def _look(self, run: Run) -> Generator[Effect, EffectResult, RunResult | None]:
        """One round of readings and what follows from it, made durable. None: there may be more to do."""
        as_of_us = run.now_us  # the round counts from here, however long its readings take
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

    def _round(self, run: Run, when: Timing, as_of_us: int) -> Generator[Effect, EffectResult, Reconciliation]:
        """Readings, and the searches that may settle what they leave open: as few as the moment asks for."""
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
        if run.contract.has_find and (settling or doubtful):  # one of an earlier round says nothing of what came since
            yield from verify.search(run)
            result = self._judge(run, when, as_of_us, held)
        return result

    def _search_now(self, run: Run, when: Timing, as_of_us: int) -> bool:
        if run.contract.depth.find_at_close and as_of_us < when.close_us and run.action.looked_us:
            return False  # two that are there already were told at once; what comes until the close, it will show
        run.found, run.search_proven = None, False
        return True

    def _judge(self, run: Run, when: Timing, as_of_us: int, held_us: int) -> Reconciliation:
        """`held_us`: since when it held before this round; what one reading leaves open the next may show to hold."""
        run.action.held_since_us = held_us
        started = run.read_from(as_of_us)
        result = verify.judge(run, when, as_of_us, dead=verify.is_dead(run, when, started))
        holding = result.why is _SETTLING or result.verdict is _VERIFIED or recover.equals_one(run, result)
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

    def _never_dispatched(
        self, run: Run, when: Timing, now_us: int
    ) -> Generator[Effect, EffectResult, RunResult | None]:
        result = execute.never_dispatched(run)
        decision = self._decide(run, when, result, now_us)
        path = path_through(run.action.state, _FAILED)
        recover.record_judgement(run, decision, path, now_us, due_us=None, held_since_us=0)
        return (yield from self._commit(run, park=True)) or Completed(run)

    # --- what the row says ---

    def _act(
        self, run: Run, when: Timing, decision: Decision, now_us: int
    ) -> Generator[Effect, EffectResult, RunResult | None]:
        action, result = run.action, decision.result
        if action.state is _FAILED:
            return (yield from watch.late(run, decision, when, self._desk, now_us))
        recover.count_faults(run, result)
        for judged in (*run.missed, *run.checks):
            verify.record_reading(run, judged)
        run.missed = ()
        if only_watched(action, result):
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

    def _after(self, run: Run, *, again: bool) -> Generator[Effect, EffectResult, RunResult | None]:
        state = run.action.state
        working = again or state in (_COMPENSATING, _RECONCILIATION_FAILED)
        ended = yield from self._commit(run, park=not working)
        if ended is not None:
            return ended
        if again:
            return (yield from self._again(run))
        if state is _COMPENSATING:
            return (yield from self._compensate(run))
        if state is _RECONCILIATION_FAILED:
            return (yield from self._rolled_back(run))
        return None

    def cancel(self, run: Run) -> Work:
        """The caller wants it stopped: what was not executed never is; what was is read once more, and reversed."""
        action = run.action
        idle = action.attempts == 0 or action.state is S.VALIDATED  # never called, or not again
        end = S.ABANDONED if action.state is S.REVIEW_REQUIRED else _FAILED
        run.record(EventKind.CANCELLED, run.now_us, (end,) if idle else (), {"by": run.scope.principal})
        ended = yield from self._commit(run, park=idle)
        if ended is not None or idle:
            return ended or Completed(run)
        return (yield from self.proceed(run))

    # --- again, and back ---

    def _again(self, run: Run) -> Work:
        """An attempt of what was approved; or another one under the same key, which the table let be made."""
        stands_on: tuple[str, ...] | None = run.stands_on
        if run.action.state is not S.PENDING:  # whether the same request may be sent again was asked before
            refused = yield from validate.relying(run)
            if refused is not None:
                return (yield from self._refuse(run, refused))
            stands_on = yield from approve.gate(run, self.approvals, self.table)
        if stands_on is None:
            return (yield from self._commit(run, park=True)) or Completed(run)
        execute.attempt(run, run.now_us, stands_on)
        ended = yield from self._commit(run, park=run.outside)
        if ended is not None or run.outside:
            return ended or Completed(run)
        return (yield from self._attempted(run))

    def _rolled_back(self, run: Run) -> Work:
        ended = yield from compensate.roll_back(run, partial(self._commit, park=False))
        if ended is not None:
            return ended
        return (yield from self._commit(run, park=True)) or Completed(run)

    def _compensate(self, run: Run) -> Work:
        """The compensation is an action of its own, under its own key, so that it runs once. This one waits for it."""
        try:
            request = yield from compensate.compensation_of(run)
            if run.blind or run.action.compensation_id:  # one without effect has freed its key: not a second one
                yield from compensate.follow_begun(run, request, self.table)
                yield from claim.after_reversal(run, run.now_us)
                return (yield from self._commit(run, park=True)) or Completed(run)
            ended = yield from StopAtWait(self.run(request, run.scope), may_wait=False)
        except InputError as refused:  # it may not even be proposed: the effect stays, and a person must know
            compensate.record_uncompensated(run, str(refused), self.table, run.now_us)
            return (yield from self._commit(run, park=True)) or Completed(run)
        child = yield from compensate.child_of(ended)
        compensate.record_compensation(run, child, self.table, run.now_us)
        yield from claim.after_reversal(run, run.now_us)
        return (yield from self._commit(run, park=True)) or Completed(run)

    # --- making it durable ---

    @property
    def _desk(self) -> watch.WatchContext:
        return watch.WatchContext(self.table, self.limits, partial(self._commit, park=True))

    def _commit(self, run: Run, *, park: bool) -> Generator[Effect, EffectResult, RunResult | None]:
        try:
            committed = yield Commit(run.append(run.action.updated_us, park=park))
        except StoreError as error:
            raise unrecorded_outcome(run, error) from error
        assert isinstance(committed, Committed)
        run.passed(committed.now_us)
        result = committed.result
        if type(result) is Appended:
            run.committed(result.version, park)
            return None
        match result:
            case KeyTaken(record):
                return (yield from self._existing(run, record, committed.now_us)) or Superseded(record.action_id)
            case Crowded(in_flight):
                raise tenant_limits.too_many_in_flight(run.action.tenant, in_flight)
            case Frozen(freeze):
                return (yield from self._barred(run, validate.by_freeze(freeze)))
            case _:
                check_not_rolled_back(run, result.version)
                return Superseded(run.action.id)

    def _barred(self, run: Run, refusal: validate.Refusal) -> Work:
        """The attempt was refused as it was made durable: nothing of it was kept, and that is recorded instead."""
        action = run.action
        if run.durable_version == 0:
            assert run.origin is not None
            begun = Begun(action.created_us, action.id, run.owner)
            fresh = execute.propose(execute.draft(run.origin, run.scope, begun), self.table.version)
            fresh.passed(run.now_us)
            return (yield from self._refuse(fresh, refusal))
        folded = yield LoadAction(action.id)
        assert isinstance(folded, Folded)
        assert folded.action is not None
        run.begin_again(folded.action)
        if run.action.state is S.PENDING:  # its request was to be sent again: what it came to is still read
            return Superseded(action.id)
        return (yield from self._refuse(run, refusal))
