"""The state shared by both clients: the store, the engine, the tenant and principal, and the known plans.

A session does no I/O beyond opening and closing; the clients drive the work created here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias
from unicodedata import category

from readback.background.dispatcher import OutboxDispatcher, deliveries_of
from readback.bootstrap import Settings, fallback
from readback.bootstrap import operator_sink as file_beside
from readback.bootstrap import runtime as system_runtime
from readback.bootstrap import settings as read_settings
from readback.bootstrap import sink as sink_of
from readback.bootstrap import store as open_store
from readback.canon import Json, json_value
from readback.canon.frozen import dataclass
from readback.canon.limits import ID_MAX_BYTES
from readback.canon.stderr import warn
from readback.client import validation
from readback.client.approving import approvals_of
from readback.client.proposal import Definition, Proposal
from readback.client.recovery_table import TableLike, path_of, table_in_force
from readback.client.sealing import NOT_SEALED, SealLike, Terms, confirmed, terms_of
from readback.domain.action.action import Action
from readback.domain.contract.approval import Approver
from readback.domain.contract.limits import TenantLimits, in_force
from readback.domain.idempotency import former_operation, key_hash
from readback.domain.outcome.outcome import Outcome
from readback.domain.records.subscriber import Subscriber, listed
from readback.domain.saga.fold import KIND
from readback.domain.tracing.trace_context import parse_traceparent
from readback.drivers.ledger_time import in_ledger_time
from readback.drivers.live_span import with_caller
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext, CompiledContract, Request
from readback.engine.effects import Effects
from readback.engine.engine import Engine
from readback.engine.resume import fold
from readback.engine.saga_run import fold_saga
from readback.engine.stages.execute import target_of
from readback.errors import (
    InputError,
    NotFoundError,
    ProposalError,
    StoreError,
    UnknownOutcomeError,
    UnknownPrincipalError,
    UnknownTenantError,
    UnsupportedValueError,
    UsageError,
)
from readback.ports.runtime import Runtime
from readback.ports.sink import Sink
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import ActionFilter, LedgerStore, Projection, StoredProjection

if TYPE_CHECKING:  # sagas, seals and places are had where they are used: a hook opens a session for a moment
    from readback.background.sealer import Sealer
    from readback.background.sequencer import Sequencer
    from readback.client.step import SagaStep
    from readback.engine.saga.begin import SagaRequest

if TYPE_CHECKING:
    from readback.background.sealer import Sealer


# The subscribers of an opened ledger's entries: the program's, or the subscribers of the operator's settings.


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscribers with their sinks. `tenant`: the owner; "" for the operator's. `at_all`: False for a read-only session
    without deliveries.
    """

    sinks: tuple[tuple[Subscriber, Sink], ...] = ()
    fallback: Sink | None = None
    tenant: str = ""
    at_all: bool = False

    def courier(self, store: LedgerStore, runtime: Runtime, sealer: Sealer | None) -> OutboxDispatcher:
        """Return the dispatcher for these subscribers. Raises StoreError where a new subscriber's position cannot be
        stored.
        """
        if not self.at_all:
            return OutboxDispatcher(runtime, sealer=sealer)
        operator = file_beside(store)
        made = deliveries_of(store, runtime, self.sinks, self.fallback or operator, operator, self.tenant)
        courier = OutboxDispatcher(runtime, made, sealer)
        courier.enrol()
        return courier


NO_SUBSCRIBERS: Final = Subscriptions()
"""No deliveries: for a read-only session."""


def subscriptions_for(
    settings: Settings, subscribers: Iterable[Subscriber] | None, tenant: str, runtime: Runtime
) -> Subscriptions:
    """Return a program's own subscribers, or else the settings'. Raises SettingsError."""
    own = subscribers is not None
    asked = listed(subscribers, tenant) if subscribers is not None else settings.subscribers
    sinks = tuple((each, sink_of(each, runtime)) for each in asked)
    fallback = sink_of(settings.fallback, runtime) if settings.fallback is not None else None
    return Subscriptions(sinks, fallback, tenant if own else "", at_all=True)


