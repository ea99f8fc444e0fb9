"""The sync client. See AsyncReadback for the same with await; neither wraps the other."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TypeVar

from readback.client import approving, validation
from readback.client.approving import ApprovalRequest, TokenLike
from readback.client.operations import claiming, erasing, grounding, reviewing, submitting
from readback.client.operations.believing import choose
from readback.client.operations.claiming import Upon
from readback.client.operations.worker import Worker, worker_for
from readback.client.proposal import Definition, Proposal
from readback.client.raised import catching, with_exception
from readback.client.recovery_table import TableLike
from readback.client.sealing import SealLike
from readback.client.session import Session
from readback.client.step import SagaStep
from readback.domain.action.claim import Claim, ClaimStatus
from readback.domain.action.erasure import Erased
from readback.domain.belief.run import Belief, believe
from readback.domain.contract.approval import Approver, Decision
from readback.domain.contract.limits import TenantLimits
from readback.domain.grounding.report import ReportCheck, judge
from readback.domain.outcome.outcome import Outcome
from readback.domain.people.review import ReviewCase
from readback.domain.records.subscriber import Subscriber
from readback.domain.saga.outcome import SagaOutcome
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import coordinator
from readback.engine.effects import Effect, EffectResult
from readback.engine.people import claims as claim_person
from readback.engine.people import review
from readback.engine.saga import attend as saga_attend
from readback.errors import NotFoundError, ReadbackError, StoreCorruptError, StoreError, UnknownOutcomeError
from readback.ports.runtime import Runtime
from readback.ports.signer import Signer
from readback.ports.storage.store import Freeze, Incident, LedgerStore

T = TypeVar("T")
OF_ONE_ACTION = (StoreCorruptError,)
"""What is wrong with one action's entries alone."""


