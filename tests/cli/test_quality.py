"""The doctor reads the ledger: it names the contracts that cannot verify well, and why."""

from __future__ import annotations

import pytest

from readback.audit.feedback import findings as feedback_findings
from tests.cli.conftest import Desk


@pytest.fixture
def lied_to(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(feedback_findings, "SEEN_MIN", 3)
    for number in range(3):
        desk.ship(f"op-{number}", how="lie", carrier=f"c-{number}")
    return desk


@pytest.mark.requirement("FEEDBACK-named")
def test_a_contract_that_does_not_verify_is_named_with_its_reason(lied_to: Desk) -> None:
    told = lied_to("doctor", "--json", code=0).json
    assert told["sound"]
    poor = [each for each in told["findings"] if each["name"] == "quality" and each["level"] == "warning"]
    assert {each["details"]["name"] for each in poor} == {"ship"}
    assert all(each["remedy"] for each in poor)
    (summary,) = [each for each in told["findings"] if each["name"] == "quality" and each["level"] == "ok"]
    assert summary["details"]["feedback"]["contracts"]["ship"]["executed"] == 3
    assert "ship: 3 of 3 (100 %)" in lied_to("doctor", code=0).out


def test_strict_lets_warnings_count(lied_to: Desk) -> None:
    answer = lied_to("doctor", "--strict", "--json", code=1)
    assert answer.json["sound"]
    assert answer.json["exit_code"] == 1


def test_another_tenants_actions_are_not_told(lied_to: Desk) -> None:
    told = lied_to("doctor", "--tenant", "acme", "--json", code=0).json["findings"]
    (summary,) = [each for each in told if each["name"] == "quality"]
    assert summary["details"]["feedback"]["contracts"] == {}
    assert "no contract with enough actions verifies poorly" in summary["said"]


def test_strict_is_quiet_where_nothing_is_wrong(desk: Desk) -> None:
    desk("doctor", "--strict", code=0)
