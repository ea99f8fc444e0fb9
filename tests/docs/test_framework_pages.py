"""The page of features by framework shows the recorded results of the bed, and nothing else."""

from __future__ import annotations

import pytest

from tests.docs.pages import blocks, text_of
from tests.frameworks import page
from tests.frameworks.scenarios import HAZARDS, SCENARIOS

NAMES = page.names()


@pytest.mark.requirement("FW-page")
def test_the_page_of_features_is_the_one_that_the_recorded_results_give() -> None:
    assert text_of("docs/frameworks/features.md") == page.render(), "run: python -m tests.frameworks.page"


@pytest.mark.requirement("FW-none-false")
@pytest.mark.parametrize("name", NAMES)
def test_no_recorded_result_has_a_fault(name: str) -> None:
    scenarios = page.recorded(name)["scenarios"]
    assert set(scenarios) | {HAZARDS} == {each.name for each in SCENARIOS}
    assert {key for key, each in scenarios.items() if each["status"] not in ("passed", "cannot")} == set()
    assert sum(each.get("false_successes", 0) + each.get("second_effects", 0) for each in scenarios.values()) == 0


@pytest.mark.parametrize("name", NAMES)
def test_each_framework_has_a_page_whose_programs_the_bed_runs(name: str) -> None:
    shown = [block for block in blocks(page.page_of(name)) if block.language == "python"]
    assert shown
    assert {block.notes.get("environment") for block in shown} == {name}
