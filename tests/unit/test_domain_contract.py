"""The contract as data: what its hash covers, and when a reading before execution is needed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from readback.canon import Json, envelope_bytes, sha256_hex
from readback.domain.context import Context
from readback.domain.contract import contract as contracts
from readback.domain.contract.contract import Contract, Execution, Noop, ReaderTerms, describe
from readback.domain.contract.freezing import FreezeScope
from readback.domain.kind import Kind
from readback.domain.predicate import Postcondition
from readback.domain.side_effect import Consistency, Independence, SideEffect

READER = ReaderTerms("orders_db", "orders", Consistency.STRONG, Independence.OTHER_CLIENT, 2_000_000)
CONTRACT = Contract(
    name="ship_order",
    version="3",
    kind=Kind.ADJUST,
    side_effect=SideEffect.HIGH_RISK_EXTERNAL,
    target="order/{order}",
    identity=(("tenant", "authoritative.tenant"), ("region", "not_offered")),
    require=(Postcondition("open", "before.open"),),
    expected_version="",
    execution=Execution(5_000_000, honours_key=True, reversible=False),
    readers=(READER,),
    quorum=1,
    ensure=(
        Postcondition("shipped", "authoritative.shipped", group="shipment"),
        Postcondition("billed", "authoritative.billed", group="invoice"),
        Postcondition("labelled", "authoritative.label", group="shipment"),
        Postcondition("known", "authoritative.known"),
    ),
    fails_when=(Postcondition("lost", "authoritative.lost"),),
    may_change=None,
    noop=Noop.REFUSE,
    within_us=10_000_000,
    polls_us=(0, 1_000_000),
    stable_for_us=1,
    deadline_us=2,
    late_window_us=None,
    key_fields=("order",),
    principals=("agent",),
    redact=("card",),
    tell=("carrier",),
    unverifiable="",
    proves="submitted",
    has_find=True,
    has_lookup=False,
    has_compensation=True,
    has_rollback=False,
    schema_hash="5c",
)
DESCRIBED: dict[str, Json] = {
    "name": "ship_order",
    "version": "3",
    "kind": "adjust",
    "side_effect": "high_risk_external",
    "target": "order/{order}",
    "identity": {"tenant": "authoritative.tenant", "region": "not_offered"},
    "require": [["open", "before.open", ""]],
    "expected_version": "",
    "execute": {"timeout_us": 5_000_000, "honours_key": True, "reversible": False},
    "readers": [
        {
            "name": "orders_db",
            "source": "orders",
            "consistency": "strong",
            "independence": "other_client",
            "timeout_us": 2_000_000,
        }
    ],
    "quorum": 1,
    "ensure": [
        ["shipped", "authoritative.shipped", "shipment"],
        ["billed", "authoritative.billed", "invoice"],
        ["labelled", "authoritative.label", "shipment"],
        ["known", "authoritative.known", ""],
    ],
    "fails_when": [["lost", "authoritative.lost", ""]],
    "may_change": None,
    "noop": "refuse",
    "within_us": 10_000_000,
    "polls_us": [0, 1_000_000],
    "stable_for_us": 1,
    "deadline_us": 2,
    "late_window_us": None,
    "key_fields": ["order"],
    "key_kept_us": 30 * 24 * 3600 * 1_000_000,
    "principals": ["agent"],
    "redact": ["card"],
    "tell": ["carrier"],
    "unverifiable": "",
    "proves": "submitted",
    "find": True,
    "lookup": False,
    "compensate": True,
    "rollback": False,
    "freeze": ["resource"],
    "arguments": "5c",
}


def test_the_hash_covers_everything_that_is_declared() -> None:
    assert describe(CONTRACT) == DESCRIBED
    assert describe(replace(CONTRACT, may_change=("state", "label")))["may_change"] == ["state", "label"]
    body = envelope_bytes(DESCRIBED)
    assert CONTRACT.sealed().hash == sha256_hex(body)
    assert (CONTRACT.hash, CONTRACT.body) == ("", b"")
    assert CONTRACT.sealed() == replace(CONTRACT, hash=sha256_hex(body), body=body)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("has_find", False),
        ("has_lookup", True),
        ("has_compensation", False),
        ("has_rollback", True),
        ("freeze", (FreezeScope.RESOURCE, FreezeScope.TENANT)),
        ("late_window_us", 5),
        ("execution", Execution(5_000_000)),
        ("readers", ()),
    ],
)
def test_another_declaration_is_another_contract(field: str, value: Any) -> None:
    assert replace(CONTRACT, **{field: value}).sealed().hash != CONTRACT.sealed().hash


def test_a_tool_is_not_taken_to_honour_keys_and_is_taken_to_be_reversible() -> None:
    assert Execution(1) == Execution(1, honours_key=False, reversible=True)


def test_groups_stand_in_the_order_of_their_first_postcondition() -> None:
    assert CONTRACT.groups == ("shipment", "invoice")
    assert replace(CONTRACT, ensure=(Postcondition("known", "true"),)).groups == ()


def test_what_was_there_before_is_read_where_it_decides() -> None:
    for kind, klass in product(Kind, SideEffect):
        one = replace(CONTRACT, kind=kind, side_effect=klass)
        compares = kind in (Kind.SET, Kind.DELETE)
        harmless = klass in (SideEffect.READ_ONLY, SideEffect.EPHEMERAL_WRITE)
        assert one.needs_before is (compares and not harmless), (kind, klass)
        assert replace(one, may_change=()).needs_before is True
        assert replace(one, expected_version="before.version").needs_before is True
        assert replace(one, names_before=True).needs_before is True
        assert replace(one, names_before=True, may_change=(), expected_version="v", readers=()).needs_before is False
    assert CONTRACT.names_before is False


def test_limits_are_what_the_reference_says() -> None:
    assert contracts.SECOND_US == 1_000_000
    assert (contracts.ATTEMPTS_MAX, contracts.POLLS_MAX, contracts.LATE_POLLS_MAX) == (3, 64, 24)
    assert contracts.NOT_OFFERED == "not_offered"
    assert (
        *("target", "tenant", "actor", "region", "account", "permission_scope"),
        *("stamp", "version"),
    ) == contracts.IDENTITY_KEYS


def test_a_function_is_told_of_the_first_attempt_unless_it_is_another() -> None:
    context = Context("a", "t", "p", "o", "x", "k", "s")
    assert (context.attempt, context.strong, context.observed, context.before) == (1, False, None, None)
    assert (context.run, context.trace, context.reverses) == ("", "", "")
