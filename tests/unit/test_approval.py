"""What an approval is bound to: any other byte, key, time or list of approvers refuses, and with its own code."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.canon import parse_json, sha256_hex
from readback.domain.contract.approval import (
    BOUND_MAX_BYTES,
    NO_APPROVERS,
    ApprovalCode,
    ApprovalToken,
    Approved,
    Approver,
    Bound,
    Decision,
    Policy,
    Refused,
    approvers_of,
    check_approvals,
    check_key,
    is_principal,
    key_id,
    token_of,
)
from readback.errors import ApprovalError, OversizeError, SettingsError
from readback.testing.signer_memory import MemorySigner, verify_memory
from tests.unit.approvals_given import ALICE, BOB, NOW, bound_for, signed

pytestmark = pytest.mark.slow

EVE = MemorySigner("eve")
POLICY = Policy.of(
    [Approver("alice", ALICE.public_key, ("acme",)), Approver("bob", BOB.public_key, ("acme", "globex"), ("pay_*",))]
)
BOUND = bound_for(POLICY, {"amount": 7, "to": "acme-bank", "memo": {"text": "x"}}, people=1)


def sign(
    signer: MemorySigner = ALICE,
    name: str = "alice",
    bound: Bound = BOUND,
    decision: Decision = Decision.APPROVE,
    **changes: Any,
) -> ApprovalToken:
    return signed(bound, signer, name, decision, **changes)


def check(
    *tokens: ApprovalToken, bound: Bound = BOUND, policy: Policy = POLICY, now_us: int = NOW
) -> Approved | Refused:
    return check_approvals(bound, policy, tokens, now_us, verify_memory)


def code(said: Approved | Refused) -> str:
    return said.code.value if isinstance(said, Refused) else ""


def test_one_listed_approver_lets_exactly_this_go_ahead() -> None:
    assert check(sign()) == Approved("ap-1", ("alice",))


def test_without_a_token_it_waits() -> None:
    assert check() == Refused(ApprovalCode.WAITING)


_OTHER: dict[str, Any] = {
    "requested": {"amount": "7", "to": "acme-bank", "memo": {"text": "x"}},
    "intended": {},
    "people": 2,
    "expires_us": 2_000_001,
}


@pytest.mark.requirement("L18", "TRUTH-hold-signed")
@pytest.mark.parametrize("name", [f.name for f in fields(Bound)])
def test_l18_every_field_is_bound_and_another_value_is_refused(name: str) -> None:
    other = replace(BOUND, **{name: _OTHER.get(name, f"{getattr(BOUND, name)}x")})
    assert other.payload() != BOUND.payload()
    assert isinstance(check(sign(), bound=other), Refused)


@pytest.mark.requirement("L18")
@pytest.mark.parametrize(
    "requested",
    [{"amount": "7"}, {"amount": 7.5}, {"amount": True}, {"amount": None}, {}, {"amount": 7, "more": None}, [7], "7"],
)
def test_l18_seven_and_the_text_seven_are_two_requests(requested: Any) -> None:
    asked = replace(BOUND, requested={"amount": 7})
    token = sign(bound=asked)
    assert isinstance(check(token, bound=asked), Approved)
    assert code(check(token, bound=replace(asked, requested=requested))) == "approval.mismatch"


@pytest.mark.requirement("L18")
@given(place=st.integers(0, len(BOUND.bytes()) - 1), flip=st.integers(1, 255))
def test_l18_any_changed_byte_is_another_payload(place: int, flip: int) -> None:
    written = BOUND.bytes()
    changed = written[:place] + bytes([written[place] ^ flip]) + written[place + 1 :]
    assert code(check(sign(payload=sha256_hex(changed)))) == "approval.mismatch"


@given(st.binary(max_size=80))
def test_any_other_signature_is_forged(signature: bytes) -> None:
    token = replace(sign(), signature=signature)
    assert code(check(token)) == "approval.forged" or token == sign()


@pytest.mark.requirement("L18", "TRUTH-hold-signed")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"approval": "ap-2"}, "approval.replayed"),
        ({"nonce": "n-2"}, "approval.replayed"),
        ({"payload": "e" * 64}, "approval.mismatch"),
        ({"expires_us": NOW}, "approval.expired"),
        ({"expires_us": 0}, "approval.expired"),
        ({"approver": "carol"}, "approval.unknown-approver"),
        ({"approver": "bob"}, "approval.unknown-approver"),
        ({"key_id": key_id(EVE.public_key)}, "approval.unknown-approver"),
        ({"decision": Decision.DENY}, "approval.denied"),
    ],
)
def test_a_token_of_another_thing_is_refused_by_name_though_it_is_signed(changes: dict[str, Any], why: str) -> None:
    assert code(check(sign(**changes))) == why


@pytest.mark.requirement("L18")
@pytest.mark.parametrize("name", ["approval", "nonce", "payload", "approver", "key_id", "signed_at_us", "expires_us"])
def test_a_token_that_was_edited_after_it_was_signed_is_refused(name: str) -> None:
    signed = sign()
    old = getattr(signed, name)
    change: dict[str, Any] = {name: old + 1 if isinstance(old, int) else old + "x"}
    edited = replace(signed, **change)
    assert code(check(edited)) in ("approval.forged", "approval.unknown-approver")


def test_an_unlisted_key_signs_for_nobody() -> None:
    assert code(check(sign(EVE))) == "approval.unknown-approver"
    assert code(check(sign(EVE, key_id=key_id(ALICE.public_key)))) == "approval.forged"
    assert code(check(sign(), policy=NO_APPROVERS, bound=replace(BOUND, policy=NO_APPROVERS.version))) in (
        "approval.unknown-approver",
        "approval.mismatch",
    )


def test_an_approver_counts_only_for_the_tenants_and_contracts_that_are_listed() -> None:
    for bound in (replace(BOUND, tenant="globex"), replace(BOUND, tenant="Acme"), replace(BOUND, tenant="")):
        assert code(check(sign(bound=bound), bound=bound)) == "approval.unknown-approver"
    wiped = replace(BOUND, contract="wipe")
    assert code(check(sign(BOB, "bob", wiped), bound=wiped)) == "approval.unknown-approver"
    assert isinstance(check(sign(bound=wiped), bound=wiped), Approved)
    paid = replace(BOUND, tenant="globex")
    assert isinstance(check(sign(BOB, "bob", paid), bound=paid), Approved)


@given(
    before=st.integers(-10, 10).map(lambda n: n * 100_000),
    now=st.integers(0, 3_000_000),
)
def test_time_alone_decides_at_the_moment_it_runs_out(before: int, now: int) -> None:
    token = sign(expires_us=BOUND.expires_us + before)
    until = min(BOUND.expires_us, BOUND.expires_us + before)
    assert isinstance(check(token, now_us=now), Approved) is (now < until)
    if now >= until:
        assert code(check(token, now_us=now)) == "approval.expired"


def test_a_token_cannot_outlive_its_request() -> None:
    assert code(check(sign(expires_us=9_000_000), now_us=2_000_000)) == "approval.expired"


@pytest.mark.requirement("REC-20")
@pytest.mark.parametrize(
    "policy",
    [
        NO_APPROVERS,
        Policy.of([POLICY.approvers[0]]),
        Policy.of([*POLICY.approvers, Approver("carol", EVE.public_key, ("acme",))]),
        Policy.of([replace(POLICY.approvers[0], tenants=("*",)), POLICY.approvers[1]]),
        Policy.of([replace(POLICY.approvers[0], contracts=("pay_invoice",)), POLICY.approvers[1]]),
        Policy.of([replace(POLICY.approvers[0], key=EVE.public_key), POLICY.approvers[1]]),
    ],
)
def test_another_list_of_approvers_is_another_policy_and_what_the_old_one_signed_does_not_count(policy: Policy) -> None:
    assert policy.version != POLICY.version
    assert code(check(sign(), policy=policy)) == "approval.policy-changed"


def test_the_order_in_which_approvers_are_listed_changes_no_policy() -> None:
    assert Policy.of([*reversed(POLICY.approvers)]).version == POLICY.version


@pytest.mark.parametrize("principal", ["alice", "human:alice", "Human:ALICE", "a:human:alice", "\uff41\uff4cice"])
def test_nobody_approves_what_he_asked_for(principal: str) -> None:
    bound = replace(BOUND, principal=principal)
    assert code(check(sign(bound=bound), bound=bound)) == "approval.self"


def test_a_name_that_only_ends_alike_is_another_person() -> None:
    assert not is_principal("alice", "agent:malice")
    assert not is_principal("alice", "alice:agent")


# --- two people -------------------------------------------------------------------------------------------------

TWO = replace(BOUND, people=2)


def test_two_people_are_two_names_with_two_keys() -> None:
    alice, bob = sign(bound=TWO), sign(BOB, "bob", TWO)
    assert code(check(alice, bound=TWO)) == "approval.required"
    assert check(alice, bob, bound=TWO) == Approved("ap-1", ("alice", "bob"))
    assert code(check(alice, alice, bound=TWO)) == "approval.replayed"
    assert code(check(alice, sign(bound=TWO, signed_at_us=NOW + 1), bound=TWO)) == "approval.replayed"


def test_one_who_denies_outweighs_the_others() -> None:
    said = check(sign(bound=TWO), sign(BOB, "bob", TWO, Decision.DENY), bound=TWO)
    assert said == Refused(ApprovalCode.DENIED, "bob")


def test_one_token_that_is_not_in_order_refuses_them_all() -> None:
    three = Policy.of([*POLICY.approvers, Approver("carol", EVE.public_key, ("acme",))])
    bound = replace(TWO, policy=three.version)
    good = [sign(bound=bound), sign(BOB, "bob", bound)]
    assert isinstance(check(*good, bound=bound, policy=three), Approved)
    bad = replace(sign(EVE, "carol", bound), signature=b"\0" * 64)
    for order in ([bad, *good], [*good, bad], [good[0], bad, good[1]]):
        assert check(*order, bound=bound, policy=three) == Refused(ApprovalCode.FORGED, "carol")


@pytest.mark.parametrize(
    "second",
    [Approver("Alice", EVE.public_key, ("acme",)), Approver("carol", ALICE.public_key, ("acme",))],
)
def test_one_person_cannot_be_listed_as_two(second: Approver) -> None:
    with pytest.raises(ApprovalError):
        Policy.of([POLICY.approvers[0], second])


# --- what comes from outside ------------------------------------------------------------------------------------


def test_a_token_comes_back_as_it_was_written() -> None:
    token = sign()
    assert token_of(token.body()) == token_of(token.as_json()) == token_of(token.body().decode()) == token


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        "{}",
        b"x" * 5_000,
        {**sign().as_json(), "more": 1},
        {k: v for k, v in sign().as_json().items() if k != "nonce"},
        {**sign().as_json(), "format": "other/1"},
        {**sign().as_json(), "decision": "perhaps"},
        {**sign().as_json(), "expires_us": "9"},
        {**sign().as_json(), "expires_us": True},
        {**sign().as_json(), "expires_us": 2**63},
        {**sign().as_json(), "signature": "not base64"},
        {**sign().as_json(), "signature": 7},
    ],
)
def test_what_is_no_token_is_forged_and_never_an_exception_of_another_kind(given: Any) -> None:
    with pytest.raises(ApprovalError) as caught:
        token_of(given)
    assert caught.value.code == "approval.forged"
    assert caught.value.exit_code == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_a_token_or_forged(given: bytes) -> None:
    with pytest.raises(ApprovalError):
        token_of(given)


def test_the_bytes_say_all_of_it_and_nothing_else() -> None:
    shown = parse_json(BOUND.bytes())
    assert isinstance(shown, dict)
    assert set(shown) == {f.name for f in fields(Bound)} - {"contract_version", "contract_hash"} | {"format"}
    assert shown["contract"] == {"name": "pay_invoice", "version": "1", "hash": "c" * 64}
    assert BOUND.payload() == sha256_hex(BOUND.bytes())


def test_what_nobody_could_read_cannot_be_approved() -> None:
    with pytest.raises(OversizeError):
        replace(BOUND, requested={"text": "x" * BOUND_MAX_BYTES}).bytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ed25519:",
        "ed25519:AAAA",
        "rsa:" + ALICE.public_key[8:],
        ALICE.public_key[8:],
        "ed25519:é",
        "ed25519:\ud800",
    ],
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ApprovalError):
        check_key(text)


# --- as an operator writes them ---------------------------------------------------------------------------------

GOOD = {"key": ALICE.public_key, "tenants": ["acme"]}


def test_approvers_are_read_from_a_settings_table() -> None:
    found = approvers_of({"alice": GOOD, "bob": {"key": BOB.public_key, "tenants": ["a*"], "contracts": ["p"]}}, "f")
    assert found[0] == Approver("alice", ALICE.public_key, ("acme",), ("*",))
    assert found[1] == Approver("bob", BOB.public_key, ("a*",), ("p",))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("alice", "must be a table of at most"),
        ({"alice": "key"}, "must be a table with key and tenants"),
        ({"": GOOD}, "must have 1 to 64 printable"),
        ({"al\x1bice": GOOD}, "must have 1 to 64 printable"),
        ({"a" * 65: GOOD}, "must have 1 to 64 printable"),
        ({"alice": {**GOOD, "tenant": ["acme"]}}, "unknown key 'tenant'"),
        ({"alice": {**GOOD, "key": "ed25519:AAAA"}}, "not a public key"),
        ({"alice": {**GOOD, "key": 7}}, "not a public key"),
        ({"alice": {"key": ALICE.public_key}}, "'tenants'"),
        ({"alice": {**GOOD, "tenants": [""]}}, "'tenants'"),
        ({"alice": {**GOOD, "tenants": "acme"}}, "'tenants'"),
        ({"alice": {**GOOD, "tenants": ["acme", 7]}}, "'tenants'"),
        ({"alice": {**GOOD, "contracts": "*"}}, "'contracts'"),
        ({"alice": GOOD, "bob": GOOD}, "the same name or key"),
        ({"alice": GOOD, "ALICE": {**GOOD, "key": BOB.public_key}}, "the same name or key"),
    ],
)
def test_a_list_of_approvers_that_is_not_right_is_refused_and_named(table: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        approvers_of(table, "/etc/x.toml")
    assert "/etc/x.toml" in caught.value.message


def test_a_key_has_one_spelling() -> None:
    raw = b"\0" * 32
    assert check_key("ed25519:" + b64encode(raw).decode()) == "ed25519:" + b64encode(raw).decode()
