"""Claims through both clients: planned upon, asked for, taken back, and what every outcome says of it afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from readback import ApproverKey, Claim, Planning, Readback, State
from readback.domain.action.claim import DEPENDS_ON_MAX, claim_bytes
from readback.errors import ClaimError, NotFoundError, OversizeError, UsageError
from tests.sdk.given import TENANT, Desk, opened, opened_async, ship_of
from tests.sdk.test_client_review import PASSPHRASE, disks, given, wipe_of

BY_EVE: dict[str, Any] = {"who": "human:eve", "reason": "Seen by hand."}


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.requirement("CLAIM-made", "CLAIM-contested")
def test_whether_a_claim_stands_is_asked_by_its_id_by_its_actions_or_by_its_stamp(desk: Desk) -> None:
    ship = ship_of(desk)
    with opened() as rb:
        told = rb.run(ship(order_id="o-1", carrier="dhl"))
        for named in (told.id, told.stamp, f"{told.id}:holds", f"{told.id}:happened"):
            assert rb.is_claim_standing(named) is True
        found = rb.claim(told.id)
        assert isinstance(found, Claim)
        assert (found.id, found.kind, found.standing) == (f"{told.id}:holds", "holds", True)
        assert [each.id for each in rb.claims(told.id)] == [each.id for each in told.claims]
        assert rb.claims() == ()
        desk.instead = lambda _ctx: (202, {"status": "queued"})
        pending = rb.run(ship(order_id="o-2", carrier="dhl"), wait=0)
        assert rb.is_claim_standing(pending.id) is False
        assert (rb.claim(pending.id).status, rb.claims(pending.id)) == ("none", ())


@pytest.mark.requirement("CLAIM-relied-on", "CLAIM-dependants", "CLAIM-person")
def test_what_was_planned_upon_a_retracted_claim_says_so_and_nothing_new_is_planned_upon_it(desk: Desk) -> None:
    ship = ship_of(desk)
    with opened(run="run-1") as rb:
        first = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        second = rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", upon=[first])
        assert (second.verified, second.fallen) == (True, ())
        gone = rb.retract(first.id, **BY_EVE)
        assert gone.said is not None
        assert (gone.status, gone.said.dependants, gone.said.who) == ("retracted", (second.id,), "human:eve")
        assert not rb.is_claim_standing(first.id)
        assert rb.is_claim_standing(f"{first.id}:happened")
        assert rb.get(second.id).fallen == (f"{first.id}:holds",)
        for upon in (first, [first.id], (rb.claim(first.id),), [second]):
            refused = rb.run(ship(order_id="o-3", carrier="dhl"), upon=upon)
            assert (refused.state, refused.code, refused.attempts) == (State.FAILED, "claim.not-standing", 0)
        assert desk.calls == 2
        assert [each.status for each in rb.claims()] == ["standing", "retracted"]
        belief = rb.belief()
        [fact] = belief.verified
        assert (fact.action_id, fact.rule, fact.fallen) == (
            *(second.id, Planning.REFRESH_AND_REPLAN),
            *((f"{first.id}:holds",),),
        )
        assert {each.action_id for each in belief.unresolved} == {first.id}
        assert all(each.rule is Planning.REFRESH_AND_REPLAN for each in belief.not_done)
        assert "What it was planned upon stands no more." in belief.for_model() + belief.message
        assert rb.reinstate(first.id, **BY_EVE).standing
        assert rb.get(first.id).standing
        assert rb.get(second.id).fallen == ()
        assert rb.run(ship(order_id="o-4", carrier="dhl"), upon=first).verified


@pytest.mark.requirement("CLAIM-person", "CLAIM-relied-on")
def test_the_async_client_says_the_same(desk: Desk) -> None:
    ship = ship_of(desk)

    async def go() -> None:
        async with opened_async() as rb:
            first = await rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
            second = await rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", upon=[first])
            assert (await rb.retract(first.id, **BY_EVE)).status == "retracted"
            assert (rb.is_claim_standing(first.id), rb.claim(first.id).standing) == (False, False)
            assert (await rb.get(second.id)).fallen == (f"{first.id}:holds",)
            refused = await rb.run(ship(order_id="o-3", carrier="dhl"), upon=[second])
            assert refused.code == "claim.not-standing"
            assert [each.kind for each in rb.claims()] == ["happened", "holds"]
            assert (await rb.reinstate(first.id, **BY_EVE)).standing

    asyncio.run(go())


@pytest.mark.requirement("CLAIM-relied-on")
def test_what_is_nothing_to_plan_upon_is_refused_before_a_proposal_is_used(desk: Desk) -> None:
    ship = ship_of(desk)
    with opened() as rb:
        saga = rb.saga([ship(order_id="o-1", carrier="dhl").as_step("ship")], operation="trip")
        proposal = ship(order_id="o-2", carrier="dhl")
        cases: list[tuple[Any, type[Exception]]] = [
            (["nobody"], NotFoundError),
            (["nobody:holds"], NotFoundError),
            ([f"{saga.id}:whenever"], ClaimError),
            ([saga], UsageError),
            ([7], UsageError),
            ([f"a-{number}" for number in range(DEPENDS_ON_MAX + 1)], OversizeError),
        ]
        for upon, error in cases:
            with pytest.raises(error):
                rb.run(proposal, upon=upon)
        first = saga.steps["ship"].outcome
        assert first is not None
        assert rb.run(proposal, upon=[first]).verified
        with pytest.raises(UsageError):
            rb.claims(limit=0)


@pytest.mark.requirement("CLAIM-person")
def test_about_a_critical_mutation_a_listed_approver_says_it_and_signs_exactly_that(tmp_path: Path) -> None:
    key = ApproverKey.create(tmp_path / "eve.key", PASSPHRASE)
    rows, by_eve = disks(), {"who": "eve", "reason": "Seen by hand."}
    with Readback.open(**given(key)) as rb:
        told = rb.run(wipe_of(rows, wrong=False)(disk="d-1"), operation="op-1")
        assert told.verified
        claim, version = f"{told.id}:happened", rb.claim(told.id).version
        others = claim_bytes(claim, TENANT, version, "reinstated", "eve", "Seen by hand.")
        for signature in (None, b"x" * 64, key.sign(others)):
            with pytest.raises(ClaimError) as refused:
                rb.retract(claim, **by_eve, signature=signature)
            assert refused.value.code == "claim.signature"
        with pytest.raises(ClaimError):
            rb.retract(claim, who="mallory", reason="Mine.", signature=key)
        signed = rb.retract(claim, **by_eve, signature=key, expect_version=version)
        assert signed.said is not None
        assert (signed.status, signed.said.signed_by) == ("retracted", "eve")


@pytest.mark.requirement("CLAIM-person")
def test_a_signature_is_for_one_version_and_does_not_serve_again_where_it_is_read_in_the_ledger(tmp_path: Path) -> None:
    key = ApproverKey.create(tmp_path / "eve.key", PASSPHRASE)
    by_eve: dict[str, Any] = {"who": "eve", "reason": "Seen by hand."}
    with Readback.open(**given(key)) as rb:
        told = rb.run(wipe_of(disks(), wrong=False)(disk="d-1"), operation="op-1")
        claim = f"{told.id}:happened"
        for_any = key.sign(claim_bytes(claim, TENANT, 0, "retracted", "eve", "Seen by hand."))
        for version in (None, 0, rb.claim(told.id).version):
            with pytest.raises(ClaimError) as refused:
                rb.retract(claim, **by_eve, signature=for_any, expect_version=version)
            assert refused.value.code == "claim.signature"
        assert rb.retract(claim, **by_eve, signature=key, expect_version=0).status == "retracted"
