"""A tenant's limits: how they are written, how they are combined, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.domain.contract.limits import Limits, TenantLimits, limits_of
from readback.errors import SettingsError
from readback.ports.storage.store_rules import MINUTE_US, PACE_MINUTES_MAX, paced

SOME = st.builds(TenantLimits, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


@pytest.mark.requirement("TENANT-settings")
def test_a_tenant_has_its_own_limits_over_the_default() -> None:
    limits = limits_of({"in_flight": 5, "polls_per_minute": 60, "acme": {"in_flight": 2}})
    assert limits.of("acme") == TenantLimits(2, 60, 0)
    assert limits.of("globex") == TenantLimits(5, 60, 0)
    assert limits.any
    assert not limits_of({}).any
    assert Limits(tenants={"acme": TenantLimits(1)}).any


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"in_flihgt": 1}, "unknown key 'in_flihgt'"),
        ({"acme": {"polls": 1}}, r"\[limits.acme\] has the unknown key 'polls'"),
        ({"in_flight": -1}, "'in_flight' is -1"),
        ({"in_flight": "many"}, "'in_flight' is 'many'"),
        ({"in_flight": True}, "'in_flight' is True"),
        ({"evidence_bytes": 2**53}, "'evidence_bytes'"),
        ({"acme": {"in_flight": 1.5}}, "'in_flight' is 1.5"),
    ],
)
@pytest.mark.requirement("TENANT-settings")
def test_limits_that_are_no_limits_are_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        limits_of(table)


@pytest.mark.requirement("TENANT-settings")
@given(SOME, SOME)
def test_what_a_program_asks_for_widens_nothing(operator: TenantLimits, program: TenantLimits) -> None:
    both = operator.stricter(program)
    for name in ("in_flight", "polls_per_minute", "evidence_bytes"):
        one, other, found = (getattr(each, name) for each in (operator, program, both))
        assert found == (min(one, other) if one and other else one or other)
    whole = Limits(operator, {"acme": operator}).stricter(program)
    assert whole.of("acme") == whole.of("globex") == both


@pytest.mark.requirement("TENANT-pace")
@given(st.lists(st.integers(0, 5 * MINUTE_US), max_size=60), st.integers(1, 5))
def test_no_minute_has_more_looks_than_it_may_and_none_comes_early(wanted: list[int], per_minute: int) -> None:
    taken: dict[int, int] = {}
    for each in wanted:
        at_us = paced(taken, each, per_minute)
        assert at_us >= each
        taken[at_us // MINUTE_US] = taken.get(at_us // MINUTE_US, 0) + 1
    assert max(taken.values(), default=0) <= per_minute


def test_after_a_day_of_full_minutes_a_look_is_taken_all_the_same() -> None:
    full = dict.fromkeys(range(PACE_MINUTES_MAX), 1)
    assert paced(full, 0, 1) == (PACE_MINUTES_MAX - 1) * MINUTE_US
