"""Faults and recoveries of a tool of a user's own, on its declared twin: the live system is never touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.assurance.drills.recovery_drill import Recovery, drill_recovery, recoveries_of, recovery_drill
from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.assurance.results import Standing
from readback.contracts.documents.recovery_tables import TableFault
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable
from readback.testing import Fault, inject, inject_all
from readback.testing.faults import judge
from tests.injection import shop
from tests.injection.storehouse import System, booking, sandbox_world


@pytest.mark.requirement("INJECT-own-tool")
def test_faults_are_injected_into_a_users_own_tool_on_its_twin() -> None:
    made, world, safe, live = sandbox_world()
    found = {each.fault: each for each in inject_all(made.plan, world)}
    held = (judge.Standing.HELD, judge.Standing.NOT_APPLICABLE, judge.Standing.UNDETERMINED)
    assert all(each.standing in held for each in found.values()), found
    assert found[Fault.WRONG_TENANT].discrepancy == "wrong_target_modified"
    assert found[Fault.DUPLICATE].discrepancy == "duplicate_side_effect"
    assert found[Fault.TIMEOUT_AFTER_COMMIT].verdict == "verified"
    assert found[Fault.WRONG_TENANT_READ].standing is judge.Standing.NOT_APPLICABLE
    assert safe.effects, "the twin's own tool ran"
    assert live == System(), "the live system was never called"


@pytest.mark.requirement("INJECT-own-tool")
def test_a_sandbox_without_a_way_to_bend_an_effect_leaves_that_fault_undetermined() -> None:
    made, world, _, _ = sandbox_world()
    bare = replace(world, foreign=None, partial=None)
    for fault in (Fault.WRONG_TENANT, Fault.PARTIAL_COMMIT):
        found = inject(made.plan, bare, fault)
        assert (found.standing, found.code) == (judge.Standing.UNDETERMINED, "world-incomplete")


@pytest.mark.requirement("INJECT-own-tool")
def test_an_action_without_a_declared_twin_is_refused_and_nothing_is_called() -> None:
    live = System()
    made, world, _, _ = sandbox_world()
    found = inject(made.plan, replace(world, action=booking(live)), Fault.DUPLICATE)
    assert (found.standing, found.code) == (judge.Standing.UNDETERMINED, "world-refused")
    assert live == System()


@pytest.mark.requirement("GATE-recovery-drill", "RDRILL-reversal")
@pytest.mark.parametrize(
    ("rollback", "recovery", "state"),
    [(False, Recovery.COMPENSATION, "compensated"), (True, Recovery.ROLLBACK, "rolled_back")],
)
def test_a_reversal_is_executed_on_the_twin_and_confirmed_by_a_reading(
    rollback: bool, recovery: Recovery, state: str
) -> None:
    made, world, safe, live = sandbox_world(rollback=rollback)
    drilled = drill_recovery(made.plan, world, recovery, DEFAULT_TABLE)
    assert (drilled.standing, drilled.code, drilled.state) == (Standing.PASSED, "executed", state), drilled
    assert safe.bookings == {}
    assert live == System()


@pytest.mark.requirement("RDRILL-reversal")
@pytest.mark.parametrize(("rollback", "recovery"), [(False, Recovery.COMPENSATION), (True, Recovery.ROLLBACK)])
def test_a_reversal_that_leaves_the_effect_fails_by_name(rollback: bool, recovery: Recovery) -> None:
    made, world, safe, _ = sandbox_world(rollback=rollback)
    safe.undone = False
    drilled = drill_recovery(made.plan, world, recovery, DEFAULT_TABLE)
    assert (drilled.standing, drilled.code) == (Standing.FAILED, "not-executed"), drilled


@pytest.mark.requirement("RDRILL-forward")
def test_a_step_after_the_pivot_is_completed_under_the_same_key() -> None:
    made, world, safe, _ = sandbox_world()
    drilled = drill_recovery(made.plan, world, Recovery.FORWARD, DEFAULT_TABLE)
    assert (drilled.standing, drilled.code) == (Standing.PASSED, "executed"), drilled
    assert len(safe.effects) == 1


@pytest.mark.requirement("RDRILL-escalation")
@pytest.mark.parametrize("definition", shop.ACTIONS, ids=lambda each: each.name)
def test_an_outage_reaches_a_person_and_the_order_to_read_again_settles_it(definition: object) -> None:
    plan = definition.plan  # type: ignore[attr-defined]
    drilled = drill_recovery(plan, shop.WORLDS[plan.contract.name], Recovery.ESCALATION, DEFAULT_TABLE)
    assert (drilled.standing, drilled.code) == (Standing.PASSED, "executed"), drilled


@pytest.mark.requirement("RDRILL-undetermined")
def test_a_review_that_a_later_reading_leaves_open_is_undetermined() -> None:
    """The contract demands a stable state for a time, and no time is left after the window."""
    steady = shop.contract("steady", "set", ensure=shop.TWO_PARTS, stable_for="300ms")
    world = shop.renamed(shop.ship_world, "steady")
    drilled = drill_recovery(steady.plan, world, Recovery.ESCALATION, DEFAULT_TABLE)
    assert (drilled.standing, drilled.code) == (Standing.UNDETERMINED, "not-settled"), drilled
    assert "settling" in drilled.message


@pytest.mark.requirement("RDRILL-undetermined")
def test_without_a_sandbox_a_reversal_is_undetermined_and_without_a_world_everything_is() -> None:
    made, world, _, _ = sandbox_world()
    simulated = drill_recovery(shop.create.plan, shop.create_world, Recovery.COMPENSATION, DEFAULT_TABLE)
    assert (simulated.standing, simulated.code) == (Standing.UNDETERMINED, "no-sandbox")
    for recovery in recoveries_of(made.plan):
        assert drill_recovery(made.plan, None, recovery, DEFAULT_TABLE).code == "no-world"
    given = GateInput(VerificationLogic({"book": made.plan}), worlds={"book": world})
    assert recovery_drill(given).standing is Standing.PASSED
    assert recovery_drill(GateInput(VerificationLogic({"book": made.plan}))).standing is Standing.UNDETERMINED


@pytest.mark.requirement("RDRILL-floor")
def test_a_recovery_row_below_the_floor_fails_the_drill_by_name() -> None:
    made, world, _, _ = sandbox_world()
    rows = tuple(
        replace(row, action=RecoveryAction.FAIL) if row.id == "RB-unknown" else row for row in DEFAULT_TABLE.rows
    )
    faults = tuple(TableFault(7, 3, f"{each.row}: {each.said}") for each in RecoveryTable(rows).faults())
    assert faults
    given = GateInput(VerificationLogic({"book": made.plan}, table_faults=faults), worlds={"book": world})
    result = recovery_drill(given)
    assert result.standing is Standing.FAILED
    assert {each.code for each in result.findings} == {"drill.table-below-floor"}
    assert "RB-unknown" in result.findings[0].message
