"""The sync client: what it refuses, what it answers, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readback import Outcome, Readback, State, Verdict
from readback.errors import (
    ArgumentError,
    ContractError,
    HonestyError,
    InputError,
    NotFoundError,
    NotVerifiedError,
    OversizeError,
    PayloadConflictError,
    ProposalError,
    SettingsError,
    StoreError,
    UnknownPrincipalError,
    UnknownTenantError,
    UsageError,
)
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, ship_of

NEVER_RUN = pytest.mark.filterwarnings("ignore::readback.client.proposal.UnusedProposalWarning")


def test_a_run_comes_back_verified_with_what_was_read() -> None:
    desk = Desk()
    with opened() as rb:
        outcome = rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="ship o-1")
    assert (outcome.verified, outcome.standing, outcome.settled) == (True, True, True)
    assert (outcome.state, outcome.verdict) == (State.RECONCILED_SUCCESS, Verdict.VERIFIED)
    assert isinstance(outcome.authoritative, dict)
    assert outcome.authoritative["status"] == "shipped"
    assert [p.name for p in outcome.postconditions] == ["shipped", "carrier"]
    assert "completed" in outcome.message
    assert outcome.raise_unless_verified() is outcome
    assert desk.calls == 1


def test_a_lie_is_not_told_and_raises_when_asked_to() -> None:
    desk = Desk(instead=lambda _ctx: {"status": "ok", "success": True})
    with opened() as rb:
        outcome = rb.run(ship_of(desk, late_window="0s")(order_id="o-1", carrier="dhl"), operation="ship o-1")
    assert not outcome.verified
    assert "completed successfully" not in outcome.message
    with pytest.raises(NotVerifiedError) as raised:
        outcome.raise_unless_verified()
    assert raised.value.outcome is outcome
    assert raised.value.exit_code == outcome.exit_code != 0


@pytest.mark.requirement("TRUTH-words-bool")
def test_neither_a_proposal_nor_an_outcome_is_true_or_false() -> None:
    desk = Desk()
    proposal = ship_of(desk)(order_id="o-1", carrier="dhl")
    with pytest.raises(HonestyError):
        bool(proposal)
    with opened() as rb:
        outcome = rb.run(proposal)
    with pytest.raises(HonestyError):
        bool(outcome)
    with pytest.raises(TypeError):
        assert outcome


# --- what is refused before anything is called ---


def test_a_proposal_is_run_once() -> None:
    desk = Desk()
    proposal = ship_of(desk)(order_id="o-1", carrier="dhl")
    with opened() as rb:
        rb.run(proposal)
        with pytest.raises(ProposalError):
            rb.run(proposal)
    assert desk.calls == 1


def test_only_a_proposal_is_run() -> None:
    desk = Desk()
    with opened() as rb, pytest.raises(ProposalError):
        rb.run(ship_of(desk))  # type: ignore[arg-type]


@pytest.mark.requirement("INPUT-arguments")
@pytest.mark.parametrize(
    "arguments", [{"order_id": "o-1"}, {"order_id": 7, "carrier": "dhl"}, {"order_id": "o", "x": 1}]
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_called(arguments: dict[str, Any]) -> None:
    desk, store = Desk(), MemoryStore()
    with opened(store.reopened()), pytest.raises(ArgumentError):
        ship_of(desk)(**arguments)
    assert (desk.calls, desk.looks, list(store.scan())) == (0, 0, [])


@pytest.mark.requirement("INPUT-unknown-principal")
def test_a_principal_that_the_contract_does_not_list_is_refused() -> None:
    desk, store = Desk(), MemoryStore()
    ship = ship_of(desk, principals=["agent:shipping", "person:*"])
    with opened(store.reopened()) as rb, pytest.raises(UnknownPrincipalError):
        rb.run(ship(order_id="o-1", carrier="dhl"))
    assert (desk.calls, desk.looks, list(store.scan())) == (0, 0, [])
    with opened(store, principal="person:ann") as rb:
        assert rb.run(ship(order_id="o-1", carrier="dhl")).verified


@pytest.mark.requirement("INPUT-unknown-tenant")
def test_another_tenants_action_does_not_exist_here() -> None:
    desk, store = Desk(), MemoryStore()
    ship = ship_of(desk)
    with opened(store.reopened()) as rb:
        outcome = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    with opened(store.reopened(), tenant="other") as other:
        for ask in (other.get, other.wait, other.cancel, other.signal):
            for name in (outcome.id, outcome.stamp):
                with pytest.raises(NotFoundError):
                    ask(name)
        assert other.list() == []
        assert other.resume() == []


@pytest.mark.requirement("INPUT-unknown-tenant")
@pytest.mark.parametrize("tenant", ["", "   ", "a\nb", "x" * 5000, 7])
def test_a_tenant_that_is_no_name_is_refused(tenant: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownTenantError):
        Readback.open(f"sqlite:///{tmp_path}/ledger.db", tenant=tenant)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("INPUT-other-payload")
def test_the_same_operation_with_another_payload_is_refused_and_the_first_is_untouched() -> None:
    desk = Desk()
    ship = ship_of(desk)
    with opened() as rb:
        first = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        with pytest.raises(PayloadConflictError):
            rb.run(ship(order_id="o-1", carrier="ups"), operation="op")
        assert rb.get(first.id) == first
        assert rb.list() == [first]
    assert desk.calls == 1


@pytest.mark.requirement("INPUT-over-long-value")
@NEVER_RUN
def test_an_over_long_value_is_refused_and_not_stored_in_part() -> None:
    desk, store = Desk(), MemoryStore()
    with opened(store.reopened()) as rb:
        with pytest.raises((OversizeError, InputError)):
            rb.run(ship_of(desk)(order_id="o-1", carrier="x" * 20_000_000))
        for operation in ("", "x" * 5000, "a\x00b"):
            with pytest.raises(ProposalError):
                rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation=operation)
    assert (desk.calls, list(store.scan())) == (0, [])


@pytest.mark.parametrize("wait", [-1, float("nan"), "1", True, 1e300])
@NEVER_RUN
def test_a_patience_that_is_no_number_of_seconds_is_refused_before_anything_is_called(wait: Any) -> None:
    desk = Desk()
    with opened() as rb, pytest.raises(UsageError):
        rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), wait=wait)
    assert desk.calls == 0


# --- opening and closing ---


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"url": "mysql://somewhere/db"}, SettingsError),
        ({"url": "sqlite:///"}, UsageError),
        ({"url": "sqlite:////no/such/folder/here.db"}, StoreError),
        ({"principal": ""}, UnknownPrincipalError),
        ({"principal": None.__class__}, UnknownPrincipalError),
        ({"run": "x" * 5000}, UsageError),
        ({"trace": "a\rb"}, UsageError),
    ],
)
def test_what_cannot_be_opened_says_why(given: dict[str, Any], fault: type[Exception]) -> None:
    with pytest.raises(fault):
        Readback.open(**{"tenant": "acme", "principal": "agent:ops", **given})


def test_a_contract_that_cannot_be_loaded_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    broken = ship_of(Desk(), ensure={"shipped": "authoritative.status =="})
    with pytest.raises(ContractError):
        Readback.open(f"sqlite:///{tmp_path}/ledger.db", tenant="acme", principal="agent:ops", actions=[broken])
    assert list(tmp_path.iterdir()) == []


def test_the_environment_says_what_is_not_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("READBACK_URL", f"sqlite:///{tmp_path}/here.db")
    monkeypatch.setenv("READBACK_TENANT", "globex")
    monkeypatch.setenv("READBACK_PRINCIPAL", "agent:env")
    with Readback.open() as rb:
        outcome = rb.run(ship_of(Desk())(order_id="o-1", carrier="dhl"))
    assert (outcome.tenant, outcome.principal) == ("globex", "agent:env")
    assert (tmp_path / "here.db").exists()


@NEVER_RUN
def test_a_closed_client_answers_nothing_and_calls_nothing() -> None:
    desk = Desk()
    ship = ship_of(desk)
    rb = opened()
    outcome = rb.run(ship(order_id="o-1", carrier="dhl"))
    rb.close()
    rb.close()
    asks: list[Callable[[], object]] = [
        lambda: rb.run(ship(order_id="o-1", carrier="dhl")),
        lambda: rb.get(outcome.id),
        lambda: rb.wait(outcome.id),
        lambda: rb.cancel(outcome.id),
        lambda: rb.signal(outcome.id),
        rb.resume,
        rb.list,
    ]
    for ask in asks:
        with pytest.raises(UsageError):
            ask()
    assert desk.calls == 1


# --- remembering ---


@pytest.mark.requirement("HS-06", "TRUTH-keys-second-run")
def test_a_second_run_of_an_operation_gets_the_recorded_outcome_and_calls_nothing() -> None:
    desk = Desk()
    ship = ship_of(desk)
    with opened() as rb:
        first = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        second = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    assert (first.replayed, second.replayed) == (False, True)
    assert second.id == first.id
    assert desk.calls == 1


def test_without_an_operation_each_proposal_is_an_operation_of_its_own() -> None:
    desk = Desk()
    ship = ship_of(desk)
    with opened() as rb:
        ids = {rb.run(ship(order_id="o-1", carrier="dhl")).id for _ in range(3)}
    assert (len(ids), desk.calls) == (3, 3)


def test_actions_are_listed_newest_first_and_by_what_is_asked() -> None:
    desk = Desk()
    ship, refused = ship_of(desk), ship_of(desk, name="refused", require="requested.carrier == 'ups'")
    runtime = VirtualRuntime()
    with opened(runtime=runtime, run="run-1") as rb:
        first = rb.run(ship(order_id="o-1", carrier="dhl"))
        runtime.advance(1)
        second = rb.run(refused(order_id="o-2", carrier="dhl"))
        assert [each.id for each in rb.list()] == [second.id, first.id]
        assert [each.id for each in rb.list(limit=1)] == [second.id]
        assert [each.id for each in rb.list(state="failed")] == [second.id]
        assert [each.id for each in rb.list(contract="ship")] == [first.id]
        assert len(rb.list(run="run-1")) == 2
        assert rb.list(run="run-2") == []


def test_an_action_is_found_by_its_stamp_too() -> None:
    with opened() as rb:
        outcome = rb.run(ship_of(Desk())(order_id="o-1", carrier="dhl"))
        assert rb.get(outcome.stamp) == outcome
        with pytest.raises(NotFoundError):
            rb.get("nothing-of-that-name")


def test_a_run_inside_a_tool_is_an_action_of_its_own() -> None:
    inner_desk, outer_desk = Desk(), Desk()
    inner, told = ship_of(inner_desk, name="inner"), []
    with opened() as rb:

        def notify(_ctx: object) -> None:
            told.append(rb.run(inner(order_id="o-2", carrier="ups"), operation="inner"))

        outer_desk.during = notify
        outcome = rb.run(ship_of(outer_desk)(order_id="o-1", carrier="dhl"), operation="outer")
    assert [each.verified for each in (outcome, *told)] == [True, True]
    assert (inner_desk.calls, outer_desk.calls) == (1, 1)


def test_intent_and_step_are_on_record() -> None:
    desk = Desk()
    ship = ship_of(desk, ensure={"as meant": "authoritative.carrier == intended.carrier"}, late_window="0s")
    with opened(plan="plan-1", task_state="t-7", boundary="b-2", trace="trace-9") as rb:
        outcome: Outcome = rb.run(
            ship(order_id="o-1", carrier="dhl"), operation="op", intended={"carrier": "ups"}, step="step 3"
        )
        assert not outcome.verified
        assert outcome.trace == "trace-9"
        assert "trace-9" in outcome.for_model()
