"""Keys, request hashes and records: what names an operation, and what a second proposal may do."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.domain.idempotency import (
    KeyDecision,
    KeyStatus,
    Resolution,
    aged,
    key_hash,
    key_status,
    key_text,
    may_replace,
    on_key,
    request_hash,
)
from readback.domain.kind import Kind
from readback.domain.state import TERMINAL, State

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.mark.requirement("TRUTH-keys-inputs", "L20")
def test_a_key_is_made_of_tenant_contract_and_operation_only() -> None:
    key = key_hash("acme", "ship_order", "ship o-17")
    assert key == key_hash("acme", "ship_order", "ship o-17")
    assert len(key) == 64
    assert int(key, 16) >= 0
    others = {
        key_hash("other", "ship_order", "ship o-17"),
        key_hash("acme", "ship", "ship o-17"),
        key_hash("acme", "ship_order", "ship o-18"),
        key,
    }
    assert len(others) == 4


@given(one=st.tuples(TEXT, TEXT, TEXT), other=st.tuples(TEXT, TEXT, TEXT))
def test_different_operations_never_share_a_key(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (key_hash(*one) == key_hash(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c", "d"), ("a", "bc", "d")),
        (("a", "b", 'c","d'), ("a", "b", "c")),
        (("a\x00b", "c", "d"), ("a", "b\x00c", "d")),
    ],
)
def test_the_parts_of_a_key_cannot_run_into_each_other(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert key_hash(*one) != key_hash(*other)


def test_declared_key_fields_name_an_operation_whatever_their_order() -> None:
    key = key_hash("acme", "pay", {"invoice": "i-1", "cents": 700})
    assert key == key_hash("acme", "pay", {"cents": 700, "invoice": "i-1"})
    assert key != key_hash("acme", "pay", {"invoice": "i-1", "cents": "700"})
    assert key != key_hash("acme", "pay", '{"cents":700,"invoice":"i-1"}')


def test_what_the_tool_is_given_is_short_and_plain() -> None:
    key = key_hash("acme", "pay", "x")
    assert key_text(key) == "rb-" + key[:40]
    assert key_text(key).isascii()


@pytest.mark.requirement("TRUTH-keys-request-hash", "L20")
def test_the_request_hash_tells_payloads_apart() -> None:
    def hashed(kind: Kind = Kind.SET, target: str = "o/1", **arguments: object) -> str:
        return request_hash(kind, target, arguments)  # type: ignore[arg-type]

    one = hashed(cents=7)
    assert one == hashed(cents=7)
    assert len({one, hashed(cents="7"), hashed(cents=8), hashed(), hashed(Kind.ADJUST, cents=7)}) == 5
    assert one != hashed(target="o/2", cents=7)
    # The key of the operation is the same for all of them: that is what makes the difference refusable.
    assert len({key_hash("acme", "pay", "x") for _ in range(3)}) == 1


@pytest.mark.parametrize("state", State, ids=lambda state: state.value)
def test_every_state_has_a_record_status(state: State) -> None:
    for may_repeat, resolution in product((False, True), Resolution):
        assert isinstance(key_status(state, may_repeat=may_repeat, resolution=resolution), KeyStatus)


@pytest.mark.requirement("L09")
def test_a_record_is_completed_by_a_reconciled_success_and_nothing_else() -> None:
    for state, may_repeat, resolution in product(State, (False, True), Resolution):
        status = key_status(state, may_repeat=may_repeat, resolution=resolution)
        assert (status is KeyStatus.COMPLETED) == (state is State.RECONCILED_SUCCESS)


@pytest.mark.requirement("TRUTH-late-no-repeat")
def test_a_key_is_free_only_where_nothing_exists_and_nothing_can_follow() -> None:
    for state, may_repeat in product(State, (False, True)):
        free = may_replace(key_status(state, may_repeat=may_repeat))
        assert free == (may_repeat and state in (State.FAILED, State.ROLLED_BACK)), state


def test_open_states_keep_their_record_pending() -> None:
    for state in set(State) - TERMINAL | {State.REVIEW_REQUIRED}:
        assert key_status(state, may_repeat=True) is KeyStatus.PENDING


def test_terminal_states_have_their_own_status() -> None:
    assert key_status(State.FAILED) is KeyStatus.FAILED_FINAL
    assert key_status(State.FAILED, may_repeat=True) is KeyStatus.FAILED_RETRYABLE
    assert key_status(State.ROLLED_BACK) is KeyStatus.FAILED_FINAL
    assert key_status(State.ROLLED_BACK, may_repeat=True) is KeyStatus.FAILED_RETRYABLE
    assert key_status(State.ABANDONED, may_repeat=True) is KeyStatus.FAILED_FINAL
    assert key_status(State.COMPENSATED, may_repeat=True) is KeyStatus.COMPENSATED


@pytest.mark.requirement("TRUTH-hold-attestation")
def test_an_attestation_frees_or_keeps_the_key_and_completes_nothing() -> None:
    for state in (State.REVIEW_REQUIRED, State.UNKNOWN):
        assert key_status(state, resolution=Resolution.ATTESTED_DONE) is KeyStatus.PENDING
        assert key_status(state, resolution=Resolution.ATTESTED_NOT_DONE) is KeyStatus.FAILED_RETRYABLE
    assert key_status(State.COMPENSATED, resolution=Resolution.ATTESTED_NOT_DONE) is KeyStatus.COMPENSATED
    assert key_status(State.RECONCILED_SUCCESS, resolution=Resolution.ATTESTED_NOT_DONE) is (KeyStatus.COMPLETED)


@pytest.mark.parametrize("status", KeyStatus, ids=lambda status: status.value)
def test_a_settled_record_expires_and_an_open_one_never_does(status: KeyStatus) -> None:
    settled = status is not KeyStatus.PENDING
    assert aged(status, 100, 99) is status
    assert aged(status, 100, 100) is (KeyStatus.EXPIRED if settled else status)
    assert aged(status, 0, 10**18) is status


@pytest.mark.requirement("HS-06", "PRINCIPLE-idempotency", "TRUTH-keys-second-run")
@pytest.mark.parametrize(
    ("status", "in_flight", "expected"),
    [
        (None, False, KeyDecision.EXECUTE),
        (KeyStatus.PENDING, True, KeyDecision.JOIN),
        (KeyStatus.PENDING, False, KeyDecision.REPLAY),
        (KeyStatus.COMPLETED, False, KeyDecision.REPLAY),
        (KeyStatus.FAILED_FINAL, False, KeyDecision.REPLAY),
        (KeyStatus.COMPENSATED, False, KeyDecision.REPLAY),
        (KeyStatus.FAILED_RETRYABLE, False, KeyDecision.EXECUTE),
        (KeyStatus.EXPIRED, False, KeyDecision.EXECUTE),
    ],
)
def test_a_second_proposal_joins_or_gets_what_is_recorded(
    status: KeyStatus | None, in_flight: bool, expected: KeyDecision
) -> None:
    assert on_key(status, same_request=True, in_flight=in_flight) is expected


@pytest.mark.requirement("INPUT-other-payload")
@pytest.mark.parametrize(
    "status", [one for one in KeyStatus if one is not KeyStatus.EXPIRED], ids=lambda status: status.value
)
@pytest.mark.parametrize("in_flight", [False, True])
def test_another_payload_under_the_key_is_refused(status: KeyStatus, in_flight: bool) -> None:
    assert on_key(status, same_request=False, in_flight=in_flight) is KeyDecision.REFUSE


def test_nothing_executes_over_a_record_that_may_not_be_replaced() -> None:
    for status, in_flight, same in product(KeyStatus, (False, True), (False, True)):
        decision = on_key(status, same_request=same, in_flight=in_flight)
        if decision is KeyDecision.EXECUTE:
            assert may_replace(status)
