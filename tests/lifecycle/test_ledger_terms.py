"""The terms of an action on record: class, keys and contract; and that nothing unobserved stands beside them.

Everything here is read back from the store, never from the engine that wrote it.
"""

from __future__ import annotations

from typing import Any

import pytest

from readback import Readback
from readback.canon import Json, parse_json
from readback.domain.action.action import Action
from readback.domain.events import EventKind
from readback.domain.idempotency import KeyStatus, key_hash, request_hash
from readback.domain.kind import Kind
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.domain.side_effect import DEPTHS, DEPTHS_VERSION, SideEffect
from readback.domain.state import State, status
from readback.engine import coordinator
from readback.errors import ContractError, NotFoundError, StoreCorruptError
from readback.ports.storage.store import KeyRecord
from readback.testing.driver_virtual import CallHangs
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.house import HIGH, MEDIUM, STAMPED, TENANT, House

S = State
MAKE: dict[str, Any] = {"kind": "create", "compensate": {}, **STAMPED}


def data(house: House, action_id: str, kind: EventKind) -> dict[str, Json]:
    """What the last entry of that kind says."""
    return [event.data for event in house.events(action_id) if event.kind is kind][-1]


def kept(house: House, digest: str) -> Any:
    """The evidence that a pointer leads to."""
    found = house.store.evidence(TENANT, house.store.keeper(TENANT, digest) or "", digest)
    assert found is not None
    return parse_json(found.body)


# --- tenant and contract ------------------------------------------------------------------------------------------


@pytest.mark.requirement("LEDGER-tenant-id")
def test_no_other_tenant_reads_the_action_its_evidence_or_its_key(house: House) -> None:
    told = house.run(house.action())
    action = house.folded(told.id)
    with pytest.raises(NotFoundError):
        house.driver.drive(coordinator.current_outcome(told.id, "globex"))
    with pytest.raises(NotFoundError):
        house.driver.drive(coordinator.wait_until_settled(house.engine, told.id, "globex", house.plans.get))
    for digest in (action.request_ref, action.reading_ref, action.judgement.ref):
        assert house.store.evidence(TENANT, told.id, digest) is not None
        assert house.store.evidence("globex", told.id, digest) is None
    assert house.store.key("globex", action.key_hash) is None
    assert house.store.by_stamp("globex", action.stamp) is None


@pytest.mark.requirement("LEDGER-tool-contract")
def test_a_running_action_keeps_its_own_contract_or_goes_to_a_person(house: House) -> None:
    house.shop.tool = lambda ctx, args: (202, {})
    pending = house.run(house.action(version="7"), wait_s=1)
    assert pending.state is S.PENDING
    house.action(version="8", ensure={"other": "authoritative.status == 'open'"})
    looks = len(house.shop.looks)
    house.work(60)
    told = house.get(pending.id)
    assert (told.state, told.code, told.contract_version) == (S.REVIEW_REQUIRED, "contract.changed", "7")
    assert len(house.shop.looks) == looks  # nothing was judged by terms that it did not begin with


@pytest.mark.requirement("LEDGER-trace", "LEDGER-policy-context")
@pytest.mark.parametrize("parent_span", ["", "00f067aa0ba902b7"])
def test_trace_span_and_policies_are_recorded_as_the_client_was_given_them(house: House, parent_span: str) -> None:
    made = house.action()
    with Readback.open(
        store=house.store, runtime=house.runtime, tenant=TENANT, principal="agent:ops",
        boundary="bounds-3", trace="4bf92f3577b34da6", parent_span=parent_span,
    ) as rb:  # fmt: skip
        told = rb.run(made(item="o-1", status="shipped"), operation="op-1")
    house.store = house.store.reopened()
    proposed = data(house, told.id, EventKind.PROPOSED)
    assert isinstance(proposed["context"], dict)
    named = [proposed["context"][name] for name in ("boundary", "trace", "parent_span")]
    assert named == ["bounds-3", "4bf92f3577b34da6", parent_span]
    assert proposed["verification_table"] == DEPTHS_VERSION
    assert proposed["recovery_table"] == DEFAULT_TABLE.version


BY_CLASS: dict[SideEffect, dict[str, Any]] = {
    SideEffect.READ_ONLY: {"kind": "read", "side_effect": "read_only"},
    SideEffect.EPHEMERAL_WRITE: {"side_effect": "ephemeral_write"},
    SideEffect.LOW_RISK_INTERNAL: {},
    SideEffect.MEDIUM_RISK_WRITE: dict(MEDIUM),
    SideEffect.HIGH_RISK_EXTERNAL: {**HIGH, "readers": (("strong", "other_system", "orders"),)},
    SideEffect.CRITICAL_MUTATION: {
        **MEDIUM,
        "side_effect": "critical_mutation",
        "identity": {**dict(MEDIUM["identity"]), "permission_scope": "not_offered"},
        "readers": (("strong", "other_system", "orders"), ("strong", "other_system", "audit")),
        "quorum": 2,
    },
}


@pytest.mark.requirement("LEDGER-side-effect-class", "CLASS-RULE-recorded")
@pytest.mark.parametrize("side_effect", SideEffect)
def test_class_and_verification_are_recorded_with_the_action(side_effect: SideEffect) -> None:
    house = House()
    made = house.action(**BY_CLASS[side_effect])
    told = house.run(made)
    proposed = data(house, told.id, EventKind.PROPOSED)
    stored = house.store.projection(told.id)
    assert stored is not None
    assert proposed["side_effect"] == stored.projection.side_effect == side_effect.value
    chosen = kept(house, house.folded(told.id).contract_ref)
    assert chosen["side_effect"] == side_effect.value
    assert [r["source"] for r in chosen["readers"]] == [r.source for r in made.plan.contract.readers]
    assert (chosen["polls_us"], chosen["within_us"]) == ([0, 2_000_000, 4_000_000], 10_000_000)
    assert chosen["quorum"] == made.plan.contract.quorum


