"""Reviews, freezes and incidents through both clients, with a real approver's key for what is critical."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from readback import (
    Approver,
    ApproverKey,
    AsyncReadback,
    Context,
    Message,
    Readback,
    Reading,
    State,
    Subscriber,
    action,
)
from readback.client.authoring.action import ActionDefinition
from readback.domain.idempotency import Resolution
from readback.domain.people.review import resolution_bytes
from readback.errors import NotFoundError, OversizeError, ReviewError, UsageError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import PRINCIPAL, TENANT

PASSPHRASE = "correct horse battery"


class Pager:
    def __init__(self) -> None:
        self.told: list[Message] = []

    def tell(self, message: Message) -> None:
        self.told.append(message)

    @property
    def subscribers(self) -> list[Subscriber]:
        return [Subscriber("pager", tell=self.tell, events=("incident.opened",), timeout_s=60)]


@pytest.fixture
def key(tmp_path: Path) -> ApproverKey:
    return ApproverKey.create(tmp_path / "eve.key", PASSPHRASE)


def wipe_of(rows: dict[str, Any], *, wrong: bool = True) -> ActionDefinition[Any]:
    """A critical mutation whose effect is not as it should be."""

    @action(
        name="wipe",
        kind="set",
        side_effect="critical_mutation",
        target="disk/{requested.disk}",
        identity={
            "target": "authoritative.id",
            "tenant": "authoritative.tenant",
            "actor": "authoritative.by",
            "permission_scope": "not_offered",
        },
        ensure={"wiped": "authoritative.wiped == true"},
        within="2s",
        polls=["0s"],
        late_window="0s",
        quorum=2,
    )
    def wipe(ctx: Context, disk: str) -> object:
        rows[disk].update(wiped="partly" if wrong else True, stamp=ctx.stamp, by=ctx.principal)
        return {"status": "ok"}

    for name in ("a", "b"):

        @wipe.read(name=name, source=name, consistency="strong", independence="other_system", attributes=True)
        def look(ctx: Context, disk: str) -> Reading:
            row = rows[disk]
            return Reading.of(dict(row), stamp=row.get("stamp"))

    return wipe


def disks() -> dict[str, Any]:
    return {"d-1": {"id": "d-1", "tenant": TENANT, "wiped": False, "by": "seed"}}


def given(key: ApproverKey, **more: Any) -> dict[str, Any]:
    return {
        "tenant": TENANT,
        "principal": PRINCIPAL,
        "store": MemoryStore(),
        "runtime": VirtualRuntime(),
        "break_glass": "The site is down.",
        "approvers": [Approver("eve", key.public_key, (TENANT,))],
        **more,
    }


@pytest.mark.requirement("TRUTH-hold-signed")
def test_about_a_critical_mutation_only_a_listed_approver_decides_who_signs_it(key: ApproverKey) -> None:
    made = wipe_of(disks())
    with Readback.open(**given(key, subscribers=Pager().subscribers)) as rb:
        told = rb.run(made(disk="d-1"), operation="op-1")
        assert (told.state, told.verified) == (State.REVIEW_REQUIRED, False)
        packet = rb.review(told.id)
        assert packet.as_json()["needs_signature"] is True

        def decide(who: str, signature: Any, version: int = packet.version) -> str:
            with pytest.raises(ReviewError) as refused:
                rb.resolve(told.id, "attest_done", expect_version=version, who=who, reason="Seen.", signature=signature)
            assert rb.review(told.id).version == packet.version
            return refused.value.code

        assert decide("eve", None) == "review.signature"
        assert decide("eve", b"x" * 64) == "review.signature"
        assert decide("mallory", key) == "review.signature"
        others = resolution_bytes(told.id, TENANT, packet.version, "abandon", "eve", "Seen.")
        assert decide("eve", key.sign(others)) == "review.signature"
        assert decide("ops", key) == "review.signature"
        ended = rb.resolve(
            told.id, "attest_done", expect_version=packet.version, who="eve", reason="Seen.", signature=key
        )
        assert (ended.resolution, ended.verified) == (Resolution.ATTESTED_DONE, False)
        assert rb.review(told.id).as_json()["decided"][0]["signed_by"] == "eve"  # type: ignore[index,call-overload]


@pytest.mark.requirement("TRUTH-hold-signed")
def test_what_a_critical_mutation_froze_only_a_listed_approver_lifts(key: ApproverKey) -> None:
    with Readback.open(**given(key)) as rb:
        made = wipe_of(disks())
        rb.run(made(disk="d-1"), operation="op-1")
        assert [freeze.subject for freeze in rb.freezes()] == ["resource:disk/d-1"]
        assert rb.run(made(disk="d-1"), operation="op-2").code == "frozen"
        for who, signature in (("eve", None), ("eve", b"x" * 64), ("human:bob", key)):
            with pytest.raises(ReviewError) as refused:
                rb.lift("resource:disk/d-1", who=who, reason="In order.", signature=signature)
            assert refused.value.code == "review.signature"
        rb.lift("resource:disk/d-1", who="eve", reason="In order.", signature=key)
        assert rb.freezes() == ()
        with pytest.raises(NotFoundError):
            rb.lift("resource:disk/d-1", who="eve", reason="In order.", signature=key)


@pytest.mark.requirement("TRUTH-hold-signed")
def test_a_signature_lifts_the_freeze_that_was_signed_for_and_no_later_one_of_the_same_action(
    key: ApproverKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, signed = wipe_of(disks()), list[bytes]()
    sign = ApproverKey.sign

    def heard(self: ApproverKey, message: bytes) -> bytes:
        signed.append(sign(self, message))
        return signed[-1]

    monkeypatch.setattr(ApproverKey, "sign", heard)
    runtime = VirtualRuntime()
    with Readback.open(**given(key, runtime=runtime)) as rb:
        told = rb.run(made(disk="d-1"), operation="op-1")
        words: dict[str, Any] = {"who": "eve", "reason": "In order."}
        rb.lift("resource:disk/d-1", **words, signature=key)
        runtime.advance(60)
        version = rb.review(told.id).version
        again = rb.resolve(told.id, "verify_again", expect_version=version, **words, signature=key)
        assert (again.verified, [freeze.subject for freeze in rb.freezes()]) == (False, ["resource:disk/d-1"])
        with pytest.raises(ReviewError) as refused:
            rb.lift("resource:disk/d-1", **words, signature=signed[0])
        assert refused.value.code == "review.signature"
        rb.lift("resource:disk/d-1", **words, signature=key)


def test_an_approver_of_another_tenant_or_contract_is_none_here(key: ApproverKey) -> None:
    for terms in (("eve", key.public_key, ("globex",)), ("eve", key.public_key, (TENANT,), ("pay_*",))):
        with Readback.open(**given(key, approvers=[Approver(*terms)])) as rb:
            told = rb.run(wipe_of(disks())(disk="d-1"), operation="op-1")
            version = rb.review(told.id).version
            with pytest.raises(ReviewError) as refused:
                rb.resolve(told.id, "abandon", expect_version=version, who="eve", reason="x", signature=key)
            assert refused.value.code == "review.signature"


@pytest.mark.parametrize(
    "how",
    [
        {"decision": "shrug"},
        {"expect_version": "3"},
        {"expect_version": True},
        {"who": ""},
        {"who": "eve\n"},
        {"reason": "  "},
        {"reason": "x" * 10_000},
    ],
)
def test_bad_input_is_refused_before_anything_is_done(key: ApproverKey, how: dict[str, Any]) -> None:
    with Readback.open(**given(key)) as rb:
        told = rb.run(wipe_of(disks())(disk="d-1"), operation="op-1")
        version = rb.review(told.id).version
        call: dict[str, Any] = {"decision": "abandon", "expect_version": version, "who": "eve", "reason": "x", **how}
        with pytest.raises((UsageError, OversizeError)) as refused:
            rb.resolve(told.id, signature=key, **call)
        assert getattr(refused.value, "code", "").startswith("input")
        assert rb.review(told.id).version == version


def test_the_async_client_does_the_same(key: ApproverKey) -> None:
    pager = Pager()

    async def main() -> None:
        async with AsyncReadback.open(**given(key, subscribers=pager.subscribers)) as rb:
            told = await rb.run(wipe_of(disks())(disk="d-1"), operation="op-1")
            packet = rb.review(told.id)
            ended = await rb.resolve(
                told.id, "abandon", expect_version=packet.version, who="eve", reason="x", signature=key
            )
            assert ended.state is State.ABANDONED
            assert [freeze.subject for freeze in rb.freezes()] == ["resource:disk/d-1"]
            await rb.lift("resource:disk/d-1", who="eve", reason="x", signature=key)
            assert not rb.freezes()
            assert not rb.incidents()

    asyncio.run(main())


def test_incidents_are_told_after_the_commit_by_both_clients_and_a_broken_sink_breaks_nothing(
    key: ApproverKey, tmp_path: Path
) -> None:
    @action(
        name="post",
        kind="create",
        side_effect="high_risk_external",
        target="post/{requested.ref}",
        identity={"target": "authoritative.ref", "tenant": "authoritative.tenant", "account": "not_offered"},
        ensure={"there": "authoritative != null"},
        within="1s",
        polls=["0s"],
    )
    def post(ctx: Context, ref: str) -> object:
        rows[ref] = {"ref": ref, "tenant": TENANT, "stamp": ctx.stamp}
        return {"ok": True}

    @post.read(source="posts", consistency="strong", independence="other_system", attributes=True)
    def row(ctx: Context, ref: str) -> Reading:
        return Reading.of(rows[ref], stamp=rows[ref]["stamp"]) if ref in rows else Reading.absent()

    @post.find
    def found(ctx: Context, ref: str) -> list[Reading]:
        return [Reading.of(one, stamp=one["stamp"]) for one in rows.values() if one["stamp"] == ctx.stamp] * 2

    def broken(message: Message) -> None:
        raise RuntimeError("nobody home")

    rows: dict[str, Any] = {}
    runtime, pager = VirtualRuntime(), Pager()
    terms = given(key, store=None, url=f"sqlite:///{tmp_path / 'readback.db'}", runtime=runtime)
    with Readback.open(**terms, subscribers=[Subscriber("pager", tell=broken)]) as rb:
        first = rb.run(post(ref="1"), operation="op-1")
        assert first.incident
        assert len(rb.incidents()) == 1
    runtime.advance(60)

    async def main() -> None:
        async with AsyncReadback.open(**terms, subscribers=pager.subscribers) as rb:
            second = await rb.run(post(ref="2"), operation="op-2")
            await rb.resume()
            assert second.incident

    asyncio.run(main())
    with Readback.open(**terms) as rb:
        told = [str(message.data["cause"]) for message in pager.told]
        assert sorted(told) == sorted(incident.cause for incident in rb.incidents())
        assert len(told) == 2
