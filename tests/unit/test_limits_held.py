"""Which limits are in force, and when nothing is asked at all."""

from __future__ import annotations

import pytest

from readback.domain.contract.limits import LIMIT_MAX, NO_LIMITS, Limits, TenantLimits, in_force, limits_of
from readback.errors import SettingsError

OPERATORS = Limits(TenantLimits(5, 0, 100), {"acme": TenantLimits(2, 60, 0)})


def test_a_limit_is_none_unless_it_is_set() -> None:
    assert TenantLimits() == TenantLimits(0, 0, 0)
    assert NO_LIMITS.of("acme") == TenantLimits()
    assert not NO_LIMITS.any
    assert Limits(TenantLimits(evidence_bytes=1)).any


def test_where_nobody_limits_anything_nothing_is_asked() -> None:
    assert in_force(NO_LIMITS, None) is None
    assert in_force(NO_LIMITS, TenantLimits()) is None
    assert in_force(OPERATORS, None) is OPERATORS


def test_a_program_makes_every_tenants_limits_stricter() -> None:
    found = in_force(OPERATORS, TenantLimits(3, 9, 0))
    assert found is not None
    assert found.of("other") == TenantLimits(3, 9, 100)
    assert found.of("acme") == TenantLimits(2, 9, 0)
    assert in_force(NO_LIMITS, TenantLimits(1)) == Limits(TenantLimits(1))


@pytest.mark.parametrize("value", [0, 1, LIMIT_MAX])
def test_every_whole_number_up_to_the_largest_is_a_limit(value: int) -> None:
    assert limits_of({"evidence_bytes": value}).default == TenantLimits(evidence_bytes=value)
    assert LIMIT_MAX == 2**53 - 1


def test_of_an_unknown_key_the_known_ones_are_said() -> None:
    with pytest.raises(SettingsError, match=r"\[limits\] has the unknown key 'x'") as refused:
        limits_of({"x": 1})
    assert "in_flight, polls_per_minute, evidence_bytes" in str(refused.value)
    with pytest.raises(SettingsError, match="'in_flight' is -1") as negative:
        TenantLimits(-1)
    assert "0 is no limit" in str(negative.value)
