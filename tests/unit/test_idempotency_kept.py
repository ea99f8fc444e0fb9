"""How long a record answers for its operation, and what an attestation makes of a failure."""

from __future__ import annotations

import pytest

from readback.domain.idempotency import KEY_KEPT_US, KeyStatus, Resolution, aged, expires_us, key_status
from readback.domain.state import State

AT = 1_700_000_000_000_000
SETTLED = [one for one in KeyStatus if one is not KeyStatus.PENDING]


def test_a_settled_record_answers_for_thirty_days_where_the_contract_says_nothing() -> None:
    assert KEY_KEPT_US == 2_592_000_000_000


@pytest.mark.parametrize("status", SETTLED, ids=lambda status: status.value)
def test_a_settled_record_answers_for_as_long_as_it_is_kept(status: KeyStatus) -> None:
    assert expires_us(status, AT, 60_000_000) == AT + 60_000_000


def test_an_open_record_has_no_end() -> None:
    end = expires_us(KeyStatus.PENDING, AT, 60_000_000)
    assert end == 0
    assert aged(KeyStatus.PENDING, end, 10**18) is KeyStatus.PENDING


@pytest.mark.parametrize("status", SETTLED, ids=lambda status: status.value)
def test_a_settled_record_without_an_end_is_kept_for_good(status: KeyStatus) -> None:
    assert aged(status, 0, 10**18) is status
    assert aged(status, 1, 1) is KeyStatus.EXPIRED


@pytest.mark.requirement("HS-06")
@pytest.mark.parametrize("state", [State.FAILED, State.ROLLED_BACK], ids=lambda state: state.value)
def test_what_a_person_says_was_done_is_never_run_again(state: State) -> None:
    assert key_status(state, may_repeat=True) is KeyStatus.FAILED_RETRYABLE
    said_done = key_status(state, may_repeat=True, resolution=Resolution.ATTESTED_DONE)
    assert said_done is KeyStatus.FAILED_FINAL
    said_not = key_status(state, may_repeat=True, resolution=Resolution.ATTESTED_NOT_DONE)
    assert said_not is KeyStatus.FAILED_RETRYABLE
    assert key_status(state, resolution=Resolution.ATTESTED_NOT_DONE) is KeyStatus.FAILED_FINAL
