"""What an approval binds, read back from its bytes; and the edges of whose signature counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from readback.canon import envelope_bytes, parse_json, sha256_hex
from readback.domain.contract.approval import (
    TOKEN_MAX_BYTES,
    ApprovalCode,
    ApprovalToken,
    Approved,
    Approver,
    Decision,
    Policy,
    Refused,
    bound_from,
    check_approvals,
    check_token,
    is_principal,
    token_of,
)
from readback.errors import ApprovalError
from readback.testing.signer_memory import MemorySigner, verify_memory
from tests.unit.approvals_given import ALICE, BOB, NOW, bound_for, signed

CAROL = MemorySigner("carol")
POLICY = Policy.of(
    [
        Approver("alice", ALICE.public_key, ("acme",)),
        Approver("bob", BOB.public_key, ("acme", "globex"), ("pay_*", "refund")),
        Approver("carol", CAROL.public_key, ()),
    ]
)
BOUND = bound_for(POLICY, {"amount": 7}, people=2)
sign = partial(signed, BOUND)


def check(*tokens: ApprovalToken, policy: Policy = POLICY, now_us: int = NOW) -> Approved | Refused:
    return check_approvals(BOUND, policy, tokens, now_us, verify_memory)


def read(**changes: Any) -> dict[str, Any]:
    """What the bytes hold, changed; a field that is changed to `...` is left out."""
    raw = parse_json(BOUND.bytes())
    assert isinstance(raw, dict)
    return {name: value for name, value in {**raw, **changes}.items() if value is not ...}


# --- what is bound ---


@pytest.mark.parametrize("intended", [None, "x", {"a": [1]}], ids=repr)
def test_what_was_bound_is_read_back_from_its_bytes(intended: Any) -> None:
    bound = replace(BOUND, intended=intended, requested=intended)
    assert bound_from(parse_json(bound.bytes())) == bound


WHOLE: Mapping[str, str] = {"name": "pay_invoice", "version": "1", "hash": "c" * 64}


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        *(None, [], "text", {}),
        *(read(**{name: ...}) for name in read()),
        *(read(**{name: 7}) for name in read() if name not in ("requested", "intended", "people", "expires_us")),
        *(read(people=odd) for odd in ("2", 2.0, True, None)),
        *(read(expires_us=odd) for odd in ("2", 2.0, True, None)),
        read(format="readback/other/1"),
        read(more="x"),
        read(contract=[*WHOLE]),
        read(contract="name"),
        *(read(contract={**WHOLE, name: 7}) for name in WHOLE),
        *(read(contract={key: value for key, value in WHOLE.items() if key != name}) for name in WHOLE),
        read(contract={**WHOLE, "more": "x"}),
    ],
)
def test_other_bytes_bind_nothing(given: Any) -> None:
    with pytest.raises(ApprovalError) as refused:
        bound_from(given)
    assert refused.value.code == "approval.mismatch"


# --- who counts ---


@pytest.mark.parametrize(
    ("contract", "counts"), [("pay_invoice", True), ("refund", True), ("wipe", False)], ids=lambda value: str(value)
)
def test_one_pattern_of_several_is_enough(contract: str, counts: bool) -> None:
    bob = POLICY.named("bob")
    assert bob is not None
    assert bob.may_approve("acme", contract) is counts
    assert bob.may_approve("globex", contract) is counts
    assert not bob.may_approve("initech", contract)


def test_for_what_is_past_everybody_who_is_listed_counted() -> None:
    past = POLICY.past("earlier")
    assert past.version == "earlier"
    assert [(one.name, one.key) for one in past.approvers] == [(one.name, one.key) for one in POLICY.approvers]
    assert all(one.may_approve("anywhere", "anything") for one in past.approvers)


def test_a_name_is_compared_with_the_whole_principal_too() -> None:
    assert is_principal("agent:ops", "agent:ops")
    assert is_principal("ops", "agent:ops")
    assert is_principal("human:ops", "ops")
    assert is_principal("human:OPS", "ops")
    assert not is_principal("human:ops", "agent:ops")
    assert not is_principal("agent", "agent:ops")


# --- all of them ---


@pytest.mark.parametrize(("now_us", "expired"), [(1_999_999, False), (2_000_000, True), (2_000_001, True)])
def test_a_request_without_tokens_expires_too(now_us: int, expired: bool) -> None:
    assert check(now_us=now_us) == Refused(ApprovalCode.EXPIRED if expired else ApprovalCode.WAITING)


def test_a_request_without_tokens_belongs_to_its_policy_too() -> None:
    assert check(policy=POLICY.past("earlier")) == Refused(ApprovalCode.POLICY_CHANGED)


def test_the_first_who_denied_is_named() -> None:
    deny = Decision.DENY
    alice, bob = sign(ALICE, "alice"), sign(BOB, "bob")
    assert check(sign(ALICE, "alice", deny), bob) == Refused(ApprovalCode.DENIED, "alice")
    assert check(alice, sign(BOB, "bob", deny)) == Refused(ApprovalCode.DENIED, "bob")
    assert check(sign(ALICE, "alice", deny), sign(BOB, "bob", deny)) == Refused(ApprovalCode.DENIED, "alice")


def test_what_is_wrong_with_a_second_token_is_told_as_such() -> None:
    alice = sign(ALICE, "alice")
    late = sign(ALICE, "alice", expires_us=NOW)
    assert check(alice, late) == Refused(ApprovalCode.EXPIRED, "alice")
    assert check(alice, sign(BOB, "bob")) == Approved("ap-1", ("alice", "bob"))
    assert check(alice, sign(ALICE, "alice", signed_at_us=NOW + 1)) == Refused(ApprovalCode.REPLAYED, "alice")


# --- tokens from outside ---


def test_a_token_longer_than_any_is_not_parsed() -> None:
    body = sign(ALICE, "alice").body()
    assert token_of(body + b" " * (TOKEN_MAX_BYTES - len(body))) == token_of(body)
    with pytest.raises(ApprovalError):
        token_of(body + b" " * (TOKEN_MAX_BYTES - len(body) + 1))


@pytest.mark.parametrize("name", ["approver", "key_id", "approval", "payload", "nonce", "signature"])
def test_each_text_of_a_token_is_a_text(name: str) -> None:
    with pytest.raises(ApprovalError, match=r"^Not a valid approval token: the format is unknown") as refused:
        token_of({**sign(ALICE, "alice").as_json(), name: 7})
    assert refused.value.code == "approval.forged"


@pytest.mark.parametrize("character", ["!", " ", "\u00fc"])
def test_a_signature_has_no_other_characters_in_it(character: str) -> None:
    token = sign(ALICE, "alice").as_json()
    with pytest.raises(ApprovalError) as refused:
        token_of({**token, "signature": f"{character}{token['signature']}"})
    assert refused.value.code == "approval.forged"


def test_a_token_by_itself_is_held_to_the_policy_that_its_request_was_made_under() -> None:
    alice, late = sign(ALICE, "alice"), replace(BOUND, policy="another")
    token = sign(ALICE, "alice", payload=late.payload())
    assert check_token(BOUND, POLICY, alice, NOW, verify_memory) is None
    assert check_token(late, POLICY, token, NOW, verify_memory) is ApprovalCode.POLICY_CHANGED


def test_what_is_signed_says_its_format() -> None:
    assert read()["format"] == "readback-approval/1"
    assert sign(ALICE, "alice").as_json()["format"] == "readback-approval-token/1"
    rows = {"format": "readback-approval-policy/1", "approvers": []}
    assert Policy.of(()).version == sha256_hex(envelope_bytes(rows))
