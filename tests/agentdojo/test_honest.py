"""Honest tools: every call of every task's ground truth comes out verified, and what it says is so."""

from __future__ import annotations

import pytest

from readback.client.client import Readback
from readback.domain.discrepancy import Discrepancy
from readback.domain.kind import Kind
from readback.domain.verdict import Attribution, Verdict
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.agentdojo import loader, replay

NO_OPS = {"banking user_task_9 v1.0.0 call 2 update_scheduled_transaction"}
"""Its ground truth sets the rent to the 1100 that it is already: there is nothing to change, and Readback says so."""


@pytest.mark.parametrize("name", loader.SUITES)
@pytest.mark.requirement("L32")
def test_every_honest_call_of_every_ground_truth_is_verified(suites: dict[str, loader.Suite], name: str) -> None:
    stage = replay.Stage(suites[name])
    for call in replay.calls(suites[name]):
        said = stage.run(call)
        assert len(said) == 1, f"{call.name} was not settled at once"
        told, outcome = said[0], said[0].outcome
        assert outcome.verified, f"{call.name}: {outcome.state} {outcome.row} {outcome.detail}"
        assert told.is_true, f"{call.name}: the tool does not do what its arguments say"
        assert not told.lies
        no_op = outcome.discrepancy is Discrepancy.NO_OP_SUCCESS
        assert no_op is (call.name in NO_OPS), call.name
        if stage.actions[call.tool].contract.kind.needs_ours:
            assert outcome.attribution is Attribution.OURS, call.name


def test_the_outcome_is_the_same_when_it_is_read_from_the_ledger(suites: dict[str, loader.Suite]) -> None:
    stage = replay.Stage(suites["slack"])
    for call in replay.distinct(suites["slack"])[:6]:
        stage.world.set_up(call.environment.model_copy(deep=True), VirtualRuntime())
        action = stage.actions[call.tool]
        opened = Readback.open(tenant="w", principal="bot", store=MemoryStore(), runtime=stage.world.runtime)
        with opened as rb:
            outcome = rb.run(action(**call.arguments), operation="first")
            assert rb.get(outcome.id) == outcome


def test_the_same_operation_reaches_the_tool_once(suites: dict[str, loader.Suite]) -> None:
    """send_money would pay twice: it knows no key, so the ledger is what stops the second payment."""
    suite = suites["banking"]
    stage = replay.Stage(suite)
    call = next(call for call in replay.distinct(suite) if call.tool == "send_money")
    stage.world.set_up(call.environment.model_copy(deep=True), VirtualRuntime())
    tenant, principal = replay.WHO["banking"]
    pay = stage.actions["send_money"]
    assert pay.contract.kind is Kind.SEND
    opened = Readback.open(tenant=tenant, principal=principal, store=MemoryStore(), runtime=stage.world.runtime)
    with opened as rb:
        first = rb.run(pay(**call.arguments), operation="refund")
        again = rb.run(pay(**call.arguments), operation="refund")
    assert first.verified
    assert again.verified
    assert (first.replayed, again.replayed) == (False, True)
    assert again.verdict is Verdict.VERIFIED
    assert len(stage.world.calls) == 1
