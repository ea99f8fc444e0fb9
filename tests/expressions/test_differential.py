"""The engine beside Google's own, over generated expressions and values: `make differential` takes a million."""

from __future__ import annotations

import pytest

from tests.expressions.difference import KNOWN, counted, differing
from tests.expressions.generated import cases

SEED = 20_241


@pytest.mark.slow
@pytest.mark.requirement("EXPR-oracle")
def test_twenty_thousand_cases_are_answered_as_the_oracle_does_or_otherwise_for_a_reason() -> None:
    reasons, unexplained = counted(differing(SEED, 2_000, 10))
    assert not unexplained, unexplained[:3]
    assert 0 < reasons.total() < 2_000
    assert set(reasons) <= {each["reason"] for each in KNOWN}


def test_a_run_can_be_made_again_by_its_seed() -> None:
    assert cases(7, 50, 3) == cases(7, 50, 3) != cases(8, 50, 3)
