"""The sync client, made by `scripts/sync_client.py` of the async client: edit the async client instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from readback.client import approving
from readback.client.approving import ApprovalRequest, TokenLike
from readback.client.driving_sync import SyncDriving
from readback.client.operations import attempts, claiming, erasing, grounding, reviewing, submitting
from readback.client.operations.believing import choose
from readback.client.operations.claiming import Upon
from readback.client.operations.worker import worker_for
from readback.client.proposal import Definition, Proposal
from readback.client.recovery_table import TableLike
from readback.client.sealing import SealLike
from readback.client.session import Session
from readback.client.step import SagaStep
from readback.domain.action.claim import Claim, ClaimStatus
from readback.domain.action.erasure import ErasureResult
from readback.domain.belief.run import Belief, believe
from readback.domain.contract.approval import Approver, Decision
from readback.domain.contract.limits import TenantLimits
from readback.domain.grounding.report import ReportCheck, judge
from readback.domain.outcome.outcome import Outcome
from readback.domain.people.review import ReviewCase
from readback.domain.records.subscriber import Subscriber
from readback.domain.saga.outcome import SagaOutcome
from readback.engine import coordinator, external_attempts
from readback.engine.external_attempts import ExternalAttempt
from readback.engine.people import claims as claim_person
from readback.engine.people import review
from readback.engine.saga import attend as saga_attend
from readback.errors import NotFoundError, ReadbackError, StoreCorruptError, StoreError
from readback.ports.runtime import Runtime
from readback.ports.signer import Signer
from readback.ports.storage.store import Freeze, Incident, LedgerStore

T = TypeVar("T")
OF_ONE_ACTION = (StoreCorruptError,)
"""Errors about one action's entries alone."""


