"""The recovery drill: rollback, compensation, forward recovery and escalation, executed and verified.

Every path runs in the contract's world under virtual time, with the candidate's recovery table. A rollback and a
compensation are code of the contract, so a drill of both needs a sandbox (SandboxWorld). Escalation and forward
recovery are the engine's, so a simulated world is enough. A recovery counts as done after a reading confirms the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, assert_never

from readback.assurance.drills.failure_injection import acting_plans
from readback.assurance.gate_input import GateInput
from readback.assurance.results import Finding, GateResult, Place, Standing, gate_result
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.client.authoring.action import action
from readback.domain.context import Context
from readback.domain.outcome.outcome import Outcome
from readback.domain.people.review import Decision
from readback.domain.recovery.table import RecoveryTable
from readback.domain.saga.outcome import SagaOutcome
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Reading
from readback.engine.compiled_contract import CompiledContract
from readback.engine.coordinator import ActionHandle
from readback.engine.engine import Engine
from readback.engine.people import review
from readback.engine.saga import attend
from readback.engine.saga.begin import SagaRequest, StepRequest
from readback.errors import NotDispatchedError
from readback.testing.driver_sandbox import SandboxWorld
from readback.testing.faults.fault import Fault, FaultWorld, NotInjectable, Scene, WorldMisfitError
from readback.testing.faults.play import TENANT, Stage, scope_of
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore

GATE: Final = "recovery-drill"
US: Final = 1_000_000
HORIZON_US: Final = 30 * 86_400 * US
"""How long a drilled action is worked on, in virtual time."""
REVIEWER: Final = "human:drill"
PIVOT: Final = "readback.drill.pivot"


class Recovery(StrEnum):
    """A drilled path."""

    ROLLBACK = "rollback"
    COMPENSATION = "compensation"
    FORWARD = "forward-recovery"
    ESCALATION = "escalation"


@dataclass(frozen=True, slots=True)
class Drilled:
    """The end of a drill. `code`: "executed", or the stable name of the obstacle."""

    standing: Standing
    code: str
    message: str
    state: str = ""
    row: str = ""


def recovery_drill(given: GateInput) -> GateResult:
    """Drill every recovery of each contract in the input's `worlds`, under the candidate's table.

    Returns the result, with a finding for each contract and path, and for each fault of the table.
    """
    counts: Counter[str] = Counter(contracts=0, drills=0, executed=0)
    findings = [*_table_findings(given), *_findings(given, counts)]
    return gate_result(GATE, findings, counts)


def _table_findings(given: GateInput) -> Iterator[Finding]:
    """A row below the floor could repeat blindly, or omit a review. No drill can make up for such a row."""
    logic = given.candidate
    for fault in logic.table_faults:
        place = Place(logic.table_path, fault.line, fault.column) if logic.table_path else None
        said = f"The recovery table cannot be used: {fault.said}"
        yield Finding(GATE, "drill.table-below-floor", Standing.FAILED, said, place=place)


def _findings(given: GateInput, counts: Counter[str]) -> Iterator[Finding]:
    if given.candidate.table_faults:
        return
    for plan in acting_plans(given):
        counts["contracts"] += 1
        for recovery in recoveries_of(plan):
            counts["drills"] += 1
            world = given.worlds.get(plan.contract.name)
            drilled = drill_recovery(plan, world, recovery, given.candidate.table)
            counts["executed"] += drilled.standing is Standing.PASSED
            yield _finding(given, plan, recovery, drilled)


def _finding(given: GateInput, plan: CompiledContract, recovery: Recovery, drilled: Drilled) -> Finding:
    contract = plan.contract
    detail: Mapping[str, Json] = {"state": drilled.state, "row": drilled.row}
    named = f"{contract.name}@{contract.version}"
    place = given.candidate.place(contract.name)
    return Finding(
        GATE, f"drill.{drilled.code}", drilled.standing, drilled.message, named, recovery.value, place, (), detail
    )


def recoveries_of(plan: CompiledContract) -> list[Recovery]:
    """Return the paths of a contract. A saga completes only steps with an honoured key, so others go to a person."""
    if not plan.contract.kind.mutates:
        return [Recovery.ESCALATION]
    found = [Recovery.ESCALATION]
    if plan.contract.execution.honours_key:
        found.append(Recovery.FORWARD)
    if plan.contract.has_compensation:
        found.append(Recovery.COMPENSATION)
    if plan.contract.has_rollback:
        found.append(Recovery.ROLLBACK)
    return found


def drill_recovery(
    plan: CompiledContract, world: FaultWorld | None, recovery: Recovery, table: RecoveryTable
) -> Drilled:
    """Execute and verify a path. A missing world or sandbox is a result, not an error."""
    name = plan.contract.name
    if world is None:
        return Drilled(Standing.UNDETERMINED, "no-world", f"{name!r} has no world, so no recovery was drilled.")
    own_code = recovery in (Recovery.ROLLBACK, Recovery.COMPENSATION)
    if own_code and not isinstance(world, SandboxWorld):
        said = f"The {recovery.value} of {name!r} is code of its own. Drill it on a SandboxWorld with a declared twin."
        return Drilled(Standing.UNDETERMINED, "no-sandbox", said)
    try:
        return _Drill(plan, world, table).drill(recovery)
    except NotInjectable as none:
        return Drilled(Standing.UNDETERMINED, "world-incomplete", none.reason)
    except WorldMisfitError as misfit:
        return Drilled(Standing.UNDETERMINED, "world-misfit", f"{misfit.message} {misfit.remedy}")
    except ReadbackError as error:
        return Drilled(Standing.UNDETERMINED, "world-refused", f"{error.message} {error.remedy}")


class _Drill:
    """One path of one contract."""

    def __init__(self, plan: CompiledContract, world: FaultWorld, table: RecoveryTable) -> None:
        self._plan, self._world = plan, world
        self._stage = Stage(MemoryStore(), VirtualRuntime(), Engine(table), world)

    def drill(self, recovery: Recovery) -> Drilled:
        match recovery:
            case Recovery.ROLLBACK:
                return self._reversed(State.ROLLED_BACK, "rolled back")
            case Recovery.COMPENSATION:
                return self._reversed(State.COMPENSATED, "compensated")
            case Recovery.FORWARD:
                return self._forward()
            case Recovery.ESCALATION:
                return self._escalated()
            case _:
                assert_never(recovery)

    def _scene(self, fault: Fault) -> Scene:
        return self._world.scene(self._plan, fault, self._stage.runtime)

    # --- rollback and compensation ---

    def _reversed(self, wanted: State, words: str) -> Drilled:
        """A part of the effect is committed. The table reverses it, or a person orders the reversal."""
        scene = self._scene(Fault.PARTIAL_COMMIT)
        told = self._stage.run(self._plan, scene, f"a drill of {wanted.value}")
        ordered = ""
        if told.state in (State.REVIEW_REQUIRED, State.UNKNOWN) and wanted is State.COMPENSATED:
            told, ordered = self._decided(told, Decision.COMPENSATE), " by a person's order"
        told = self._stage.work_on(told.id, HORIZON_US) if told.state is not wanted else told
        truth = scene.truth()
        if told.state is not wanted:
            said = f"The effect was not {words}: the drill ended as {told.state.value}. {told.detail}".strip()
            return _of(told, Standing.FAILED, "not-executed", said)
        if truth.right or truth.wrong:
            said = f"The drill ended as {told.state.value}, and the sandbox still holds an effect."
            return _of(told, Standing.FAILED, "not-verified", said)
        return _of(told, Standing.PASSED, "executed", f"The effect was {words}{ordered}, and a reading confirmed it.")

    def _decided(self, told: Outcome, decision: Decision) -> Outcome:
        stored = self._stage.store.projection(told.id)
        assert stored is not None
        order = review.Order(told.id, decision, stored.version, REVIEWER, "a recovery drill")
        self._stage.drive(review.resolve(self._stage.engine, order, TENANT, self._stage.plans.get))
        return self._stage.work_on(told.id, HORIZON_US)

    # --- escalation ---

    def _escalated(self) -> Drilled:
        """No source answers. The action reaches a person, and the person's order to verify again ends in a reading."""
        scene = self._scene(Fault.SOURCE_OUTAGE)
        told = self._stage.run(self._plan, scene, "a drill of the escalation")
        told = told if told.state is State.REVIEW_REQUIRED else self._stage.work_on(told.id, HORIZON_US)
        if not self._plan.contract.kind.mutates and told.state is not State.REVIEW_REQUIRED:
            return _of(told, Standing.PASSED, "executed", f"A read is reported as unverified: {told.state.value}.")
        if told.state is not State.REVIEW_REQUIRED:
            said = f"An outage without an end reached no person: the drill ended as {told.state.value}."
            return _of(told, Standing.FAILED, "not-escalated", said)
        scene.fault = Fault.NONE
        told = self._decided(told, Decision.VERIFY_AGAIN)
        if told.state is State.REVIEW_REQUIRED and told.verdict is Verdict.UNDETERMINED and scene.calls == 1:
            said = f"The action reached a person, and the later reading left the review open: {told.why.value}."
            return _of(told, Standing.UNDETERMINED, "not-settled", said)
        if not told.verified or scene.calls != 1:
            said = f"After the outage the order to verify again ended as {told.state.value}, after {scene.calls} calls."
            return _of(told, Standing.FAILED, "not-verified", said)
        return _of(told, Standing.PASSED, "executed", "The action reached a person, and a reading settled the review.")

    # --- forward recovery ---

    def _forward(self) -> Drilled:
        """After the pivot of a saga the contract's first call is never sent. The saga completes the step."""
        scene = _Unsent(self._scene(Fault.NONE))
        bent = self._stage.know(self._plan, scene)
        pivot = _pivot().plan
        self._stage.plans[PIVOT] = pivot
        assert bent.bind is not None
        _, requested = bent.bind(dict(self._world.arguments))
        steps = (
            StepRequest("pivot", pivot, {}, pivot=True),
            StepRequest("after", bent, requested, after=("pivot",)),
        )
        request, handle = SagaRequest("drill", steps, "a drill of forward recovery"), ActionHandle()
        scope = scope_of(self._plan.contract)
        told = self._stage.drive(attend.begin(self._stage.engine, request, scope, self._stage.plans.get, handle))
        assert isinstance(told, SagaOutcome)
        turned = any(event.kind == "saga_turned" for event in self._stage.store.events(handle.action_id))
        if told.verified and turned and scene.truth().right == 1:
            return Drilled(
                Standing.PASSED,
                "executed",
                "The step after the pivot was completed under the same key, and a reading confirmed it.",
                told.state.value,
            )
        if told.state is State.REVIEW_REQUIRED:
            said = "The step after the pivot was put before a person."
            return Drilled(Standing.PASSED, "escalated", said, told.state.value)
        said = f"The saga did not go forward: it ended as {told.state.value}."
        return Drilled(Standing.FAILED, "not-executed", said, told.state.value)


def _of(told: Outcome, standing: Standing, code: str, message: str) -> Drilled:
    return Drilled(standing, code, message, told.state.value, told.row)


class _Unsent:
    """A scene whose first call is provably never sent."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._refused = scene, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scene, name)

    def act(self, context: Context, arguments: Mapping[str, object]) -> object:
        if not self._refused:
            self._refused = True
            raise NotDispatchedError("The connection was refused.")
        return self._scene.act(context, arguments)


def _pivot() -> Any:
    """The point of no return of the drilled saga: a switch."""
    switch = {"on": False}

    @action(
        name=PIVOT,
        kind="set",
        side_effect="ephemeral_write",
        target="switch",
        identity={"target": "authoritative.id", "tenant": "not_offered"},
        ensure={"on": "authoritative.on"},
    )
    def turn_on() -> object:
        switch["on"] = True
        return {"status": "ok"}

    @turn_on.read(source="switch", consistency="strong", independence="other_client", attributes=True)
    def look(ctx: Context) -> Reading:
        return Reading.of({"id": "switch", **switch})

    return turn_on
