"""The times of decisions: RFC 3339 in and out, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.decisions.model.drift import read_moment, written_moment

DAY: int = 24 * 3600 * 1_000_000
NOON = int(datetime(2026, 2, 11, 12, tzinfo=UTC).timestamp()) * 1_000_000


@given(st.integers(0, 2**52))
def test_what_is_written_is_read_as_it_was(at_us: int) -> None:
    assert read_moment(written_moment(at_us)) == at_us


def test_a_moment_is_written_in_utc_with_six_places() -> None:
    assert written_moment(NOON + 250_000) == "2026-02-11T12:00:00.250000Z"
    assert written_moment(0) == "1970-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "at_us"),
    [
        ("2026-02-11T12:00:00Z", NOON),
        ("2026-02-11t12:00:00z", NOON),
        ("2026-02-11T12:00:00.5Z", NOON + 500_000),
        ("2026-02-11T12:00:00.000001Z", NOON + 1),
        ("2026-02-11T12:00:00.0000019Z", NOON + 1),
        ("2026-02-11T12:00:00.123456789Z", NOON + 123_456),
        ("2026-02-11T14:00:00+02:00", NOON),
        ("2026-02-11T06:34:00-05:26", NOON),
        ("2026-02-12T11:59:00+23:59", NOON),
        ("2026-02-10T13:00:00-23:00", NOON),
        ("2016-12-31T23:59:59Z", 1_483_228_799_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
        ("2016-12-31T23:59:60.5Z", 1_483_228_800_500_000),
        ("2017-01-01T05:29:60+05:30", 1_483_228_800_000_000),
        ("2016-12-31T18:29:60-05:30", 1_483_228_800_000_000),
    ],
)
def test_a_moment_is_read_wherever_it_was_written(text: str, at_us: int) -> None:
    assert read_moment(text) == at_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-02-11",
        "2026-02-11T12:00:00",
        "2026-02-11 12:00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-02-11T24:00:00Z",
        "2026-02-11T12:60:00Z",
        "2026-02-11T12:00:61Z",
        "2026-02-11T12:59:61Z",
        "2026-02-11T12:00:60Z",
        "2026-02-11T12:59:60+05:30",
        "2026-02-11T12:00:00+24:00",
        "2026-02-11T12:00:00+02:60",
        "2026-02-11T12:00:00.Z",
        "2026-02-11T12:00:00.1234567890Z",
        "\u0662026-02-11T12:00:00Z",
        "2026-02-11T12:00:00Z\n",
    ],
)
def test_what_is_no_moment_is_none(text: str) -> None:
    assert read_moment(text) is None
