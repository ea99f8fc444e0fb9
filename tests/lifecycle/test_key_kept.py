"""How long a settled operation answers for itself: as its contract says, and no open one is ever forgotten."""

from __future__ import annotations

import pytest

from readback.audit.checks.ledger import audit
from readback.domain.idempotency import KEY_KEPT_US
from readback.domain.state import State
from readback.errors import ContractError
from tests.lifecycle.house import House, S

DAY_S = 24 * 3600


@pytest.mark.requirement("TRUTH-keys-expire")
def test_a_settled_record_answers_as_long_as_its_contract_says(house: House) -> None:
    made = house.action(key_kept="2d")
    first = house.run(made)
    assert first.verified
    house.runtime.advance(2 * DAY_S - 60)
    again = house.run(made)
    assert (again.id, again.replayed) == (first.id, True)
    house.runtime.advance(120)
    later = house.run(made)
    assert later.id != first.id
    assert not later.replayed
    assert len(house.shop.calls) == 2
    assert audit(house.store).ok


@pytest.mark.requirement("TRUTH-keys-expire")
def test_where_the_contract_says_nothing_it_is_thirty_days(house: House) -> None:
    made = house.action()
    assert made.contract.key_kept_us == KEY_KEPT_US == 30 * DAY_S * S
    first = house.run(made)
    house.runtime.advance(30 * DAY_S - 60)
    assert house.run(made).id == first.id
    house.runtime.advance(120)
    assert house.run(made).id != first.id


@pytest.mark.requirement("TRUTH-keys-expire")
def test_an_open_record_never_expires(house: House) -> None:
    """Nobody knows what became of it: time settles nothing, and it is not executed again."""
    house.shop.tool = lambda ctx, args: {"status": "ok"}  # and does nothing
    made = house.action(key_kept="1s")
    first = house.run(made)
    house.work(400 * DAY_S)
    assert house.get(first.id).state in (State.UNKNOWN, State.REVIEW_REQUIRED)
    again = house.run(made)
    assert (again.id, again.replayed, len(house.shop.calls)) == (first.id, True, 1)
    assert audit(house.store).ok


@pytest.mark.requirement("TRUTH-keys-expire")
def test_an_action_keeps_what_its_contract_said_when_it_began(house: House) -> None:
    first = house.run(house.action(key_kept="10d"))
    house.runtime.advance(DAY_S)
    other = house.action(key_kept="1s")
    assert house.run(other).id == first.id, "the record says until when, not the contract of today"
    assert house.folded(first.id).key_kept_us == 10 * DAY_S * S


@pytest.mark.parametrize("wrong", ["0s", "soon", 7, "", ["1d"]])
def test_what_is_no_span_is_refused_when_the_contract_is_loaded(house: House, wrong: object) -> None:
    with pytest.raises(ContractError, match="key_kept"):
        house.action(key_kept=wrong)


def test_it_is_part_of_what_the_contract_says(house: House) -> None:
    long, short = house.action(key_kept="10d"), house.action(key_kept="1d")
    assert long.contract.hash != short.contract.hash
    assert b'"key_kept_us":86400000000' in short.contract.body
