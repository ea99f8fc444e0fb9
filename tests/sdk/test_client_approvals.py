"""Approvals through both clients, with real keys: asked, signed elsewhere, recorded, gone on with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from readback import ApprovalToken, Approver, ApproverKey, AsyncReadback, Readback
from readback.domain.state import State
from readback.errors import ApprovalError, NotFoundError
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import TENANT, Desk, opened, opened_async, ship_async_of, ship_of

PASSPHRASE = "correct horse battery"


@pytest.fixture(scope="module")
def alice(tmp_path_factory: pytest.TempPathFactory) -> ApproverKey:
    return ApproverKey.create(tmp_path_factory.mktemp("keys") / "alice.pem", PASSPHRASE)


@pytest.fixture
def people(alice: ApproverKey) -> list[Approver]:
    return [Approver("alice", alice.public_key, (TENANT,))]


def refused(record: Callable[[], object]) -> str:
    with pytest.raises(ApprovalError) as caught:
        record()
    return caught.value.code


def test_the_sync_client_waits_for_a_signature_and_goes_on(alice: ApproverKey, people: list[Approver]) -> None:
    desk = Desk()
    ship = ship_of(desk, approval="required")
    with opened(approvers=people) as rb:
        held = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op-1")
        assert (held.state, held.hold, held.settled) == (State.VALIDATED, "approval", False)
        request = rb.approval(held.id)
        token = alice.approve(request, "alice")
        assert refused(lambda: rb.approve(held.id, replace(token, signature=b"\0" * 64))) == "approval.forged"
        assert refused(lambda: rb.deny(held.id, token)) == "approval.mismatch"
        told = rb.approve(held.id, token.body())
        assert (told.state, told.approved_by) == (State.VALIDATED, ("alice",))
        assert desk.calls == 0
        assert rb.wait(held.id).verified
        assert refused(lambda: rb.approve(held.id, token)) == "approval.replayed"
        assert refused(lambda: rb.approval(held.id)) == "approval.replayed"
        assert desk.calls == 1


def test_the_async_client_does_the_same(alice: ApproverKey, people: list[Approver]) -> None:
    desk = Desk()
    ship = ship_async_of(desk, approval={"expires": "1h"})

    async def main() -> None:
        async with opened_async(approvers=people) as rb:
            held = await rb.run(ship(order_id="o-1", carrier="dhl"), operation="op-1")
            request = await rb.approval(held.id)
            told = await rb.approve(held.id, alice.approve(request, "alice").as_json())
            assert told.hold == "approval"
            assert desk.calls == 0
            assert (await rb.wait(held.id)).verified
            other = await rb.run(ship(order_id="o-2", carrier="dhl"), operation="op-2")
            ended = await rb.deny(other.id, alice.deny(await rb.approval(other.id), "alice"))
            assert (ended.state, ended.code) == (State.FAILED, "approval.denied")
            assert desk.calls == 1

    asyncio.run(main())


@pytest.mark.requirement("TRUTH-hold-signed")
def test_what_is_changed_in_a_proposal_is_not_called_in_place_of_what_was_approved(
    alice: ApproverKey, people: list[Approver]
) -> None:
    desk = Desk()
    ship = ship_of(desk, approval="required", redact=["requested.carrier"], ensure={"there": "authoritative != null"})
    with opened(approvers=people) as rb:
        held = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op-1")
        rb.approve(held.id, alice.approve(rb.approval(held.id), "alice"))
        again = ship(order_id="o-1", carrier="dhl")
        again.arguments.update(order_id="o-2", carrier="ups")
        assert rb.run(again, operation="op-1").id == held.id
    assert [(each, order["carrier"]) for each, order in desk.orders.items()] == [("o-1", "dhl")]


def test_resume_goes_on_with_what_was_approved(alice: ApproverKey, people: list[Approver]) -> None:
    desk, store = Desk(), MemoryStore()
    ship = ship_of(desk, approval="required")
    with opened(store, approvers=people) as rb:
        held = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op-1")
        rb.approve(held.id, alice.approve(rb.approval(held.id), "alice"))
        assert [outcome.verified for outcome in rb.resume()] == [True]
        assert rb.resume() == []


def test_without_a_list_nobody_can_approve(alice: ApproverKey) -> None:
    ship = ship_of(Desk(), approval="required")
    with opened() as rb:
        held = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op-1")
        token = alice.approve(rb.approval(held.id), "alice")
        assert refused(lambda: rb.approve(held.id, token)) == "approval.unknown-approver"


def test_another_tenants_action_can_be_neither_seen_nor_approved(alice: ApproverKey, people: list[Approver]) -> None:
    store = MemoryStore()
    ship = ship_of(Desk(), approval="required")
    with opened(store, approvers=people) as rb, opened(store, tenant="globex", approvers=people) as other:
        held = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op-1")
        token = alice.approve(rb.approval(held.id), "alice")
        for client in (other.approve, other.deny):
            with pytest.raises(NotFoundError):
                client(held.id, token)


def test_one_name_or_one_key_cannot_be_listed_twice(people: list[Approver]) -> None:
    twice: list[list[Approver]] = [[*people, replace(people[0], name="bob")], [*people, *people]]
    for approvers in twice:
        with pytest.raises(ApprovalError):
            opened(approvers=approvers)


def test_an_opened_key_signs_as_itself(tmp_path: Path) -> None:
    made = ApproverKey.create(tmp_path / "key.pem", PASSPHRASE)
    again = ApproverKey.open(str(tmp_path / "key.pem"), PASSPHRASE)
    assert again.public_key == made.public_key
    assert again.sign(b"x") == made.sign(b"x")


def typed(rb: Readback, arb: AsyncReadback, key: ApproverKey) -> ApprovalToken:
    """What mypy sees."""
    return key.approve(rb.approval("id"), "alice")
