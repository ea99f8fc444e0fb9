"""Submitting: an action is asked for, durably, and carried out by whoever knows its contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from readback import Readback, State, TenantLimits, bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.maintenance.restore import hold_in_flight
from readback.client.authoring.action import ActionDefinition
from readback.engine.people import review
from readback.errors import (
    ArgumentError,
    EvidenceLimitError,
    InFlightLimitError,
    MissingScopeError,
    NotFoundError,
    PayloadConflictError,
    ProposalError,
    ReviewError,
    SubmissionError,
    UnknownPrincipalError,
)
from readback.ports.storage.store import Append, AppendResult, LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import TENANT, Desk, opened, opened_async, ship_of

ARGUMENTS = {"order_id": "o-1", "carrier": "dhl"}


class Kept(MemoryStore):
    """Stays when a client of it closes, as a file does."""

    appends = 0

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.appends += len(batch)
        return super().append(batch)

    def close(self) -> None:
        """Others go on with it."""


@dataclass(slots=True)
class Place:
    """A ledger, callers on it who know no contract, and workers who do."""

    open_store: Callable[[], LedgerStore]
    desk: Desk
    runtime: VirtualRuntime

    def caller(self, **given: Any) -> Readback:
        return opened(self.open_store(), self.runtime.sibling("virtual/caller"), **given)

    def knows(self, *actions: ActionDefinition[Any], **given: Any) -> Readback:
        return opened(self.open_store(), self.runtime.sibling("virtual/worker"), actions=actions, **given)

    def sound(self) -> None:
        report = audit(self.open_store())
        assert not report.faults, report.faults


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kept = Kept()
    opens: list[LedgerStore] = []

    def open_store() -> LedgerStore:
        if request.param == "memory":
            return kept
        opens.append(bootstrap.store(f"sqlite:///{tmp_path}/ledger.db"))
        return opens[-1]

    yield Place(open_store, Desk(), VirtualRuntime())
    for store in opens:
        store.close()


@pytest.mark.requirement("SUBMIT-durable")
def test_what_is_submitted_by_name_alone_is_carried_out_by_who_knows_it(place: Place) -> None:
    with place.caller() as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one")
        told = rb.get(name)
        assert (told.state, told.attempts, told.verified) == (State.PROPOSED, 0, False)
        assert not told.may_repeat
        assert rb.wait(name, 0).state is State.PROPOSED
        assert place.desk.calls == 0
    place.sound()
    with place.knows(ship_of(place.desk)) as rb:
        [done] = rb.resume()
        assert done.id == name
        assert done.verified
    assert place.desk.calls == 1
    assert place.desk.order()["stamp"] == f"rb-{name}"
    with place.caller() as rb:
        assert rb.wait(name).verified
        assert rb.wait(name).target == "order/o-1"
    place.sound()


@pytest.mark.requirement("SUBMIT-durable")
def test_a_proposal_can_be_submitted_by_who_knows_its_contract(place: Place) -> None:
    ship = ship_of(place.desk)
    with place.knows(ship) as rb:
        name = rb.submit(ship(**ARGUMENTS), operation="one")
        told = rb.get(name)
        assert (told.state, told.target, place.desk.calls) == (State.PROPOSED, "order/o-1", 0)
    place.sound()
    with place.knows(ship) as rb:
        assert rb.wait(name).verified
    assert place.desk.calls == 1
    place.sound()


@pytest.mark.requirement("SUBMIT-durable")
def test_the_async_client_submits_and_waits_too(place: Place) -> None:
    async def go() -> None:
        async with opened_async(place.open_store(), place.runtime) as rb:
            name = await rb.submit("ship", ARGUMENTS, operation="one")
            assert (await rb.get(name)).state is State.PROPOSED
        async with opened_async(place.open_store(), place.runtime, actions=[ship_of(place.desk)]) as rb:
            assert (await rb.wait(name)).verified

    asyncio.run(go())
    place.sound()


@pytest.mark.requirement("SUBMIT-once")
def test_the_same_operation_is_one_action_however_it_is_asked_for(place: Place) -> None:
    ship = ship_of(place.desk)
    with place.caller() as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one")
        assert rb.submit("ship", dict(ARGUMENTS), operation="one") == name
    with place.knows(ship) as rb:
        assert rb.submit(ship(**ARGUMENTS), operation="one") == name
        told = rb.run(ship(**ARGUMENTS), operation="one")
        assert (told.id, told.verified, told.replayed) == (name, True, True)
        assert rb.submit("ship", ARGUMENTS, operation="one") == name
    with place.caller() as rb:
        assert rb.submit("ship", ARGUMENTS, operation="one") == name
    assert place.desk.calls == 1
    place.sound()


@pytest.mark.requirement("SUBMIT-once")
def test_what_was_run_is_joined_by_who_asks_for_it_by_name(place: Place) -> None:
    ship = ship_of(place.desk)
    with place.knows(ship) as rb:
        name = rb.run(ship(**ARGUMENTS), operation="one").id
    with place.caller() as rb:
        assert rb.submit("ship", ARGUMENTS, operation="one") == name
        with pytest.raises(PayloadConflictError):
            rb.submit("ship", {**ARGUMENTS, "carrier": "ups"}, operation="one")


@pytest.mark.requirement("SUBMIT-once")
def test_another_payload_under_the_same_operation_is_refused(place: Place) -> None:
    ship = ship_of(place.desk)
    other = {**ARGUMENTS, "carrier": "ups"}
    with place.caller() as rb:
        rb.submit("ship", ARGUMENTS, operation="one")
        with pytest.raises(PayloadConflictError):
            rb.submit("ship", other, operation="one")
    with place.knows(ship) as rb:
        with pytest.raises(PayloadConflictError):
            rb.submit(ship(**other), operation="one")
        with pytest.raises(PayloadConflictError):
            rb.run(ship(**other), operation="one")
    assert place.desk.calls == 0
    place.sound()


@pytest.mark.requirement("SUBMIT-checked")
@pytest.mark.parametrize(
    ("arguments", "terms", "code"),
    [
        ({"order_id": 7, "carrier": "dhl"}, {}, ArgumentError.code),
        ({"order_id": "o-1"}, {}, ArgumentError.code),
        ({**ARGUMENTS, "colour": "red"}, {}, ArgumentError.code),
        ({**ARGUMENTS, "order_id": "two\nlines"}, {}, ArgumentError.code),
        (ARGUMENTS, {"principals": ["agent:someone-else"]}, UnknownPrincipalError.code),
        (ARGUMENTS, {"scopes": ["orders:write"]}, MissingScopeError.code),
        (ARGUMENTS, {"redact": ["requested.carrier"]}, SubmissionError.code),
        (ARGUMENTS, {"require": {"never": "requested.carrier == 'ups'"}}, "precondition"),
    ],
)
def test_what_only_the_contract_can_refuse_is_refused_where_it_is_and_never_executed(
    place: Place, arguments: dict[str, Any], terms: dict[str, Any], code: str
) -> None:
    with place.caller() as rb:
        name = rb.submit("ship", arguments, operation="one")
    with place.knows(ship_of(place.desk, **terms)) as rb:
        [told] = rb.resume()
        assert (told.id, told.state, told.code, told.attempts) == (name, State.FAILED, code, 0)
        assert told.may_repeat
    assert place.desk.calls == 0
    with place.caller() as rb:
        assert rb.submit("ship", arguments, operation="one") != name  # nothing was done: it may be asked for anew
    place.sound()


@pytest.mark.requirement("SUBMIT-checked")
def test_what_can_be_refused_at_once_is(place: Place) -> None:
    with place.caller() as rb:
        with pytest.raises(ProposalError, match="operation"):
            rb.submit("ship", ARGUMENTS)
        with pytest.raises(ProposalError):
            rb.submit("", ARGUMENTS, operation="one")
        with pytest.raises(ArgumentError):
            rb.submit("ship", {"order_id": object()}, operation="one")
        with pytest.raises(NotFoundError):
            rb.submit("ship", ARGUMENTS, operation="one", upon="0" * 26)
    redacting, ship = ship_of(place.desk, redact=["requested.carrier"]), ship_of(place.desk, principals=["agent:ops"])
    with place.knows(redacting) as rb, pytest.raises(SubmissionError, match="redacts"):
        rb.submit(redacting(**ARGUMENTS), operation="one")
    with place.knows(ship, principal="agent:other") as rb, pytest.raises(UnknownPrincipalError):
        rb.submit("ship", {"order_id": "o-1", "carrier": "dhl"}, operation="one")
    with place.knows(ship_of(place.desk)) as rb, pytest.raises(ArgumentError):
        rb.submit("ship", {"order_id": "o-1"}, operation="one")
    with place.caller(break_glass="the house is on fire") as rb, pytest.raises(SubmissionError, match="glass"):
        rb.submit("ship", ARGUMENTS, operation="one")
    assert not [*place.open_store().projections()]


@pytest.mark.requirement("SUBMIT-checked")
def test_scopes_go_with_what_is_submitted(place: Place) -> None:
    with place.caller(scopes=["orders:write"]) as rb:
        rb.submit("ship", ARGUMENTS, operation="one")
    with place.knows(ship_of(place.desk, scopes=["orders:write"])) as rb:
        assert [told.verified for told in rb.resume()] == [True]


@pytest.mark.requirement("SUBMIT-checked")
def test_limits_hold_for_what_is_submitted(place: Place) -> None:
    with place.caller(limits=TenantLimits(in_flight=2)) as rb:
        for number in range(2):
            rb.submit("ship", {**ARGUMENTS, "order_id": f"o-{number}"}, operation=f"op-{number}")
        with pytest.raises(InFlightLimitError):
            rb.submit("ship", {**ARGUMENTS, "order_id": "o-3"}, operation="op-3")
    with place.caller(limits=TenantLimits(evidence_bytes=10)) as rb, pytest.raises(EvidenceLimitError):
        rb.submit("ship", {**ARGUMENTS, "order_id": "o-4"}, operation="op-4")


@pytest.mark.requirement("SUBMIT-checked")
def test_a_freeze_stops_what_was_submitted_before_it(place: Place) -> None:
    ship = ship_of(place.desk)
    with place.caller() as rb:
        name = rb.submit("ship", {**ARGUMENTS, "order_id": "o-3"}, operation="one")
    with place.knows(ship) as rb:
        place.desk.instead = lambda ctx: place.desk.order("o-9").update(stamp=ctx.stamp, status="shipped", version=1)
        assert rb.run(ship(order_id="o-3", carrier="ups"), operation="two").incident
        place.desk.instead = None
        assert rb.freezes()
        calls = place.desk.calls
        told = rb.wait(name)
        assert (told.code, told.attempts, place.desk.calls) == ("frozen", 0, calls)
        late = rb.submit(ship(order_id="o-3", carrier="dhl"), operation="three")
        assert rb.get(late).code == "frozen"
    place.sound()


@pytest.mark.requirement("SUBMIT-durable")
def test_what_was_submitted_can_be_cancelled_by_who_knows_no_contract(place: Place) -> None:
    with place.caller() as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one")
        told = rb.cancel(name)
        assert (told.state, told.code, told.may_repeat) == (State.FAILED, "cancelled", True)
    with place.knows(ship_of(place.desk)) as rb:
        assert rb.resume() == []
    assert place.desk.calls == 0
    place.sound()


def held_unknown(place: Place) -> str:
    """Submitted by name, and restored from a backup before anybody who knows its contract had looked at it."""
    with place.caller() as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one")
    hold_in_flight(place.open_store(), "human:ops", "The disk broke.", place.runtime.now_us())
    with place.caller() as rb:
        version = rb.review(name).version
        told = rb.resolve(name, "attest_not_done", expect_version=version, who="human:eve", reason="Looked it up.")
        assert told.resolution == "attested_not_done"
    return name


@pytest.mark.requirement("SUBMIT-once")
def test_what_was_cancelled_before_anybody_looked_at_it_is_asked_for_again_by_who_knows_its_contract(
    place: Place,
) -> None:
    with place.caller() as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one")
        assert rb.cancel(name).may_repeat
    ship = ship_of(place.desk)
    with place.knows(ship) as rb:
        with pytest.raises(PayloadConflictError):
            rb.run(ship(order_id="o-1", carrier="ups"), operation="one")
        assert rb.run(ship(**ARGUMENTS), operation="one").verified
    place.sound()


def test_what_was_cancelled_and_erased_can_be_compared_with_nothing(place: Place) -> None:
    with place.caller() as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one")
        rb.cancel(name)
        rb.erase(name, who="human:dpo", reason="Ana asked for it.")
    ship = ship_of(place.desk)
    with place.knows(ship) as rb, pytest.raises(PayloadConflictError):
        rb.run(ship(**ARGUMENTS), operation="one")
    assert place.desk.calls == 0


@pytest.mark.requirement("SUBMIT-once")
def test_what_nobody_who_knows_its_contract_has_looked_at_is_not_reopened_but_asked_for_again(place: Place) -> None:
    name = held_unknown(place)
    with place.caller() as rb:
        packet = rb.review(name)
        [reopen] = [one for one in packet.choices if one.decision == "reopen"]
        assert reopen.why_not == "No worker with its contract has admitted the action. Request the operation again."
        with pytest.raises(ReviewError) as refused:
            rb.resolve(name, "reopen", expect_version=packet.version, who="human:eve", reason="Go on.")
        assert refused.value.code == "review.not-offered"
    with place.knows(ship_of(place.desk)) as rb:
        again = rb.run(ship_of(place.desk)(**ARGUMENTS), operation="one")
        assert (again.verified, again.id == name, place.desk.calls) == (True, False, 1)
    place.sound()


def test_what_was_reopened_so_before_that_was_refused_goes_to_a_person_and_holds_up_nobody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = held_unknown(place)
    with place.caller() as rb, monkeypatch.context() as before:
        before.setattr(review, "refuse", lambda order, standing: None)
        rb.resolve(name, "reopen", expect_version=rb.review(name).version, who="human:eve", reason="Go on.")
        assert rb.get(name).state is State.VALIDATED
    with place.knows(ship_of(place.desk)) as rb:
        other = rb.submit("ship", {**ARGUMENTS, "order_id": "o-2"}, operation="two")
        assert {told.id: told.state for told in rb.resume()} == {
            name: State.REVIEW_REQUIRED,
            other: State.RECONCILED_SUCCESS,
        }
    assert place.desk.calls == 1
    place.sound()


@pytest.mark.requirement("SUBMIT-durable")
def test_what_it_was_planned_upon_and_its_budget_go_with_it(place: Place) -> None:
    ship = ship_of(place.desk, require={"affordable": "scope.budget.left > 3"})
    with place.knows(ship_of(place.desk)) as rb:
        first = rb.run(ship_of(place.desk)(order_id="o-7", carrier="dhl"), operation="seven")
    with place.caller(budget={"left": 5}) as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one", upon=first.id)
        fallen = rb.submit("ship", {**ARGUMENTS, "order_id": "o-2"}, operation="two", upon=first.id)
    with place.knows(ship) as rb:
        assert rb.wait(name).verified
        rb.retract(first.id, who="human:eve", reason="It is gone.")
        told = rb.wait(fallen)
        assert (told.state, told.attempts) == (State.FAILED, 0)
    with place.caller(budget={"left": 1}) as rb:
        poor = rb.submit("ship", {**ARGUMENTS, "order_id": "o-5"}, operation="five")
    with place.knows(ship) as rb:
        assert rb.wait(poor).code == "precondition"
    place.sound()


@pytest.mark.requirement("SUBMIT-durable")
def test_a_submission_is_one_append_and_running_inline_makes_none_more(place: Place) -> None:
    store = Kept()
    ship = ship_of(place.desk)
    with opened(store, place.runtime, actions=[ship]) as rb:
        assert rb.run(ship(**ARGUMENTS), operation="inline").verified
        assert store.appends == 2
        name = rb.submit("ship", {**ARGUMENTS, "order_id": "o-2"}, operation="known")
        assert store.appends == 3
        assert rb.wait(name).verified
        assert store.appends == 5
    with opened(store, place.runtime) as rb:
        name = rb.submit("ship", {**ARGUMENTS, "order_id": "o-3"}, operation="named")
        assert store.appends == 6
    with opened(store, place.runtime, actions=[ship]) as rb:
        assert rb.wait(name).verified
        assert store.appends == 8


@pytest.mark.requirement("SUBMIT-durable")
def test_another_tenant_neither_sees_nor_joins_it(place: Place) -> None:
    with place.caller() as rb:
        name = rb.submit("ship", ARGUMENTS, operation="one")
    with place.caller(tenant="globex") as rb:
        with pytest.raises(NotFoundError):
            rb.get(name)
        assert rb.submit("ship", ARGUMENTS, operation="one") != name
    assert place.open_store().due(place.runtime.now_us(), 10, TENANT) == [name]
