"""Every decision about a call through the kit, for sync and async callers. Called by `Tool` and `Kit`.

Nothing here raises for a failed call. An error before an attempt is a refused result. An error after an attempt is the
ledger's outcome, or the statement that the effect is unknown. Only cancellation and exits of the program pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from readback.agent_errors import CallFailedError
from readback.canon import CanonError, Json, ReadbackError, json_value, parse_json
from readback.canon.frozen import dataclass
from readback.client.proposal import Proposal
from readback.domain.outcome.outcome import Outcome
from readback.domain.verification.observation_signs import one_line
from readback.errors import ArgumentError, NotFoundError, UnknownOutcomeError, UsageError
from readback.kit import operations, results
from readback.kit.boundary import aguarded, guarded
from readback.kit.clients import RUN, ActionHandle, Clients
from readback.kit.content import as_result, content_of
from readback.kit.foreign import ForeignTools, InFlight, Way, flying
from readback.kit.results import Attempt, Foreign, Terms, ToolResult, held_of
from readback.kit.sagas import ProposedSaga, SagaDefinition
from readback.kit.wording import SAID_MAX_CHARACTERS

ARGUMENTS_MAX: Final = 256
"""Largest number of arguments by name."""
PACKET_KIND: Final = "readback.approval"
Arguments = Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class Callee:
    """What a tool calls: an action or a saga. `foreign`: the foreign tool's name; "" for an own action."""

    name: str
    action: Any
    foreign: str = ""

    @property
    def is_saga(self) -> bool:
        """Whether the tool runs a saga."""
        return isinstance(self.action, SagaDefinition)


def arguments_of(given: object) -> dict[str, Any]:
    """Return the arguments of a call by name. Raises ArgumentError for anything but an object."""
    if isinstance(given, str):
        try:
            given = parse_json(given) if given.strip() else {}
        except CanonError as error:
            raise ArgumentError(f"The arguments are no JSON. {error.message}") from error
    if not isinstance(given, Mapping) or len(given) > ARGUMENTS_MAX or not all(isinstance(each, str) for each in given):
        raise ArgumentError(
            f"The arguments must be an object of at most {ARGUMENTS_MAX} names (got {type(given).__name__})."
        )
    return dict(given)


@contextmanager
def spending(proposal: Proposal) -> Iterator[None]:
    """Count a proposal as used at the end, also where the call was refused: the result tells of it."""
    try:
        yield
    finally:
        if not proposal.used:
            proposal.mark_run()