US: Final = 1_000_000
DUE_PAGE: Final = 256
Due: TypeAlias = Callable[[LedgerStore, int, int], list[str]]
"""Queries a store for due actions at a time, up to a limit."""
FOREIGN_SAGAS_MAX: Final = 4_096
"""Largest number of remembered versions of sagas with contracts that are not loaded here."""
VERSIONS_MAX: Final = 4_096
STEP_MAX_BYTES: Final = 16 * 1024
"""The size limit of a plan's step: the entry around the step has at most 64 KiB."""
FROM_ENVIRONMENT: Final = ("tenant", "principal")
WAIT_SECONDS_MAX: Final = 100 * 365 * 24 * 3600


@dataclass(slots=True)
class Session:
    """An open ledger in the name of one tenant and principal."""

    store: LedgerStore
    runtime: Runtime
    scope: CallerContext
    engine: Engine = field(default_factory=Engine)
    plans: dict[str, CompiledContract] = field(default_factory=dict)
    versions: dict[str, CompiledContract] = field(default_factory=dict)
    """Plans by hash: an action keeps its starting contract, also after a newer one was loaded."""
    foreign_sagas: set[str] = field(default_factory=set)
    """Versions of sagas with a contract that is not loaded here, learned from one saga each. Emptied by `know`."""
    closed: bool = False
    telling: Subscriptions = NO_SUBSCRIBERS
    """The subscribers of this ledger's messages."""
    sealing: Terms = NOT_SEALED
    """The terms of sealing: signer, schedule, and accepted keys."""
    chooser: Callable[[CompiledContract, str, str], CompiledContract] | None = None
    """Chooses the contract version of a new action by the version in force, tenant and target. None: in force."""
    courier: OutboxDispatcher = field(init=False)
    sealer: Sealer | None = field(init=False)
    sequencer: Sequencer | None = field(init=False)
    """Assigns places in the log, where the store assigns places after the commit."""

    def __post_init__(self) -> None:
        self.runtime = in_ledger_time(self.store, self.runtime)
        if self.store.sequences_asynchronously:  # many machines append to it
            self.engine = replace(self.engine, assume_owner_may_be_alive=True)
        self.sealer = self.sealing.sealer(self.store, self.runtime)
        self.courier = self.telling.courier(self.store, self.runtime, self.sealer)
        self.sequencer = self._sequencer() if self.store.sequences_asynchronously else None
        self.courier.sequencer = self.sequencer

    def _sequencer(self) -> Sequencer:
        from readback.background.sequencer import Sequencer

        return Sequencer(self.store, self._grown, self.courier.notify)

    def _grown(self, last_seq: int) -> None:
        if self.sealer is not None:
            self.sealer.hear(last_seq)

    @classmethod
    def open(
        cls,
        url: str | None,
        *,
        tenant: str | None,
        principal: str | None,
        run: str,
        plan: str,
        task_state: str,
        boundary: str,
        trace: str,
        parent_span: str = "",
        budget: Mapping[str, object] | None,
        break_glass: str,
        actions: Iterable[Definition],
        runtime: Runtime | None,
        store: LedgerStore | None,
        recovery_table: TableLike | None = None,
        scopes: Iterable[str] | None = None,
        limits: TenantLimits | None = None,
        subscribers: Iterable[Subscriber] | None = None,
        approvers: Iterable[Approver] | None = None,
        seal: SealLike = None,
        tells: bool = True,
        shadow: bool = False,
    ) -> Session:
        url = validation.address(url)
        settings = read_settings(url=url, tenant=tenant, principal=principal, recovery_table=path_of(recovery_table))
        check_id("tenant", settings.tenant, UnknownTenantError)
        check_id("principal", settings.principal, UnknownPrincipalError)
        named = {"run": run, "plan": plan, "task_state": task_state, "boundary": boundary, "trace": trace}
        for name, value in {**named, "parent_span": parent_span, "break_glass": break_glass}.items():
            check_id(name, value, UsageError, may_be_empty=True)
        caller = parse_traceparent(trace)
        if caller is not None:
            trace, parent_span = caller.trace_id, parent_span or caller.span_id
        held = settings.scopes if scopes is None else scopes_of(scopes)
        spending = validation.spending(budget)
        scope = CallerContext(
            settings.tenant,
            settings.principal,
            run,
            plan,
            task_state,
            boundary,
            trace,
            spending,
            break_glass,
            parent_span,
            held,
            caller is None or caller.sampled,
            shadow=validation.shadow_terms(settings.shadow, shadow),
        )
        plans = validation.plans_of(actions)
        people = approvals_of(settings.approvers if approvers is None else validation.people(approvers), break_glass)
        own = in_force(settings.limits, validation.at_most(limits))
        engine = Engine(table_in_force(recovery_table, settings), people, limits=own)
        # What can be refused is refused before anything is opened, so that nothing is left open.
        used = runtime if runtime is not None else system_runtime()
        sealing = terms_of(settings, seal)
        telling = subscriptions_for(settings, subscribers, settings.tenant, used) if tells else NO_SUBSCRIBERS
        opened = store if store is not None else open_store(settings.url)
        try:
            session = cls(opened, used, scope, engine, telling=telling, sealing=sealing)
        except StoreError:
            opened.close()
            raise
        for known in plans:
            session.know(known)
        return session

    def know(self, plan: CompiledContract) -> None:
        """Remember a plan by name, so that the session can continue its actions."""
        name = plan.contract.name
        if self.plans.get(name) is not plan:
            self._keep(plan)
            self.foreign_sagas.clear()
        self.plans[name] = plan
        if plan.compensation is not None:
            self.know(plan.compensation)

    def remember(self, plan: CompiledContract) -> None:
        """Remember a version by hash alone: the session continues its actions, and begins none with it."""
        self._keep(plan)
        if plan.compensation is not None:
            self.remember(plan.compensation)

    def _keep(self, plan: CompiledContract) -> None:
        """Store this version as the newest. Beyond the limit the oldest version is dropped, and its actions go to
        review.
        """
        self.versions.pop(plan.contract.hash, None)
        self.versions[plan.contract.hash] = plan
        while len(self.versions) > VERSIONS_MAX:
            del self.versions[next(iter(self.versions))]

    def plan_of(self, name: str) -> CompiledContract | None:
        """Return the plan of a declared or executed contract, by name, or a version by hash."""
        return self.plans.get(name) or self.versions.get(name)

    def request(
        self,
        proposal: Proposal,
        operation: str | None,
        intended: Mapping[str, object] | None,
        step: str,
        upon: tuple[str, ...] = (),
        *,
        ahead: bool = False,
    ) -> Request:
        """Return the proposal as the engine's request. A proposal can be run once."""
        self.check_open()
        if not isinstance(proposal, Proposal):
            raise ProposalError(
                f"run needs a proposal (got {type(proposal).__name__}).",
                remedy="Call the decorated action, and pass the returned proposal.",
            )
        if not operation and proposal.operation:
            operation = _of_contract(proposal.operation)
        elif operation is not None:
            check_id("operation", operation, ProposalError)
        check_step(step)
        goal = None if intended is None else _as_object(intended)
        request = proposal.request(operation or "", "", goal, step, upon, ahead)
        self.know(request.plan)
        proposal.mark_run()
        return request if self.chooser is None else self._chosen(request)

    def _chosen(self, request: Request) -> Request:
        """Return the request under the chosen version of its contract."""
        assert self.chooser is not None
        target = target_of(request, self.scope, "", request.operation)
        plan = self.chooser(request.plan, self.scope.tenant, target)
        if plan is request.plan:
            return request
        self.remember(plan)
        bound = (request.arguments, request.requested) if plan.bind is None else plan.bind(request.requested)
        return replace(request, plan=plan, arguments=bound[0], requested=bound[1])

    def scope_of(self, run: str | None) -> CallerContext:
        """Return the caller context of one call: this client's, with the run named by the call and the caller's span.

        Raises UsageError.
        """
        if run is None:
            return with_caller(self.scope)
        check_id("run", run, UsageError, may_be_empty=True)
        return with_caller(replace(self.scope, run=run))

    def run_named(self, run: str | None) -> str:
        """Return the named run, or this client's own; "" for none. Raises UsageError for text that no run can have."""
        named = self.scope.run if run is None else validation.sought("run", run)
        check_id("run", named, UsageError, may_be_empty=True)
        return named

    def find_operation(self, operation: str, action: Definition | str | None) -> str | None:
        """Return the action's id for an operation; None where there is none.

        `action`: the action, or the name of its contract; None for every contract known here.
        """
        self.check_open()
        check_id("operation", operation, UsageError)
        if action is None:
            names = sorted({plan.contract.name for plan in self.plans.values()})
        elif isinstance(action, str):
            names = [action]
        elif hasattr(type(action), "plan"):
            self.know(action.plan)
            names = [action.plan.contract.name]
        else:
            raise UsageError(
                f"action must be an action or a name (got {type(action).__name__}).",
                remedy="Pass the action, or the name of its contract.",
            )
        ids = dict.fromkeys((operation, former_operation(operation) or operation))
        hashes = {key_hash(self.scope.tenant, name, each): name for name in names for each in ids}
        found = self.store.keys(self.scope.tenant, list(hashes))
        known = {hashes[hashed]: record.action_id for hashed, record in found.items()}
        if len(known) > 1:
            raise UsageError(
                f"Several contracts have an operation {operation!r:.80}: {', '.join(sorted(known))}.",
                remedy="Name one: find_operation(operation, action).",
            )
        return next(iter(known.values()), None)

    def saga_request(self, steps: Iterable[SagaStep], name: str, operation: str | None) -> SagaRequest:
        """Return the steps as a saga request. A proposal can be run once."""
        from readback.client.step import SagaStep
        from readback.engine.saga.begin import SagaRequest

        self.check_open()
        given = validation.listed(steps)
        if not all(isinstance(step, SagaStep) for step in given):
            raise ProposalError("saga takes steps.", remedy="Convert each proposal with `.as_step(name)`.")
        check_id("name", name, ProposalError)
        if operation is not None:
            check_id("operation", operation, ProposalError)
        for step in given:
            self.know(step.proposal.definition.plan)
        made = tuple(step.defined() for step in given)
        return SagaRequest(name, made, operation or "")

    # --- whichever of the two it is ---

    def is_saga(self, action_id: str) -> bool:
        """Return whether this id is a saga's."""
        stored = self.store.projection(action_id)
        return stored is not None and stored.projection.kind == KIND

    def knows(self, projection: Projection) -> bool:
        """Return whether every contract of this action or saga is loaded here."""
        if projection.kind != KIND:
            return projection.contract in self.plans
        from readback.engine.saga import attend as saga_attend

        found = fold_saga(self.store.events(projection.action_id))
        if found is None or saga_attend.missing(found, self.plan_of) is None:
            return found is not None
        if found.contracts and len(self.foreign_sagas) < FOREIGN_SAGAS_MAX:
            self.foreign_sagas.add(found.contracts)  # other sagas of these contracts need no look any more
        return False

    def known(self, left_us: int) -> ContractFilter:
        """Return the loaded contracts. `left_us`: actions due by then match in any version, in microseconds."""
        foreign = frozenset(self.foreign_sagas)
        return ContractFilter(frozenset(self.plans), frozenset(self.versions), left_us, foreign)

    def advance(self, action_id: str, tenant: str, stored: StoredProjection | None = None) -> Effects[None]:
        """Process a due action until the next wait. An action that is not due stays as it is.

        `stored`: the projection, if the caller has just read one.
        """
        stored = stored or self.store.projection(action_id)
        if stored is not None and not self._is_due(stored.projection):
            return coordinator.nothing()
        if stored is not None and (stored.projection.kind == KIND or stored.projection.saga):
            from readback.engine.saga import attend as saga_attend

            if stored.projection.kind == KIND:
                return saga_attend.advance(self.engine, action_id, tenant, self.plan_of)
            return saga_attend.advance_step(self.engine, action_id, stored.projection.saga, tenant, self.plan_of)
        return coordinator.advance(self.engine, action_id, tenant, self.plan_of)

    def _is_due(self, projection: Projection) -> bool:
        return projection.due_us is not None and projection.due_us <= self.runtime.now_us()

    def stay(self, action_id: str) -> Effects[Outcome]:
        """Process an action until settled."""
        if self.is_saga(action_id):
            from readback.engine.saga import attend as saga_attend

            return saga_attend.wait_until_settled(self.engine, action_id, self.scope.tenant, self.plan_of)
        return coordinator.wait_until_settled(self.engine, action_id, self.scope.tenant, self.plan_of)

    def look(self, action_id: str, *, replayed: bool = False, tenant: str | None = None) -> Effects[Outcome]:
        """Return the current outcome from the ledger. `tenant`: another tenant than this session's; "" for any."""
        whose = self.scope.tenant if tenant is None else tenant
        outcome: Outcome
        if self.is_saga(action_id):
            from readback.engine.saga import attend as saga_attend

            outcome = yield from saga_attend.current_outcome(action_id, whose, replayed=replayed)
        else:
            outcome = yield from coordinator.current_outcome(action_id, whose, replayed=replayed)
        authority = self.sealer.authority if self.sealer is not None else self.sealing.authority
        return confirmed(outcome, self.store, authority)

    def withdraw(self, action_id: str, reason: str) -> Effects[None]:
        """Request the stop of an action without an attempt."""
        check_text("reason", reason, UsageError)
        return coordinator.cancel(
            self.engine, action_id, self.scope.tenant, self.plan_of, unattempted=True, reason=reason
        )

    def stop(self, action_id: str) -> Effects[None]:
        """Request the stop of an action."""
        if self.is_saga(action_id):
            from readback.engine.saga import attend as saga_attend

            return saga_attend.cancel(self.engine, action_id, self.scope.tenant, self.plan_of)
        return coordinator.cancel(self.engine, action_id, self.scope.tenant, self.plan_of)

    def check_open(self) -> None:
        if self.closed:
            raise UsageError("This Readback is closed.", remedy="Open another client with Readback.open(...).")

    def give_up_us(self, wait: float | None) -> int | None:
        """Return the end of a caller's wait: `wait` in seconds from now, None without an end."""
        given: object = wait
        if given is None or given == inf:
            return None
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= WAIT_SECONDS_MAX:
            raise UsageError(
                f"wait must be a number of seconds (got {given!r}).",
                remedy="Pass wait=30, wait=0 to return at once, or omit wait.",
            )
        return self.runtime.now_us() + int(given * US)

    def action_id(self, id_or_stamp: str) -> str:
        """Return the id of an action of this tenant, by id or stamp."""
        self.check_open()
        validation.named("an action", id_or_stamp)
        stored = self.store.projection(id_or_stamp)
        if stored is not None and stored.projection.tenant == self.scope.tenant:
            return id_or_stamp
        found = self.store.by_stamp(self.scope.tenant, id_or_stamp)
        if found is None:
            raise NotFoundError(f"There is no action {id_or_stamp!r} in tenant {self.scope.tenant!r}.")
        return found

    def signal(self, id_or_stamp: str) -> bool:
        """Make the next reading of an action due; a signal decides nothing. False if nothing waits."""
        action_id, now_us = self.action_id(id_or_stamp), self.runtime.now_us()
        limits = self.engine.limits
        rate = limits.of(self.scope.tenant).polls_per_minute if limits is not None else 0
        at_us = self.store.pace(self.scope.tenant, now_us, now_us, rate) if rate else now_us
        woken = self.store.make_due(action_id, at_us)
        self.runtime.notify()
        return woken

    def due(
        self, limit: int = DUE_PAGE, whose: Callable[[LedgerStore, int, int], list[str]] | None = None
    ) -> list[str]:
        """Return due actions of this tenant, including those of dead processes.

        `whose`: queries the store for other tenants instead.
        """
        self.check_open()
        now_us = self.runtime.now_us()
        for owner in self.store.owners():
            if self.runtime.is_owner_dead(owner):
                self.store.release(owner)
        if whose is not None:
            return whose(self.store, now_us, limit)
        return self.store.due(now_us, limit, self.scope.tenant)

    def each_due(self, limit: int = DUE_PAGE) -> Iterator[str]:
        """Yield up to `limit` due actions of contracts known here, each once.

        Other actions are left to other workers.
        """
        seen: set[str] = set()
        left = most = validation.count("limit", limit)

        def known(store: LedgerStore, now_us: int, limit: int) -> list[str]:
            return store.due(now_us, limit, self.scope.tenant, self.known(now_us))

        while left > 0 and (fresh := [each for each in self.due(len(seen) + most, known) if each not in seen]):
            for action_id in fresh:
                seen.add(action_id)
                stored = self.store.projection(action_id)
                if stored is not None and left > 0 and self.knows(stored.projection):
                    left -= 1
                    yield action_id

    def fold(self, action_id: str) -> Action:
        """Return the action's state from its events."""
        action = fold(self.store.events(self.action_id(action_id)))
        if action is None:
            raise NotFoundError(f"There is no action {action_id!r}.")
        return action

    def page(
        self, state: str = "", contract: str = "", run: str = "", before_id: str = "", limit: int = 50
    ) -> list[StoredProjection]:
        """Return actions of this tenant, newest first."""
        self.check_open()
        wanted = ActionFilter(
            self.scope.tenant,
            validation.state_named(state),
            validation.sought("contract", contract),
            validation.sought("run", run),
            before_id,
            validation.count("limit", limit),
        )
        return self.store.page(wanted)

    def report_unknown_outcome(self, error: UnknownOutcomeError) -> None:
        """Report the worst case in every available place: an effect may have landed without a record."""
        outcome = error.outcome
        record: dict[str, Json] = outcome.as_json() if isinstance(outcome, Outcome) else {"error": str(error)}
        where = fallback(self.store, record)
        warn(f"UNKNOWN OUTCOME: {error} Recorded at: {where}")

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.courier.is_here:
                self._end_threads()
            self.store.close()

    def _end_threads(self) -> None:
        if self.sequencer is not None:
            self.sequencer.close()  # first: what has no place is neither told nor sealed
        self.courier.close()
        if self.sealer is not None:
            self.sealer.close()


