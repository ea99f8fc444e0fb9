"""A contract that is sound becomes a plan: its defaults, its data, its hash."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from readback.canon import parse_json
from readback.contracts.functions.callables import hand
from readback.contracts.functions.conditions import postcondition
from readback.contracts.options import OPTION_KEYS
from readback.domain.contract.contract import Noop
from readback.domain.contract.freezing import FreezeScope
from readback.domain.kind import Kind
from readback.domain.side_effect import DEPTHS, SideEffect
from tests.unit.contracts_given import CONTEXT, LEFT_OUT, compiled, reading, ship_order

S = 1_000_000


def test_the_printed_contract_becomes_a_plan_with_its_class_defaults() -> None:
    plan = compiled(within="10s")
    contract = plan.contract
    assert (contract.kind, contract.side_effect) == (Kind.SET, SideEffect.LOW_RISK_INTERNAL)
    assert (contract.name, contract.version) == ("ship_order", "1")
    assert contract.within_us == contract.deadline_us == 10 * S
    assert contract.polls_us == (0, 2 * S, 4 * S, 8 * S)
    assert contract.noop is Noop.ALLOW
    assert contract.late_window_us is None
    assert contract.quorum == 1
    assert contract.execution.timeout_us == 30 * S
    assert not contract.execution.honours_key
    assert [p.name for p in contract.ensure] == ["shipped", "carrier"]
    assert [(r.name, r.source, r.timeout_us) for r in contract.readers] == [("order_row", "orders-db", 10 * S)]
    assert plan.target({"requested": {"order_id": "o-17"}}) == "order/o-17"
    assert contract.needs_before


def test_its_hands_pass_the_arguments_by_name() -> None:
    plan = compiled()
    arguments = {"order_id": "o-17", "carrier": "dhl"}
    assert plan.hands.execute.call(CONTEXT, arguments) == {"ok": True}
    seen = plan.hands.readers[0].call(CONTEXT, arguments)
    assert seen.value["carrier"] == "dhl"  # type: ignore[attr-defined]
    assert plan.revive({"order_id": "o-17", "carrier": "dhl"}) == arguments


@pytest.mark.parametrize("side_effect", list(SideEffect))
def test_every_class_brings_its_own_times(side_effect: SideEffect) -> None:
    identity = dict.fromkeys(("target", "tenant", "actor", "account", "permission_scope"), "authoritative.id")
    identity["account"] = identity["permission_scope"] = "authoritative.account == requested.order_id"
    readers = tuple(reading("strong", "other_system", name) for name in ("a", "b"))
    kind = "read" if side_effect is SideEffect.READ_ONLY else "set"
    contract = compiled(readers, kind=kind, side_effect=side_effect, identity=identity).contract
    row = DEPTHS[side_effect]
    assert contract.within_us == row.default_within_us
    assert contract.execution.timeout_us == row.default_timeout_us
    assert contract.quorum == row.quorum_min


def test_every_key_finds_its_place() -> None:
    given: dict[str, Any] = {
        "name": "orders.ship",
        "version": "7",
        "require": {"asked": "requested.carrier != ''", "open": "before.status == 'open'"},
        "expected_version": "requested.order_id",
        "execute": {"timeout": "5s", "honours_key": True, "reversible": False},
        "quorum": 1,
        "fails_when": "authoritative.status == 'lost'",
        "may_change": ["status", "authoritative.carrier"],
        "noop": "refuse",
        "within": timedelta(seconds=20),
        "polls": ["0s", "1s"],
        "stable_for": "3s",
        "deadline": "40s",
        "late_window": "1h",
        "key_fields": ["order_id"],
        "principals": ["agent:*"],
        "redact": ["requested.carrier", "authoritative.card"],
        "tell": ["authoritative.status", "id"],
    }
    contract = compiled(**given).contract
    assert contract.name == "orders.ship"
    assert contract.version == "7"
    assert [p.name for p in contract.require] == ["asked", "open"]
    assert contract.expected_version == "requested.order_id"
    assert contract.execution.timeout_us == 5 * S
    assert contract.execution.honours_key
    assert not contract.execution.reversible
    assert [(p.name, p.source) for p in contract.fails_when] == [("fails_when", "authoritative.status == 'lost'")]
    assert contract.may_change == ("status", "carrier")
    assert contract.noop is Noop.REFUSE
    assert (contract.within_us, contract.deadline_us) == (20 * S, 40 * S)
    assert contract.polls_us == (0, S)
    assert contract.stable_for_us == 3 * S
    assert contract.late_window_us == 3600 * S
    assert contract.key_fields == ("order_id",)
    assert contract.principals == ("agent:*",)
    assert contract.redact == ("requested.carrier", "authoritative.card", "intended.carrier", "before.card")
    assert contract.tell == ("status", "id")
    assert set(given) <= set(OPTION_KEYS)


def test_none_is_the_same_as_a_key_that_is_not_there() -> None:
    bare: dict[str, Any] = {
        key: None for key in OPTION_KEYS if key not in ("name", "kind", "side_effect", "target", "identity", "ensure")
    }
    assert compiled(**bare).contract.hash == compiled().contract.hash


def test_effect_groups_are_named_and_grouped() -> None:
    contract = compiled(
        ensure={
            "record": {"shipped": "authoritative.status == 'shipped'"},
            "stock": {"less": "authoritative.stock < before.stock", "known": "authoritative.stock >= 0"},
        }
    ).contract
    assert contract.groups == ("record", "stock")
    assert [(p.name, p.group) for p in contract.ensure] == [
        ("record.shipped", "record"),
        ("stock.less", "stock"),
        ("stock.known", "stock"),
    ]


def test_a_clause_over_the_state_before_has_it_read() -> None:
    how: dict[str, Any] = {"kind": "adjust", "noop": LEFT_OUT, "side_effect": "low_risk_internal"}
    readers = (reading(attributes=True),)
    assert not compiled(readers, **how).contract.needs_before
    change = {"less": "authoritative.stock == before.stock - 1"}
    assert compiled(readers, ensure=change, **how).contract.needs_before


@pytest.mark.requirement("L11")
def test_what_is_frozen_is_the_target_and_what_else_is_named() -> None:
    assert compiled().contract.freeze == (FreezeScope.RESOURCE,)
    named = compiled(freeze=["tool", "principal"]).contract.freeze
    assert named == (FreezeScope.RESOURCE, FreezeScope.PRINCIPAL, FreezeScope.TOOL)
    assert compiled(freeze=["tenant"]).contract.hash != compiled().contract.hash


def test_a_sending_contract_proves_the_less_unless_it_says_more() -> None:
    send: dict[str, Any] = {"kind": "send", "side_effect": "low_risk_internal"}
    readers = (reading(attributes=True),)
    assert compiled(readers, **send).contract.proves == "submitted"
    assert compiled(readers, proves="delivered", **send).contract.proves == "delivered"
    assert compiled().contract.proves == ""


def test_the_hash_covers_what_decides_and_comes_out_the_same_each_time() -> None:
    first = compiled().contract
    assert first.hash == compiled().contract.hash == first.sealed().hash
    assert parse_json(first.body)["name"] == "ship_order"  # type: ignore[index,call-overload]
    changed = [
        compiled(version="2"),
        compiled(within="9s"),
        compiled(ensure={"shipped": "authoritative.status == 'sent'"}),
        compiled((reading("session"),)),
        compiled(tell=["status"]),
        compiled(find=hand(ship_order)),
    ]
    hashes = {plan.contract.hash for plan in changed}
    assert len(hashes) == len(changed)
    assert first.hash not in hashes


def shipped(authoritative: dict[str, object], requested: dict[str, object]) -> bool:
    return authoritative["carrier"] == requested["carrier"]


def test_a_callable_is_a_postcondition_with_its_name_and_a_version_of_its_body() -> None:
    plan = compiled(ensure={"carrier": shipped})
    (post,) = plan.contract.ensure
    assert post.check_name == f"{__name__}.shipped"
    assert post.check_version.startswith("1+")
    assert plan.ensure[0].parameters == ("authoritative", "requested")

    first = plan.contract.hash

    def other(authoritative: dict[str, object], requested: dict[str, object]) -> bool:
        return authoritative["carrier"] != requested["carrier"]

    other.__qualname__ = "shipped"
    changed = compiled(ensure={"carrier": other}).contract
    assert changed.ensure[0].check_name == post.check_name
    assert changed.hash != first


def test_a_callable_may_carry_a_version_of_its_own() -> None:
    @postcondition(version="2")
    def right(authoritative: dict[str, object]) -> bool:
        return bool(authoritative)

    named = postcondition(name="right", version="3")(lambda authoritative: bool(authoritative))
    ensured = compiled(ensure={"a": right, "b": named}).contract.ensure
    assert [(p.check_name.rpartition(".")[2], p.check_version) for p in ensured] == [("right", "2"), ("right", "3")]


def test_identity_tells_values_from_comparisons() -> None:
    identity = {
        "target": "authoritative.id",
        "tenant": "authoritative.tenant == scope.tenant",
        "actor": "authoritative.by.name",
        "region": "authoritative.region in ['eu']",
        "account": "string(authoritative.id) == requested.order_id",
        "stamp": "not_offered",
    }
    plan = compiled(identity=identity)
    found = {check.key: check.boolean for check in plan.identity}
    assert found == {"target": False, "tenant": True, "actor": False, "region": True, "account": True}
    assert dict(plan.contract.identity) == identity


def test_a_weaker_reader_beside_enough_strong_ones_is_welcome() -> None:
    readers = (reading("cached", "same_client", "cache"), reading())
    assert len(compiled(readers).contract.readers) == 2


def test_a_contract_that_nothing_can_verify_says_why() -> None:
    contract = compiled((), unverifiable="The carrier offers no way to ask.", identity={}).contract
    assert contract.unverifiable == "The carrier offers no way to ask."
    assert contract.readers == ()
    assert not contract.needs_before