class Readback:
    """An opened ledger, and the only way to act. Use it as a context manager."""

    def __init__(self, session: Session) -> None:
        self._session = validation.opened(session)
        self._driver = SyncDriver(session.store, session.runtime, session.courier)
        self._worker: Worker | None = None

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        tenant: str | None = None,
        principal: str | None = None,
        run: str = "",
        plan: str = "",
        task_state: str = "",
        boundary: str = "",
        trace: str = "",
        parent_span: str = "",
        budget: Mapping[str, object] | None = None,
        break_glass: str = "",
        actions: Iterable[Definition] = (),
        runtime: Runtime | None = None,
        store: LedgerStore | None = None,
        recovery_table: TableLike | None = None,
        scopes: Iterable[str] | None = None,
        limits: TenantLimits | None = None,
        subscribers: Iterable[Subscriber] | None = None,
        approvers: Iterable[Approver] | None = None,
        seal: SealLike = None,
    ) -> Readback:
        """Opens (or creates) the ledger at `url` in the name of a tenant and a principal.

        What is not given comes from READBACK_URL, READBACK_TENANT and READBACK_PRINCIPAL. `run`, `plan`, `task_state`,
        `boundary`, `trace` and `parent_span` are ids and versions for the record. `budget` is what `require` sees as
        `scope.budget`. `break_glass` is the reason for which critical mutations are executed without an approval; it is
        recorded, and they are always reviewed. `actions` are declared beforehand, so that `resume` finds them.
        `runtime` replaces clock, sleep and ids; `store` the ledger itself. `recovery_table` is an operator's own table,
        or the file that holds it (READBACK_TABLE); it is checked before anything is opened. `scopes` are the permission
        scopes that this client holds (READBACK_SCOPES); `limits` what its tenant may take at most, which can only make
        the operator's own stricter. `subscribers` are told what the ledger says of its tenant, in place of those that
        the settings name; `approvers` are those who may approve, in place of the settings'
        list. `seal` says how the log is sealed: False not at all, True with the settings' key, or a mapping as the
        settings' `[seal]` (`entries`, `seconds`, `anchors`, `secret`, and `key_file`). Raises SettingsError, InputError
        or StoreError.
        """
        return cls(
            Session.open(
                url,
                tenant=tenant,
                principal=principal,
                run=run,
                plan=plan,
                task_state=task_state,
                boundary=boundary,
                trace=trace,
                parent_span=parent_span,
                budget=budget,
                break_glass=break_glass,
                actions=actions,
                runtime=runtime,
                store=store,
                recovery_table=recovery_table,
                scopes=scopes,
                limits=limits,
                subscribers=subscribers,
                approvers=approvers,
                seal=seal,
            )
        )

    def run(
        self,
        proposal: Proposal,
        *,
        operation: str | None = None,
        wait: float | None = None,
        intended: Mapping[str, object] | None = None,
        step: str = "",
        upon: Iterable[Upon] | Upon = (),
        run: str | None = None,
    ) -> Outcome:
        """Acts, reads back, reconciles, recovers, and returns what may be believed.

        `operation` names the intent: the same name never executes twice. `wait` bounds, in seconds, how long to wait
        for a settled outcome; then the outcome says pending, and `wait(action_id)` or a worker goes on. `intended` is
        the goal where it is more than the request; `step` the plan's step. `upon` names what it is planned upon:
        outcomes, claims or their ids; where one does not stand, nothing is executed, and where one falls later, the
        outcome says so. `run` names the conversation, where it is not this client's own. Raises InputError for what
        cannot be run, StoreError where the attempt could not be made durable (nothing was done), UnknownOutcomeError
        where its end could not.
        """
        s, ticket = self._session, coordinator.ActionHandle()
        until_us = s.give_up_us(wait)
        request = s.request(proposal, operation, intended, step, () if upon == () else claiming.upon_ids(s, upon))
        return self._told(coordinator.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket), ticket, until_us)

    def submit(
        self,
        proposal: Proposal | str,
        arguments: Mapping[str, object] | None = None,
        *,
        operation: str | None = None,
        intended: Mapping[str, object] | None = None,
        step: str = "",
        upon: Iterable[Upon] | Upon = (),
    ) -> str:
        """Leaves an action to whoever works on this ledger, and returns its id once that is durable. Calls nothing.

        `proposal`, or the name of its contract with `arguments` by name: the contract need not be known here, and what
        it does not allow then ends as refused, where it is known. `operation` names the intent: submitted or run twice,
        it is one action. `wait(id)` gives the outcome, wherever it comes from. Raises as `run` does for what cannot be
        run, and SubmissionError for what may not be left to others; nothing was submitted then.
        """
        return self._drive(submitting.submit(self._session, proposal, arguments, operation, intended, step, upon))

    def saga(
        self,
        steps: Iterable[SagaStep],
        *,
        name: str = "saga",
        operation: str | None = None,
        wait: float | None = None,
    ) -> SagaOutcome:
        """Several actions as one: in the end all are verified, or what had an effect is reversed, or a person knows.

        Steps are proposals, made with `.as_step(name, after=..., pivot=...)`; each begins when those before it
        are verified. If one fails before the pivot, what a reading shows of the others is reversed, the last first;
        after the pivot what is missing is completed under the same keys. `operation` names the intent, as with `run`:
        the same saga under it is joined or answered with its outcome. `wait` bounds, in seconds, how long to wait.
        Raises SagaError with all faults of the definition at once, before anything acts; PayloadConflictError for
        another saga under the same operation; StoreError and UnknownOutcomeError as `run` does.
        """
        s, ticket = self._session, coordinator.ActionHandle()
        until_us = s.give_up_us(wait)
        request = s.saga_request(steps, name, operation)
        told = self._told(saga_attend.begin(s.engine, request, s.scope, s.plan_of, ticket), ticket, until_us)
        assert isinstance(told, SagaOutcome)
        return told

    def get_saga(self, saga_id: str) -> SagaOutcome:
        """The outcome of a saga as the ledger tells it now. Raises NotFoundError for what is none."""
        told = self.get(saga_id)
        if not isinstance(told, SagaOutcome):
            raise NotFoundError(f"{saga_id!r} is an action, and no saga.")
        return told

    def wait(self, action_id: str, wait: float | None = None) -> Outcome:
        """The outcome of an action, waiting up to `wait` seconds for it to settle; goes on with it where it is due."""
        s = self._session
        ticket = coordinator.ActionHandle(s.action_id(action_id))
        return self._told(s.stay(ticket.action_id), ticket, s.give_up_us(wait))

    def get(self, action_id: str) -> Outcome:
        """The outcome as the ledger tells it now; reads nothing else. Raises NotFoundError."""
        s = self._session
        return self._drive(s.look(s.action_id(action_id)))

    def find_operation(self, operation: str, action: Definition | str | None = None) -> Outcome | None:
        """The outcome of an operation as the ledger has it now; None where nothing was run under this name.

        `action`: the action or the name of its contract. Where it is left out, every contract that this client knows is
        looked up. Raises UsageError where several contracts have an operation of this name.
        """
        found = self._session.find_operation(operation, action)
        return None if found is None else self.get(found)

    def cancel(self, action_id: str) -> Outcome:
        """Asks for an action to be stopped: not executed if it was not, compensated if an effect is shown."""
        s = self._session
        action_id = s.action_id(action_id)
        self._drive(s.stop(action_id))
        return self.get(action_id)

    def approval(self, action_id: str) -> ApprovalRequest:
        """What an action waits to be approved for: the exact bytes, and what they say. Raises ApprovalError if none."""
        s = self._session
        return self._drive(approving.requested(s.engine, s.action_id(action_id), s.scope.tenant))

    def approve(self, action_id: str, token: TokenLike) -> Outcome:
        """Records an approver's signed token; nothing is executed here. A worker, `wait` or the same operation goes on.

        Raises ApprovalError, with its code, for one that does not count; then nothing was recorded.
        """
        return self._decided(action_id, token, Decision.APPROVE)

    def deny(self, action_id: str, token: TokenLike) -> Outcome:
        """Records an approver's signed denial: the action ends, and nothing was executed. Raises as `approve` does."""
        return self._decided(action_id, token, Decision.DENY)

    def _decided(self, action_id: str, token: TokenLike, decision: Decision) -> Outcome:
        s = self._session
        action_id = s.action_id(action_id)
        self._drive(approving.decide(s.engine, action_id, s.scope.tenant, token, decision))
        return self.get(action_id)

    def signal(self, id_or_stamp: str) -> bool:
        """Says that something happened (a webhook came): the next reading is taken now. Decides nothing itself."""
        return self._session.signal(id_or_stamp)

    def resume(self, limit: int = 256) -> list[Outcome]:
        """Goes on, once, with every action of this tenant that is due and whose contract is known here.

        Returns what they are now. Raises StoreCorruptError for one that cannot be gone on with, after all the others.
        """
        s = self._session
        s.courier.sweep()
        outcomes: list[Outcome] = []
        broken: StoreError | None = None
        for action_id in s.each_due(limit):
            try:
                self._drive(s.advance(action_id, s.scope.tenant))
                outcomes.append(self.get(action_id))
            except OF_ONE_ACTION as error:
                broken = broken or error
        if broken is not None:
            raise broken
        return outcomes

    def work(
        self,
        *,
        concurrency: int = 16,
        tenants: Sequence[str] = (),
        all_tenants: bool = False,
        until_idle: bool = False,
        poll: float = 1.0,
        handover: float | None = None,
    ) -> int:
        """Stays and goes on with whatever is due of this tenant (or of `tenants`, or of all), so many actions at once.

        Until `stop_work` is called, or, with `until_idle`, nothing is on its way any more; what is in hand is finished.
        What is not known here is left to others. `poll`: how often, in seconds, the ledger is looked at in any case;
        `handover`: for how long what began with another version of its contract is left to who knows that one.
        Returns the number of steps made. Raises StoreError where going on is senseless.
        """
        self._worker = worker = worker_for(
            self._session,
            concurrency=concurrency,
            tenants=tenants,
            all_tenants=all_tenants,
            until_idle=until_idle,
            poll=poll,
            handover=handover,
        )
        import asyncio  # a program without an event loop does not pay for it

        return asyncio.run(worker.stay()).advanced

    def stop_work(self) -> None:
        """Ends `work`, from any thread: nothing new is taken up, and it returns when what is in hand is finished."""
        if self._worker is not None:
            self._worker.stop()

    def belief(self, run: str | None = None) -> Belief:
        """What may be believed of a run (this client's own where none is named), from the ledger as it is now.

        Verified facts, what is unresolved, and the planning rule for each action; `for_model()` is its text for the
        model's next context. Only reconciled outcomes are in it. Raises UsageError where no run is named.
        """
        s = self._session
        chosen = choose(s, run)
        outcomes = [chosen.told(self.get(action_id)) for action_id in chosen.ids]
        return believe(
            chosen.run,
            outcomes,
            tenant=s.scope.tenant,
            groups=chosen.groups,
            frozen=chosen.frozen,
            older=chosen.older,
            older_more=chosen.more,
            replaced=chosen.replaced,
        )

    def check_report(self, text: str, run: str | None = None, *, every: bool = False) -> ReportCheck:
        """Holds an agent's final report against the ledger: every citation has to resolve to a claim that stands and to
        its evidence, and whatever is declared as done (`## Done`, `- [x]`, `Done:`) has to cite.

        Only actions of the run count (this client's own where none is named; where that has none, all of the tenant).
        `every`: all that does not stand under `## Open` has to cite. Look at `passed` and `faults` of what it returns.
        Raises OversizeError for a report that is too large.
        """
        s, report = self._session, grounding.report_of(text)
        named = grounding.run_of(s, run)
        asked, told = grounding.grounds(s, report, named), None
        while True:
            try:
                told = self.get(asked.send(told))
            except StopIteration as done:
                return judge(report, done.value, run=named, every=every)

    def guard_report(self, text: str, run: str | None = None, *, every: bool = True) -> str:
        """Stands between an agent and its user: the report as it is where `check_report` passes it; else the words of
        the reporting vocabulary for what is known of the run. Where that cannot be told either, it says so.

        As a rule everything has to cite that does not stand under `## Open`. Raises UsageError where no run is named.
        """
        named = grounding.run_of(self._session, run, needed=True)
        try:
            if self.check_report(text, named, every=every).passed:
                return text
        except ReadbackError:
            pass  # what cannot be checked is not passed on
        try:
            return self.belief(named).message
        except ReadbackError:
            return grounding.CANNOT_TELL

    def review(self, id_or_stamp: str) -> ReviewCase:
        """What there is to decide about an action: what was intended, asked for, answered and read, what differs, and
        what each decision will do. Bounded; from the ledger alone. Raises NotFoundError.
        """
        return reviewing.review_packet(self._session, id_or_stamp)

    def resolve(
        self,
        id_or_stamp: str,
        decision: str,
        *,
        expect_version: int,
        who: str,
        reason: str,
        signature: bytes | Signer | None = None,
    ) -> Outcome:
        """Records what a person decided about an action in review, does what that entails, and returns the outcome.

        `decision` is one of attest_done, attest_not_done, verify_again, compensate, go_forward, abandon and reopen;
        `review` says which may be taken. `expect_version` is the packet's version, `who` decides, and is not who acted.
        About a critical mutation an approver decides, by name; `signature` is their ApproverKey, or what it signed. An
        attestation frees or keeps the key, and never makes an action verified. Raises ReviewError where nothing was
        decided.
        """
        s = self._session
        order = reviewing.resolution(
            s, id_or_stamp, decision, expect_version=expect_version, who=who, reason=reason, signature=signature
        )
        self._drive(reviewing.resolving(s, order))
        return self.get(order.action_id)

    def is_claim_standing(self, claim: str) -> bool:
        """Whether what is claimed may be relied on now: it was verified, and neither contested nor retracted since, or
        reinstated. `claim` is a claim's id, or an action's, which stands for what it left. Raises NotFoundError.
        """
        return claiming.claim(self._session, claim).standing

    def claim(self, claim: str) -> Claim:
        """How a claim stands, what was said of it last, and the entries that it stands on. Raises NotFoundError."""
        return claiming.claim(self._session, claim)

    def claims(self, action: str = "", *, limit: int = 50) -> tuple[Claim, ...]:
        """The claims of an action; without one, of the newest actions of whose claims something was said."""
        return claiming.claims(self._session, action, limit=limit)

    def retract(
        self,
        claim: str,
        *,
        who: str,
        reason: str,
        expect_version: int | None = None,
        signature: bytes | Signer | None = None,
    ) -> Claim:
        """Withdraws a claim by a person's word: contested, and retracted. Whoever was planned upon it is named.

        `who` says it, and is not who acted; about a critical mutation an approver does, by name, with their ApproverKey
        or what it signed as `signature`. `expect_version`: the action's version that was looked at. Raises ClaimError
        where nothing was changed.
        """
        return self._said(claim, ClaimStatus.RETRACTED, who, reason, expect_version, signature)

    def reinstate(
        self,
        claim: str,
        *,
        who: str,
        reason: str,
        expect_version: int | None = None,
        signature: bytes | Signer | None = None,
    ) -> Claim:
        """Lets a claim stand again that was verified once, and contested or retracted since. As `retract` otherwise."""
        return self._said(claim, ClaimStatus.REINSTATED, who, reason, expect_version, signature)

    def _said(
        self,
        claim: str,
        status: ClaimStatus,
        who: str,
        reason: str,
        expect_version: int | None,
        signature: bytes | Signer | None,
    ) -> Claim:
        s = self._session
        order = claiming.ordered(
            s, claim, status, who=who, reason=reason, expect_version=expect_version, signature=signature
        )
        self._drive(claim_person.decide(order, s.scope.tenant))
        return self.claim(order.claim)

    def freezes(self) -> tuple[Freeze, ...]:
        """What nothing new may act on in this tenant, the oldest first."""
        return tuple(reviewing.freezes(self._session))

    def lift(self, subject: str, *, who: str, reason: str, signature: bytes | Signer | None = None) -> None:
        """Lets actions act on a frozen subject again. What a critical mutation froze an approver lifts, and signs as in
        `resolve`. Raises NotFoundError where it is not frozen, ReviewError where that was refused.
        """
        s = self._session
        ids, order = reviewing.lifting(s, subject, who=who, reason=reason, signature=signature)
        for action_id in ids:
            self._drive(review.lift(action_id, subject, order, s.scope.tenant))

    def incidents(self, *, open_only: bool = True) -> tuple[Incident, ...]:
        """This tenant's incidents, the newest first."""
        return tuple(reviewing.incidents(self._session, open_only=open_only))

    def erase(
        self, id_or_stamp: str = "", *, before: datetime | None = None, who: str, reason: str, dry_run: bool = False
    ) -> Erased:
        """Erases what a settled action or saga asked for, was answered and read; or all that was last moved `before`.

        The bytes are gone from the ledger's files; entries, proofs and what it came to stay. What another action still
        refers to is kept. Raises ErasureError for a named action that is at work: nothing was erased then.
        """
        s, ids = self._session, (id_or_stamp,) if id_or_stamp else ()
        return erasing.erase(s, ids, before, who=who, reason=reason, dry_run=dry_run)

    def list(self, *, state: str = "", contract: str = "", run: str = "", limit: int = 50) -> list[Outcome]:
        """The newest actions of this tenant."""
        page = self._session.page(state, contract, run, "", limit)
        return [self.get(stored.projection.action_id) for stored in page]

    def _told(self, work: coordinator.OutcomeWork, ticket: coordinator.ActionHandle, until_us: int | None) -> Outcome:
        with catching() as caught:
            told = self._driven(work, until_us)
        if isinstance(told, Parked):
            told = self._drive(self._session.look(ticket.action_id, replayed=ticket.replayed))
        return with_exception(told, caught)

    def _drive(self, work: Generator[Effect, EffectResult, T]) -> T:
        done = self._driven(work)
        assert not isinstance(done, Parked)
        return done

    def _driven(self, work: Generator[Effect, EffectResult, T], give_up_us: int | None = None) -> T | Parked:
        try:
            return self._driver.drive(work, give_up_us)
        except UnknownOutcomeError as error:
            self._session.raise_alarm(error)
            raise

    def close(self) -> None:
        """Gives back files and threads. Actions that are not settled stay in the ledger, for whoever resumes them."""
        self._driver.close()
        self._session.close()

    def __enter__(self) -> Readback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