def scopes_of(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the names of permission scopes, each once. Raises UsageError."""
    if isinstance(scopes, str):
        raise UsageError("scopes must be a list of names, not one text.", remedy=f"Pass scopes=[{scopes!r}].")
    found = tuple(dict.fromkeys(scopes))
    for each in found:
        check_id("scope", each, UsageError)
    return found


def _as_object(value: Mapping[str, object]) -> dict[str, Json]:
    plain = json_value(value)
    if not isinstance(plain, dict):
        raise UnsupportedValueError("intended must be a mapping.")
    return plain


def check_step(step: object) -> None:
    """Raises ProposalError for an invalid step of a plan: a step is any bounded text."""
    check_text("step", step, ProposalError)


def check_text(name: str, value: object, fault: type[InputError]) -> None:
    """Raises `fault` for anything but a text of at most STEP_MAX_BYTES."""
    if not isinstance(value, str):
        raise fault(f"{name} must be text (got {type(value).__name__}).")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        said = f"The {name} holds half a character (a lone surrogate)."
        raise fault(said, remedy="Pass text that is UTF-8.") from error
    if size > STEP_MAX_BYTES:
        raise fault(f"The {name} exceeds {STEP_MAX_BYTES} bytes.", remedy="Say it shorter.")


def _of_contract(operation: str) -> str:
    """Check an operation made by a contract's template. Raises ProposalError: the fault is in the arguments."""
    try:
        check_id("operation", operation, ProposalError)
    except ProposalError as error:
        said = f"The contract's operation cannot be rendered with these arguments: {error.message}"
        raise ProposalError(
            said, remedy=f"Pass arguments that render to one line of at most {ID_MAX_BYTES} bytes."
        ) from error
    return operation


def check_id(name: str, value: object, fault: type[InputError], *, may_be_empty: bool = False) -> None:
    """Raises `fault` for an invalid id: no text, too long, or with deceptive characters."""
    if (
        type(value) is str
        and 0 < len(value) <= ID_MAX_BYTES
        and value.isascii()
        and value.isprintable()
        and value.strip()
    ):
        return  # as most are
    if not isinstance(value, str):
        raise fault(f"The {name} must be text (got {type(value).__name__}).", remedy=f"Pass {name}='...'.")
    if not value.strip() and not may_be_empty:
        shell = f" (--{name} in a shell)" if name in ("operation", "who", *FROM_ENVIRONMENT) else ""
        also = f", or set READBACK_{name.upper()}" if name in FROM_ENVIRONMENT else ""
        raise fault(f"The {name} is missing.", remedy=f"Pass {name}='...'{shell}{also}.")
    odd = not value.isascii() and any(category(c) in ("Cc", "Cf", "Zl", "Zp") for c in value)
    if len(value.encode(errors="replace")) > ID_MAX_BYTES or odd or any(ord(c) < 32 or ord(c) == 127 for c in value):
        said = f"The {name} exceeds {ID_MAX_BYTES} bytes, or contains control or direction characters."
        raise fault(said, remedy=f"Pass one line of text of at most {ID_MAX_BYTES} bytes.")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise fault(f"The {name} holds half a character (a lone surrogate).", remedy="Pass text that is UTF-8.")
