"""How much a long trace takes: rows, not objects; and the table of digests that they are kept in."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.traces.digest_rows import DigestRows
from tests.citations.long_runs import long_run, measured

BYTES_AN_EVENT_MAX = 150
FEW, MANY = 2_000, 6_000


def taken(events: int) -> tuple[int, int]:
    """Events that were checked, and the most memory that it took."""
    files, count = long_run(events)
    peak, report = measured(files)
    assert report.passed, report.failures[:3]
    return count, peak


@pytest.mark.slow
def test_an_event_more_takes_at_most_a_hundred_and_fifty_bytes() -> None:
    """By the difference of two sizes, so that what does not grow is left out."""
    (few, small), (many, large) = taken(FEW), taken(MANY)
    assert (large - small) / (many - few) <= BYTES_AN_EVENT_MAX


def digest_of(number: int) -> bytes:
    return sha256(b"%d" % number).digest()


@given(st.lists(st.integers(0, 300), max_size=600))
def test_rows_are_found_again_in_the_order_of_their_arrival(numbers: list[int]) -> None:
    rows = DigestRows()
    order: dict[int, int] = {}
    for number in numbers:
        row, new = rows.add(digest_of(number))
        assert new is (number not in order)
        assert row == order.setdefault(number, len(order))
    assert len(rows) == len(order)
    for number in range(301):
        assert rows.find(digest_of(number)) == order.get(number, -1)
    for number, row in order.items():
        assert rows.digest(row) == digest_of(number)


def test_digests_that_begin_alike_are_not_confused() -> None:
    rows = DigestRows()
    alike = [b"\x00" * 31 + bytes([last]) for last in range(200)]
    assert [rows.add(each) for each in alike] == [(row, True) for row in range(200)]
    assert [rows.find(each) for each in alike] == list(range(200))
