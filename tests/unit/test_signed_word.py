"""A signed word as it is kept: written and read again byte for byte, and whose signature it is."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.canon import parse_json, payload_bytes, sha256_hex, stored_bytes
from readback.domain.action.erasure import KEPT_REFS
from readback.domain.contract.approval import Approver, Policy, key_id
from readback.domain.people.review import lift_bytes, lifts, resolution_bytes
from readback.domain.people.signed_statement import TOKEN, SignedStatement, signed_statement_of, why_not_signed
from readback.testing.signer_memory import MemorySigner, verify_memory

EVE, BOB = MemorySigner("eve"), MemorySigner("bob")
SAID = resolution_bytes("a1", "acme", 3, "abandon", "eve", "It's “in order”.\n")
WORD = SignedStatement("eve", key_id(EVE.public_key), SAID, EVE.sign(SAID))
POLICY = Policy.of([Approver("eve", EVE.public_key, ("acme",)), Approver("bob", BOB.public_key, ())])
PARTS: Any = WORD.as_json()


def test_it_is_kept_as_canonical_json_with_exactly_the_bytes_that_were_signed() -> None:
    assert parse_json(WORD.body()) == {
        "format": "readback-signed-word/1",
        "signer": "eve",
        "key_id": key_id(EVE.public_key),
        "statement": SAID.decode(),
        "signature": b64encode(WORD.signature).decode(),
    }
    assert WORD.body() == payload_bytes(PARTS)
    assert WORD.digest() == sha256_hex(WORD.body())
    assert signed_statement_of(WORD.body()) == WORD


def test_it_has_the_name_of_what_is_never_erased() -> None:
    assert TOKEN in KEPT_REFS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"{",
        b"\xff",
        stored_bytes([*PARTS.values()]),
        stored_bytes({**PARTS, "more": 1}),
        stored_bytes({name: value for name, value in PARTS.items() if name != "key_id"}),
        stored_bytes({**PARTS, "format": "readback-approval-token/1"}),
        stored_bytes({**PARTS, "signer": 7}),
        stored_bytes({**PARTS, "statement": None}),
        stored_bytes({**PARTS, "signature": "not base64"}),
        stored_bytes({**PARTS, "signature": "ü"}),
        stored_bytes({**PARTS, "signature": PARTS["signature"] + "\n"}),
        WORD.body() + b" ",
        WORD.body().replace(b'":"', b'": "'),
    ],
)
def test_what_is_not_exactly_one_is_none(body: bytes) -> None:
    assert signed_statement_of(body) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_one_or_none(body: bytes) -> None:
    found = signed_statement_of(body)
    assert found is None or found.body() == body


@given(st.integers(0, len(WORD.body()) * 8 - 1))
def test_with_any_bit_flipped_it_is_no_word_of_the_same_person_about_the_same(bit: int) -> None:
    body = bytearray(WORD.body())
    body[bit // 8] ^= 1 << bit % 8
    found = signed_statement_of(bytes(body))
    assert found is None or found.statement != SAID or why_not_signed(found, POLICY, verify_memory)


def test_whose_signature_it_is() -> None:
    assert why_not_signed(WORD, POLICY, verify_memory) == ""
    unknown, forged = "no listed approver has this name and key", "it is not that key's signature"
    assert why_not_signed(replace(WORD, signer="mallory"), POLICY, verify_memory) == unknown
    assert why_not_signed(replace(WORD, signer="bob"), POLICY, verify_memory) == unknown
    assert why_not_signed(replace(WORD, key_id="0" * 16), POLICY, verify_memory) == unknown
    for changed in (
        replace(WORD, statement=SAID + b" "),
        replace(WORD, signature=BOB.sign(SAID)),
        replace(WORD, signature=b""),
    ):
        assert why_not_signed(changed, POLICY, verify_memory) == forged
    short = replace(WORD, signature=WORD.signature[:63])
    assert why_not_signed(short, POLICY, lambda key, message, signature: True) == forged


FROZEN = (("a1", 1), ("a2", 2))
LIFT = lift_bytes("acme", "resource:x", FROZEN, "eve", "why")


@pytest.mark.parametrize("froze", FROZEN)
def test_what_is_signed_lifts_each_of_the_freezes_that_it_names(froze: tuple[str, int]) -> None:
    assert lifts(LIFT, "acme", "resource:x", froze, "eve", "why")


@pytest.mark.parametrize(
    ("statement", "given"),
    [
        (LIFT, ("globex", "resource:x", ("a1", 1), "eve", "why")),
        (LIFT, ("acme", "resource:y", ("a1", 1), "eve", "why")),
        (LIFT, ("acme", "resource:x", ("a1", 2), "eve", "why")),
        (LIFT, ("acme", "resource:x", ("a3", 1), "eve", "why")),
        (LIFT, ("acme", "resource:x", ("a1", 1), "bob", "why")),
        (LIFT, ("acme", "resource:x", ("a1", 1), "eve", "other")),
        (LIFT + b" ", ("acme", "resource:x", ("a1", 1), "eve", "why")),
        (LIFT.replace(b"lift/2", b"lift/1"), ("acme", "resource:x", ("a1", 1), "eve", "why")),
        (b"", ("acme", "resource:x", ("a1", 1), "eve", "why")),
        (b"{}", ("acme", "resource:x", ("a1", 1), "eve", "why")),
        (b"[1,2,3]", ("acme", "resource:x", ("a1", 1), "eve", "why")),
        (b'["readback/lift/2","acme","resource:x","a1","eve","why"]', ("acme", "resource:x", ("a1", 1), "eve", "why")),
    ],
)
def test_and_no_other(statement: bytes, given: tuple[Any, ...]) -> None:
    assert not lifts(statement, *given)