@pytest.mark.requirement("LEDGER-side-effect-class")
def test_there_is_no_seventh_class(house: House) -> None:
    assert len(SideEffect) == len(DEPTHS) == 6
    with pytest.raises(ContractError):
        house.action(side_effect="harmless")


# --- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("LEDGER-idempotency")
@pytest.mark.parametrize("required", [False, True])
def test_the_record_says_whether_a_key_is_required_and_holds_both_hashes(house: House, required: bool) -> None:
    terms: dict[str, Any] = dict(MEDIUM) if required else {}
    told = house.run(house.action(**terms), "op-9")
    proposed = data(house, told.id, EventKind.PROPOSED)
    hashed = key_hash(TENANT, "ship", "op-9")
    asked = request_hash(Kind.SET, "item/o-1", {"item": "o-1", "status": "shipped"})
    assert (proposed["key_required"], proposed["key_hash"], proposed["request_hash"]) == (required, hashed, asked)
    record = house.store.key(TENANT, hashed)
    assert record is not None
    assert (record.action_id, record.request_hash) == (told.id, asked)


def _key(house: House, operation: str = "op-1") -> str | None:
    record = house.store.key(TENANT, key_hash(TENANT, "ship", operation))
    return record.status if record is not None else None


@pytest.mark.requirement("LEDGER-idempotency-status")
def test_the_status_of_the_key_follows_the_action(house: House) -> None:
    during: list[str | None] = []

    def tool(ctx: Any, args: Any) -> object:
        during.append(_key(house))
        return house.shop.ship(ctx, args)

    house.shop.tool = tool
    assert _key(house) is None
    house.run(house.action())
    assert (during, _key(house)) == (["PENDING"], "COMPLETED")
    house.run(house.action(require={"never": "false"}), "op-2")
    assert _key(house, "op-2") is None  # nothing was called, and nothing is held


@pytest.mark.requirement("LEDGER-idempotency-status")
def test_a_failure_and_a_reversal_have_their_own_status(house: House) -> None:
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    assert house.run(house.action(**MAKE)).state is S.COMPENSATED
    assert _key(house) == "COMPENSATED"
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    assert house.run(house.action(late_window="5s", find=True, **MAKE), "op-2").state is S.FAILED
    assert _key(house, "op-2") == "FAILED_RETRYABLE"


@pytest.mark.requirement("LEDGER-idempotency-status")
@pytest.mark.parametrize("word", ["DONE", "completed", ""])
def test_a_status_of_no_such_name_is_refused_and_calls_nothing(word: str) -> None:
    class Odd(MemoryStore):
        def key(self, tenant: str, key_hash: str) -> KeyRecord | None:
            return KeyRecord(tenant, key_hash, "r", "a", word, 1, 0)

    house = House(store=Odd())
    with pytest.raises(StoreCorruptError):
        house.run(house.action())
    assert house.shop.calls == []
    assert {each.value for each in KeyStatus} == {
        "PENDING", "COMPLETED", "FAILED_RETRYABLE", "FAILED_FINAL", "COMPENSATED", "EXPIRED",
    }  # fmt: skip


# --- nothing that was not observed --------------------------------------------------------------------------------


@pytest.mark.requirement("L05")
def test_a_record_of_nothing_says_nothing() -> None:
    fresh = Action("a", TENANT)
    assert (fresh.observation, fresh.reading, fresh.before, fresh.attempts) == (None, None, None, 0)
    assert (fresh.judgement.verdict, fresh.judgement.effect_shown) == ("not_checked", False)
    row = status(fresh.state, attempted=False)
    assert (row.execution, row.verification, row.reconciliation) == ("NOT_EXECUTED", "NOT_STARTED", "NOT_STARTED")


@pytest.mark.requirement("L05")
def test_what_was_not_read_does_not_stand_in_the_record(house: House) -> None:
    """The reader fails whenever it is asked about the effect: no value and no success is written down."""
    show = house.shop.show

    def eyes(ctx: Any, args: Any) -> object:
        if house.shop.calls:
            raise ConnectionError("down")
        return show(args)

    house.shop.eyes = eyes
    told = house.run(house.action())
    checks = [e for e in house.events(told.id) if e.kind is EventKind.READ and e.data["role"] == "check"]
    assert checks
    for event in checks:
        assert event.refs == {}
        assert event.data["presence"] == "unavailable"
        assert (event.data["source_version"], event.data["stamp"], event.data["author"]) == (None, None, None)
    assert not told.verified
    assert told.authoritative is None
    assert data(house, told.id, EventKind.JUDGED)["verdict"] == "undetermined"


@pytest.mark.requirement("L05")
def test_a_call_that_gave_no_answer_leaves_no_answer_in_the_record(house: House) -> None:
    def tool(ctx: Any, args: Any) -> object:
        raise CallHangs

    house.shop.tool = tool
    told = house.run(house.action())
    assert house.folded(told.id).observation_ref == ""
    assert data(house, told.id, EventKind.OBSERVED)["status"] == "timeout"
    assert status(house.folded(told.id).state).execution == "UNKNOWN"