class Readback(SyncDriving):
    """An open ledger, and the only way to act. Use the client as a context manager.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch(), operation="switch on")
        ...     rb.find_operation("switch on").verified
        True
    """

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
        shadow: bool = False,
    ) -> Readback:
        """Open the ledger at `url`, or create it, in the name of a tenant and a principal.

        Args:
            url: The ledger's URL; READBACK_URL where left out. "memory:" ends with the client.
            tenant: The tenant; READBACK_TENANT where left out.
            principal: The acting principal; READBACK_PRINCIPAL where left out.
            run, plan, task_state, boundary, trace, parent_span: Ids and versions for the record.
            budget: The value of `scope.budget` in `require`.
            break_glass: The reason for executing critical mutations without an approval. The reason is recorded, and
                such actions are always reviewed.
            actions: Actions declared in advance, so that `resume` finds their contracts.
            runtime: Replaces clock, sleep and ids.
            store: Replaces the ledger itself.
            recovery_table: The operator's own table or the table's file (READBACK_TABLE), checked before anything
                opens.
            scopes: The permission scopes of this client (READBACK_SCOPES).
            limits: Limits of this client's tenant. The operator's limits can only become stricter.
            subscribers: Receivers of the tenant's messages, in place of the settings' subscribers.
            approvers: People allowed to approve, in place of the settings' approvers.
            seal: Whether the log is sealed: False for never, True for the settings' key, or a mapping as the settings'
                `[seal]` (`entries`, `seconds`, `anchors`, `secret` and `key_file`).
            shadow: Whether contracts without a stated mode run in shadow mode, as far as the settings' `shadow` allows.

        Returns:
            The open client. Close the client with `close`, or use a `with` block.

        Raises:
            SettingsError: a setting is missing, malformed or not trusted.
            InputError: a parameter has a wrong type or value.
            StoreError: the ledger cannot be opened.
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
                shadow=shadow,
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
        """Execute the action, read the result back, reconcile, recover, and return the outcome.

        Args:
            proposal: The call to run. A proposal runs once.
            operation: The name of the intent. The same name never executes twice.
            wait: Seconds to wait for a settled outcome. After that the outcome is pending, and `wait(action_id)` or a
                worker continues.
            intended: The goal, where the goal exceeds the request.
            step: The plan's step.
            upon: Dependencies: outcomes, claims or their ids. Where a dependency does not stand, nothing is executed.
                Where a dependency falls later, the outcome reports the fall.
            run: The conversation's name; this client's own where left out.

        Raises:
            InputError: the proposal cannot be run.
            StoreError: the attempt could not be made durable. Nothing was done.
            UnknownOutcomeError: the attempt's end could not be made durable.
        """
        s, ticket = self._session, coordinator.ActionHandle()
        until_us = s.give_up_us(wait)
        request = s.request(proposal, operation, intended, step, () if upon == () else claiming.upon_ids(s, upon))
        work = coordinator.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket)
        return self._told(work, ticket, until_us, in_turn=not request.plan.hands.execute.is_async)

    def submit(
        self,
        proposal: Proposal | str,
        arguments: Mapping[str, object] | None = None,
        *,
        operation: str | None = None,
        intended: Mapping[str, object] | None = None,
        step: str = "",
        upon: Iterable[Upon] | Upon = (),
        run: str | None = None,
    ) -> str:
        """Leave an action to the workers of this ledger, and return the id after the durable commit. Nothing is called.

        Args:
            proposal: The proposal, or the name of a contract. A named contract need not be loaded here; a worker with
                the contract then checks the request, and refuses a forbidden one.
            arguments: The arguments by name, for a named contract.
            operation: The name of the intent. Submitted or run twice, the operation is one action.
            intended: The goal, where the goal exceeds the request.
            step: The plan's step.
            upon: Dependencies, as in `run`.
            run: The conversation's name; this client's own where left out.

        Returns:
            The action's id. `wait(id)` gives the outcome from any worker.

        Raises:
            SubmissionError: the action may not be left to another process. Nothing was submitted.
            InputError: the proposal cannot be run; see `run`.
        """
        return self._drive(submitting.submit(self._session, proposal, arguments, operation, intended, step, upon, run))

    def saga(
        self,
        steps: Iterable[SagaStep],
        *,
        name: str = "saga",
        operation: str | None = None,
        wait: float | None = None,
        run: str | None = None,
    ) -> SagaOutcome:
        """Run several actions as one: either all are verified, or all effects are reversed, or the saga goes to review.

        A step begins after its predecessors are verified. If a step fails before the pivot, every effect shown by a
        reading is reversed, the last first. After the pivot the missing steps are completed under the same keys.

        Args:
            steps: Proposals as steps, made with `.as_step(name, after=..., pivot=...)`.
            name: The saga's name.
            operation: The name of the intent. The same saga under the same operation joins the first one.
            wait: Seconds to wait for the end.
            run: The conversation's name; this client's own where left out.

        Raises:
            SagaError: the definition has faults; the error lists all of them. Nothing acted.
            PayloadConflictError: another saga has the same operation.
            StoreError, UnknownOutcomeError: as in `run`.
        """
        s, ticket = self._session, coordinator.ActionHandle()
        until_us = s.give_up_us(wait)
        request = s.saga_request(steps, name, operation)
        told = self._told(saga_attend.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket), ticket, until_us)
        assert isinstance(told, SagaOutcome)
        return told

    def get_saga(self, saga_id: str) -> SagaOutcome:
        """Return a saga's current outcome from the ledger. Raises NotFoundError for an unknown id, or an action's."""
        told = self.get(saga_id)
        if not isinstance(told, SagaOutcome):
            raise NotFoundError(f"{saga_id!r} is an action, not a saga.")
        return told

    def wait(self, action_id: str, wait: float | None = None) -> Outcome:
        """Wait up to `wait` seconds for an action to settle, process the action where due, and return the outcome."""
        s = self._session
        ticket = coordinator.ActionHandle(self._named(action_id))
        return self._told(s.stay(ticket.action_id), ticket, s.give_up_us(wait))

    def get(self, action_id: str) -> Outcome:
        """Return the current outcome from the ledger alone. Raises NotFoundError."""
        s = self._session
        return self._drive(s.look(self._named(action_id)))

    def find_operation(self, operation: str, action: Definition | str | None = None) -> Outcome | None:
        """Return the current outcome of an operation; None where nothing ran under this name.

        `action`: the action or the name of its contract. Without `action`, every contract known to this client is
        searched. Raises UsageError where several contracts have an operation of this name.
        """
        found = self._session.find_operation(operation, action)
        return None if found is None else self.get(found)

    def cancel(self, action_id: str) -> Outcome:
        """Request an action's stop: an unexecuted action is not executed, and a shown effect is compensated."""
        s = self._session
        action_id = self._named(action_id)
        self._drive(s.stop(action_id))
        return self.get(action_id)

    def withdraw(self, action_id: str, *, reason: str = "") -> Outcome:
        """Cancel an action without an attempt: no worker executes the action, and a later approval is refused.

        An attempted action stays as it is, so that a rejection never reverses an effect. The ledger holds the reason.
        Returns the current outcome. Raises UsageError for a reason that is no text of at most 16 KiB.
        """
        s = self._session
        action_id = self._named(action_id)
        self._drive(s.withdraw(action_id, reason))
        return self.get(action_id)

    def hand_out(
        self, proposal: Proposal, *, operation: str | None = None, step: str = "", run: str | None = None
    ) -> ExternalAttempt:
        """Commit an attempt for a call made by the caller. Where `allowed`, make the call now, exactly once.

        Report the end with `report`. Without a report a worker reads the state after the contract's time limit, and
        never repeats the call. `operation`, `step` and `run`: as in `run`, and so are the errors.
        """
        s, ticket = self._session, coordinator.ActionHandle()
        request = attempts.outside(s, proposal, operation, step)
        return self._drive(external_attempts.start_external(s.engine, request, s.scope_of(run), s.plan_of, ticket))

    def report(
        self,
        action_id: str,
        value: object = None,
        *,
        error: BaseException | str | None = None,
        wait: float | None = None,
    ) -> Outcome:
        """Record the end of a call after `hand_out`, read the state back, and return the outcome.

        Args:
            action_id: The action of the hand-out.
            value: The answer of the tool. The answer is evidence only.
            error: The error of the call, where the call ended in one.
            wait: Seconds to wait for a settled outcome, as in `run`.

        Raises:
            UsageError: the action has no attempt made by a caller.
            NotFoundError: no such action.
        """
        s = self._session
        ticket = coordinator.ActionHandle(self._named(action_id))
        said = attempts.report_of(value, error)
        work = external_attempts.complete_external(s.engine, ticket.action_id, s.scope.tenant, s.plan_of, said)
        return self._told(work, ticket, s.give_up_us(wait))

    def waits_for(self, proposal: Proposal, *, operation: str | None = None, run: str | None = None) -> bool:
        """Return whether `run` with these parameters would wait for an approval. Nothing is executed or recorded.

        The proposal counts as used. Other reasons to refuse the call are not checked. Raises as `run` does for an
        invalid proposal.
        """
        return attempts.waits_for(self._session, proposal, operation, run)

    def approval(self, action_id: str) -> ApprovalRequest:
        """Return the approval request of a waiting action: the exact bytes and their meaning. Raises ApprovalError if
        none.
        """
        s = self._session
        return self._drive(approving.requested(s.engine, self._named(action_id), s.scope.tenant))

    def approve(self, action_id: str, token: TokenLike) -> Outcome:
        """Record an approver's signed token. Nothing is executed here; a worker, `wait` or the same operation
        continues.

        Raises ApprovalError, with its code, for an invalid token; then nothing was recorded.
        """
        return self._decided(action_id, token, Decision.APPROVE)

    def deny(self, action_id: str, token: TokenLike) -> Outcome:
        """Record an approver's signed denial. The action ends without execution. Raises as `approve` does."""
        return self._decided(action_id, token, Decision.DENY)

    def _decided(self, action_id: str, token: TokenLike, decision: Decision) -> Outcome:
        s = self._session
        action_id = self._named(action_id)
        self._drive(approving.decide(s.engine, action_id, s.scope.tenant, token, decision))
        return self.get(action_id)

    def signal(self, id_or_stamp: str) -> bool:
        """Report an event such as a webhook, so that the next reading is taken now. A signal decides nothing."""
        return self._session.signal(id_or_stamp)

    def resume(self, limit: int = 256) -> list[Outcome]:
        """Process, once, every due action of this tenant whose contract is known here.

        Returns the current outcomes. Raises StoreCorruptError for a damaged action, after all others were processed.
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
        """Process due actions of this tenant until `stop_work` is called.

        Args:
            concurrency: The maximum number of actions in progress at the same time.
            tenants: Other tenants in place of this client's own.
            all_tenants: Process every tenant.
            until_idle: Return when no action is in progress any more.
            poll: Seconds between two looks at the ledger, also without a notification.
            handover: Seconds to leave actions of another contract version to workers that have that version.

        Returns:
            The number of steps taken. Actions in progress are finished first; unknown contracts are left to other
            workers.

        Raises:
            StoreError: the ledger cannot be used any more.
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
        return self._stay(worker)

    def stop_work(self) -> None:
        """End `work`, from any thread. No new action starts, and `work` returns after the actions in progress."""
        if self._worker is not None:
            self._worker.stop()

    def belief(self, run: str | None = None) -> Belief:
        """Return what a model may believe about a run, from the current ledger; this client's own run by default.

        A belief holds verified facts, unresolved actions, and a planning rule for each action. Only reconciled outcomes
        count.
        `for_model()` gives the text for the model's next context. Raises UsageError where no run is named.
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
        """Check an agent's final report against the ledger.

        Every citation must resolve to a standing claim and to evidence. Every item declared as done (`## Done`, `-
        [x]`,
        `Done:`) must cite.

        Args:
            text: The report.
            run: The run whose actions count; this client's own by default. Where this client has no run, all of the
                tenant's actions count.
            every: Require a citation for every item outside `## Open`.

        Returns:
            The check; read `passed` and `faults`.

        Raises:
            OversizeError: the report is too large.
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
        """Return a report unchanged if `check_report` passes, else a text in the reporting vocabulary about the run.

        By default every item outside `## Open` must cite. Where the run's state cannot be read either, the text says
        so. Raises UsageError where no run is named.
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
        """Return the review case of an action: intent, request, answer, readings, differences, and the effect of each
        decision.

        The case is bounded and comes from the ledger alone. Raises NotFoundError.
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
        """Record a person's decision about an action in review, carry out the decision, and return the outcome.

        An attestation frees or keeps the key, and never makes an action verified.

        Args:
            id_or_stamp: The action.
            decision: attest_done, attest_not_done, verify_again, compensate, go_forward, abandon or reopen; `review`
                lists the allowed ones.
            expect_version: The version of the review case.
            who: The decider, another principal than the actor. For a critical mutation, an approver by name.
            reason: The reason for the record.
            signature: The approver's ApproverKey or signature, for a critical mutation.

        Raises:
            ReviewError: the decision was rejected. Nothing was decided.
        """
        s = self._session
        order = reviewing.resolution(
            s, id_or_stamp, decision, expect_version=expect_version, who=who, reason=reason, signature=signature
        )
        self._drive(reviewing.resolving(s, order))
        return self.get(order.action_id)

    def is_claim_standing(self, claim: str) -> bool:
        """Return whether a claim may be relied on now: verified, and neither contested nor retracted since, or
        reinstated.

        `claim` is a claim's id, or an action's id for the state left by the action. Raises NotFoundError.
        """
        return claiming.claim(self._session, claim).standing

    def claim(self, claim: str) -> Claim:
        """Return a claim's status, the last statement about the claim, and the supporting entries. Raises
        NotFoundError.
        """
        return claiming.claim(self._session, claim)

    def claims(self, action: str = "", *, limit: int = 50) -> tuple[Claim, ...]:
        """Return the claims of an action; without an action, of the newest actions with recorded claim events."""
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
        """Withdraw a claim by a person's statement: the claim is contested and retracted. The result names its
        dependents.

        Args:
            claim: The claim's id.
            who: The person, another principal than the actor. For a critical mutation, an approver by name.
            reason: The reason for the record.
            expect_version: The action's version seen by the person.
            signature: The approver's ApproverKey or signature, for a critical mutation.

        Raises:
            ClaimError: the retraction was rejected. Nothing was changed.
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
        """Restore a claim that was verified once and contested or retracted since. Otherwise as `retract`."""
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
        """Return this tenant's frozen subjects, the oldest first. No new action may act on a frozen subject."""
        return tuple(reviewing.freezes(self._session))

    def lift(self, subject: str, *, who: str, reason: str, signature: bytes | Signer | None = None) -> None:
        """Lift the freeze of a subject. A freeze by a critical mutation needs an approver's signature, as in `resolve`.

        Raises NotFoundError where the subject is not frozen, ReviewError where the lift was rejected.
        """
        s = self._session
        ids, order = reviewing.lifting(s, subject, who=who, reason=reason, signature=signature)
        for action_id in ids:
            self._drive(review.lift(action_id, subject, order, s.scope.tenant))

    def incidents(self, *, open_only: bool = True) -> tuple[Incident, ...]:
        """Return this tenant's incidents, the newest first."""
        return tuple(reviewing.incidents(self._session, open_only=open_only))

    def erase(
        self, id_or_stamp: str = "", *, before: datetime | None = None, who: str, reason: str, dry_run: bool = False
    ) -> ErasureResult:
        """Erase the request, answers and readings of a settled action or saga, or of all last moved `before` a time.

        The bytes leave the ledger's files; entries, proofs and the result stay. Data referenced by another action is
        kept. Raises ErasureError for a named action in progress; then nothing was erased.
        """
        s, ids = self._session, (id_or_stamp,) if id_or_stamp else ()
        return self._apart(erasing.erase, s, ids, before, who=who, reason=reason, dry_run=dry_run)

    def list(self, *, state: str = "", contract: str = "", run: str = "", limit: int = 50) -> list[Outcome]:
        """Return the newest actions of this tenant."""
        page = self._session.page(state, contract, run, "", limit)
        return [self.get(stored.projection.action_id) for stored in page]