class Calls:
    """The calls of one kit. `run`: the run of calls that name none; `wait_s`: seconds to wait for a result."""

    def __init__(self, clients: Clients, foreign: ForeignTools, terms: Terms, run: str, wait_s: float) -> None:
        self.clients, self.foreign, self.terms = clients, foreign, terms
        self._run, self._wait_s = run, wait_s
        self.by_contract: dict[str, Callee] = {}
        """The governed tools, by the names of their contracts."""

    def run_named(self, run: str | None) -> str:
        """Return the run of a call: the named one, the session's, or the kit's own."""
        return run or RUN.get() or self._run

    # --- calls ---------------------------------------------------------------------------------------------------

    def run(
        self, callee: Callee, given: object, operation: str | None, run: str | None, wait: float | None, way: Way | None
    ) -> ToolResult:
        """Run a call, and return the result."""
        ticket, sync = ActionHandle(), self.clients.sync

        def work() -> ToolResult:
            wait_s, named = self._seconds(wait), self.run_named(run)
            if callee.is_saga:
                steps, name, own = self._saga(callee, given, operation)
                return self.result(sync.attended_saga(steps, ticket, name, own, wait_s, named))
            proposal = self._propose(callee, given)
            flight = InFlight(callee.foreign, way, ticket)
            with spending(proposal), flying(flight):
                outcome = sync.attended(proposal, ticket, _operation(proposal, operation), wait_s, named)
            return self.result(outcome, flight)

        return guarded(work, lambda error: self.failed(error, ticket))

    async def arun(
        self,
        callee: Callee,
        given: object,
        operation: str | None,
        run: str | None,
        wait: float | None,
        way: Way | None,
        ticket: ActionHandle,
    ) -> ToolResult:
        """Run a call on the running event loop, and return the result. The ticket receives the action's id at once."""

        async def work() -> ToolResult:
            wait_s, named, client = self._seconds(wait), self.run_named(run), self.clients.here()
            if callee.is_saga:
                steps, name, own = self._saga(callee, given, operation)
                return await self._aresult(await client.attended_saga(steps, ticket, name, own, wait_s, named))
            proposal = self._propose(callee, given)
            flight = InFlight(callee.foreign, way, ticket)
            with spending(proposal), flying(flight):
                outcome = await client.attended(proposal, ticket, _operation(proposal, operation), wait_s, named)
            return await self._aresult(outcome, flight)

        return await aguarded(work, lambda error: self.failed(error, ticket))

    def begin(self, callee: Callee, given: object, operation: str | None, run: str | None) -> Attempt:
        """Commit an attempt for a call made by the caller."""

        def work() -> Attempt:
            if callee.is_saga:
                raise UsageError(f"The saga {callee.name!r} makes its own calls.", remedy="Run it with Tool.run.")
            proposal = self._propose(callee, given)
            own = _operation(proposal, operation)
            with spending(proposal):
                handed = self.clients.sync.hand_out(proposal, operation=own, run=self.run_named(run))
            return Attempt(handed.allowed, handed.outcome.id, self.result(handed.outcome, InFlight(callee.foreign)))

        return guarded(work, lambda error: Attempt(False, "", self.failed(error, ActionHandle())))

    def end(self, callee: Callee, action: str, value: object, error: object, wait: float | None) -> ToolResult:
        """Record the end of a call made by the caller, and read back."""

        def work() -> ToolResult:
            said, flight = _reported(callee, action, value, error)
            outcome = self.clients.sync.report(action, said, error=_error(error), wait=self._seconds(wait))
            return self.result(outcome, flight)

        return guarded(work, lambda raised: self._open(raised, action))

    async def aend(self, callee: Callee, action: str, value: object, error: object, wait: float | None) -> ToolResult:
        """Record the end of a call made by the caller, and read back, on the running event loop."""

        async def work() -> ToolResult:
            said, flight = _reported(callee, action, value, error)
            client = self.clients.here()
            outcome = await client.report(action, said, error=_error(error), wait=self._seconds(wait))
            return await self._aresult(outcome, flight)

        return await aguarded(work, lambda raised: self._open(raised, action))

    def waits_for(self, callee: Callee, given: object, operation: str | None, run: str | None) -> bool:
        """Return whether this call waits for an approval. Nothing is executed or recorded.

        False for a call that cannot be proposed: the call itself returns the reason. False for a saga: the saga begins,
        and its step waits.
        """

        def work() -> bool:
            if callee.is_saga:
                return False
            proposal = self._propose(callee, given)
            own = _operation(proposal, operation)
            with spending(proposal):
                return self.clients.sync.waits_for(proposal, operation=own, run=self.run_named(run))

        return guarded(work, lambda _: False)

    def held(self, callee: Callee, given: object, operation: str | None) -> ToolResult | None:
        """Return the parked action of this very call, also where it is signed by now; None where there is none."""

        def work() -> ToolResult | None:
            if callee.is_saga:
                found = self._saga_of(callee, given, operation)
                return None if found is None or results.status_of(found) != "parked" else self.result(found)
            proposal = self._propose(callee, given)
            with spending(proposal):
                action = self.clients.sync.held(proposal, _operation(proposal, operation))
            return self.result(self.clients.sync.get(action)) if action else None

        return guarded(work, lambda _: None)

    def _saga_of(self, callee: Callee, given: object, operation: str | None) -> Outcome | None:
        made: ProposedSaga = callee.action.propose(arguments_of(given))
        for step in made.steps:
            step.proposal.mark_run()
        named = made.operation or operation
        return self.clients.sync.find_operation(named, f"saga:{callee.name}") if named else None

    # --- an action of the ledger -----------------------------------------------------------------------------------

    def resume(self, action: str, wait: float | None, way: Way | None) -> ToolResult:
        """Wait for an action, and continue the action where due."""

        def work() -> ToolResult:
            outcome = self.clients.sync.get(action)
            if self._stays(outcome):
                return self.result(outcome)
            flight = self._flight(outcome, way)
            with flying(flight):
                outcome = self.clients.sync.wait(outcome.id, self._seconds(wait))
            return self.result(outcome, flight)

        return guarded(work, self.unanswered)

    async def aresume(self, action: str, wait: float | None, way: Way | None) -> ToolResult:
        """Wait for an action on the running event loop, and continue the action where due."""

        async def work() -> ToolResult:
            client = self.clients.here()
            outcome = await client.get(action)
            if self._stays(outcome):
                return await self._aresult(outcome)
            flight = self._flight(outcome, way)
            with flying(flight):
                outcome = await client.wait(outcome.id, self._seconds(wait))
            return await self._aresult(outcome, flight)

        return await aguarded(work, self.unanswered)

    def look(self, action: str) -> ToolResult:
        """Return what is known now of an action, as the answer to a question."""
        return guarded(lambda: results.of_answer(self.clients.sync.get(action)), self.unanswered)

    def decided(self, action: str, decide: Callable[[str], object]) -> tuple[ToolResult, bool]:
        """Record a person's decision about a parked action. Return its result, and whether the decision counts.

        `decide` receives the id of the waiting action: for a saga, the step's. A decision that does not count leaves
        the action as it is, and its code stands in the result.
        """

        def work() -> tuple[ToolResult, bool]:
            outcome = self.clients.sync.get(action)
            refused = guarded(lambda: _none(decide(held_of(outcome).id)), _typed)
            found = self.result(self.clients.sync.get(outcome.id))
            if refused is None:
                return found, True
            line = f"Reason: {refused.code}. {one_line(refused.message, SAID_MAX_CHARACTERS)}"
            return results.with_line(found, line, refused.code), False

        return guarded(work, lambda error: (self.unanswered(error), False))

    # --- results ---------------------------------------------------------------------------------------------------

    def result(self, outcome: Outcome, flight: InFlight | None = None) -> ToolResult:
        """Return the result of an outcome. `flight`: the call of this process, where there was one."""
        packet = self._packet(outcome) if results.status_of(outcome) == "parked" else None
        return results.of_outcome(outcome, self.terms, foreign=self._answer(outcome, flight), packet=packet)

    async def _aresult(self, outcome: Outcome, flight: InFlight | None = None) -> ToolResult:
        if results.status_of(outcome) == "parked":  # the request is read from the ledger
            return await asyncio.to_thread(self.result, outcome, flight)
        return self.result(outcome, flight)

    def _answer(self, outcome: Outcome, flight: InFlight | None) -> Foreign | None:
        """Return the foreign tool's answer: of this call, or as recorded."""
        if flight is None or not flight.name:
            return None
        if flight.answer is not None and flight.ticket.action_id == outcome.id:
            return flight.answer
        recorded = content_of(outcome)
        return None if recorded is None else Foreign(None, recorded)

    def _flight(self, outcome: Outcome, way: Way | None) -> InFlight:
        callee = self.by_contract.get(outcome.contract)
        return InFlight("" if callee is None else callee.foreign, way, ActionHandle(outcome.id))

    def _packet(self, outcome: Outcome) -> dict[str, Json]:
        """Return the approval request of a parked action as JSON, for a framework's pause and a person's signature."""
        held = held_of(outcome)
        packet: dict[str, Json] = {
            "kind": PACKET_KIND,
            "action": held.id,
            "contract": held.contract,
            "target": held.target,
            "operation": held.operation,
            "message": held.message,
        }
        try:
            asked = self.clients.sync.approval(held.id)
        except ReadbackError:  # decided meanwhile: the next look tells
            return packet
        bound = asked.bound
        return packet | {
            "requested": json_value(bound.requested),
            "principal": bound.principal,
            "people": bound.people,
            "signed_by": [*asked.signed_by],
            "expires_us": bound.expires_us,
            "payload": asked.payload,
            "bytes": asked.bytes.decode("utf-8"),
        }

    def failed(self, error: Exception, ticket: ActionHandle) -> ToolResult:
        """Return the result of a call that raised: refused, unless the ledger has an attempt or a waiting action."""
        plain = _typed(error)
        if isinstance(plain, UnknownOutcomeError) or not ticket.action_id:
            return results.of_refusal(plain)

        def work() -> ToolResult:
            try:
                outcome = self.clients.sync.get(ticket.action_id)
            except NotFoundError:
                return results.of_refusal(plain)
            known = outcome.attempted or not outcome.settled
            return self.result(outcome) if known else results.of_refusal(plain)

        return guarded(work, lambda _: results.of_refusal(_unknown(plain)))  # it cannot be read whether it was sent

    def unanswered(self, error: Exception) -> ToolResult:
        """Return the result of a question about an action without an answer."""
        return results.of_question(_typed(error))

    def _open(self, error: Exception, action: str) -> ToolResult:
        """Return the result after a report that failed: what the ledger knows, and never "not executed"."""
        lost = results.of_refusal(_unknown(_typed(error)))

        def work() -> ToolResult:
            outcome = self.clients.sync.get(action)
            return self.result(outcome) if outcome.attempted or not outcome.settled else lost

        return guarded(work, lambda _: lost)

    # --- parts -----------------------------------------------------------------------------------------------------

    def _seconds(self, wait: float | None) -> float:
        return self._wait_s if wait is None else wait

    def _stays(self, outcome: Outcome) -> bool:
        """Return whether a parked action has too few signatures, so that waiting is of no use."""
        if results.status_of(outcome) != "parked":
            return False
        held = held_of(outcome)
        asked = self.clients.session.fold(held.id).approval
        return asked is None or not asked.complete

    def _propose(self, callee: Callee, given: object) -> Proposal:
        proposal = callee.action(**arguments_of(given))
        if not isinstance(proposal, Proposal):
            raise UsageError(f"{callee.name!r} is no action.", remedy="Pass a decorated action to the kit.")
        return proposal

    def _saga(self, callee: Callee, given: object, operation: str | None) -> tuple[list[Any], str, str | None]:
        made: ProposedSaga = callee.action.propose(arguments_of(given))
        return made.steps, callee.name, made.operation or operation or None

    # --- operations --------------------------------------------------------------------------------------------------

    def operation(
        self,
        callee: Callee,
        given: object,
        run: str | None,
        *,
        named: str,
        call_id: str,
        message_id: str,
        shown: Iterable[Any] | None,
        ordinal: int,
    ) -> str | None:
        """Return the name of a call's operation, or None where the contract, or nothing, names it.

        A call that cannot be named is refused for the same reason when it runs.
        """

        def work() -> str | None:
            own, hashed = self._identity(callee, given)
            if own or named:
                return None if own else named
            whose = self.run_named(run)
            if shown is None:
                return operations.by_ids(whose, callee.name, hashed, message_id=message_id, call_id=call_id)
            count = operations.occurrences(shown, callee.name, lambda each: self._same(callee, each, hashed))
            return self._joined(callee, whose, hashed, count, count + max(0, ordinal))

        return guarded(work, lambda _: named or None)

    def _identity(self, callee: Callee, given: object) -> tuple[bool, str]:
        """Return whether the contract names its operations itself, and the hash of the bound arguments."""
        if callee.is_saga:
            saga = callee.action
            bound = saga.arguments.bind((), arguments_of(given))
            return saga.names_operations, operations.canonical_hash(bound.requested)
        proposal = self._propose(callee, given)
        proposal.mark_run()
        own = bool(proposal.operation or callee.action.contract.key_fields)
        return own, "" if own else operations.canonical_hash(proposal.requested)

    def _same(self, callee: Callee, given: object, hashed: str) -> bool:
        try:
            return self._identity(callee, given)[1] == hashed
        except ReadbackError:
            return False

    def _joined(self, callee: Callee, run: str, hashed: str, shown: int, wanted: int) -> str:
        """Return the wanted occurrence, or the latest earlier one, where that one is in doubt."""
        for each in range(min(shown, wanted) - 1, -1, -1):
            name = operations.derived(run, callee.name, hashed, each)
            contract = f"saga:{callee.name}" if callee.is_saga else callee.action.name
            found = self.clients.sync.find_operation(name, contract)
            if found is not None:
                return name if found.in_doubt else operations.derived(run, callee.name, hashed, wanted)
        return operations.derived(run, callee.name, hashed, wanted)


def _operation(proposal: Proposal, operation: str | None) -> str | None:
    """Return the caller's operation, unless the contract names the operation itself."""
    if proposal.operation or proposal.definition.plan.contract.key_fields:
        return None
    return operation or None


def _reported(callee: Callee, action: str, value: object, error: object) -> tuple[object, InFlight | None]:
    """Return the value for the record, and the answer of the call."""
    if not callee.foreign or error is not None:
        return value, None
    flight, raw = InFlight(callee.foreign, None, ActionHandle(action)), as_result(value)
    flight.answer = Foreign(value, raw)
    return raw, flight


def _none(_: object) -> ReadbackError | None:
    """Return no error, for a decision that counts."""
    return None


def _error(error: object) -> BaseException | str | None:
    return error if error is None or isinstance(error, BaseException) else str(error)


def _typed(error: Exception) -> ReadbackError:
    """Return an error of Readback. Another error is named by its type alone, since its text may hold secrets."""
    if isinstance(error, ReadbackError):
        return error
    return CallFailedError(f"The call ended in {type(error).__name__} before any attempt.")


def _unknown(error: ReadbackError) -> UnknownOutcomeError:
    return UnknownOutcomeError(f"The ledger cannot tell what became of the call: {error.code}.", code=error.code)
