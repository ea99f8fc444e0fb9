"""A broken rule of an envelope, as episodes hold it."""

from __future__ import annotations

import pytest

from readback.decisions.model.envelope import Violation
from readback.decisions.model.words import Gate


@pytest.mark.parametrize(("hard", "severity"), [(True, "hard"), (False, "soft")])
def test_a_violation_is_written_with_what_was_allowed_and_what_there_was(hard: bool, severity: str) -> None:
    gate = next(iter(Gate))
    assert Violation(gate, "maxHops", 3, 4, hard, "Too many.").as_json() == {
        "gate": gate.value,
        "field": "maxHops",
        "limitValue": 3,
        "actualValue": 4,
        "severity": severity,
        "message": "Too many.",
    }
