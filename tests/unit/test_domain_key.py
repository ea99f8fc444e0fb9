"""Keys and request hashes are given to other systems and kept in ledgers: their bytes are fixed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from readback.canon import Json
from readback.domain.idempotency import (
    KeyDecision,
    KeyStatus,
    aged,
    key_hash,
    key_status,
    key_text,
    on_key,
    request_hash,
)
from readback.domain.kind import Kind
from readback.domain.state import State
from readback.errors import StoreCorruptError


def test_a_key_is_the_hash_of_a_fixed_form() -> None:
    by_name = b'["readback/key/1","acme","ship_order","ship o-17"]'
    assert key_hash("acme", "ship_order", "ship o-17") == hashlib.sha256(by_name).hexdigest()
    by_fields = b'["readback/key/1","acme","pay",{"cents":700,"invoice":"i-1"}]'
    assert key_hash("acme", "pay", {"invoice": "i-1", "cents": 700}) == hashlib.sha256(by_fields).hexdigest()
    named: Mapping[str, Json] = MappingProxyType({"cents": 700, "invoice": "i-1"})
    assert key_hash("acme", "pay", named) == hashlib.sha256(by_fields).hexdigest()
    assert key_text("0123456789" * 6) == "rb-" + "0123456789" * 4


def test_a_request_hash_is_the_hash_of_a_fixed_form() -> None:
    form = b'["readback/request/1","set","o/1",{"cents":7}]'
    assert request_hash(Kind.SET, "o/1", {"cents": 7}) == hashlib.sha256(form).hexdigest()


def test_without_an_attestation_nothing_is_freed() -> None:
    assert key_status(State.UNKNOWN) is KeyStatus.PENDING
    assert key_status(State.FAILED) is KeyStatus.FAILED_FINAL


def test_a_record_expires_from_its_first_microsecond_on() -> None:
    assert aged(KeyStatus.COMPLETED, 1, 1) is KeyStatus.EXPIRED
    assert aged(KeyStatus.COMPLETED, 0, 1) is KeyStatus.COMPLETED
    assert aged(KeyStatus.COMPLETED, -1, 1) is KeyStatus.COMPLETED


def test_a_record_is_not_in_flight_unless_that_is_said() -> None:
    assert on_key(KeyStatus.PENDING, same_request=True) is KeyDecision.REPLAY


def test_a_status_that_no_ledger_writes_is_corrupt() -> None:
    with pytest.raises(StoreCorruptError, match="HALF_DONE"):
        KeyStatus("HALF_DONE")
