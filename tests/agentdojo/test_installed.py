"""agentdojo is there where the suite is set up, and it is used without what it would load."""

from __future__ import annotations

import os
import sys

import pytest

from tests.agentdojo import loader, replay

MODEL_CLIENTS = ("anthropic", "cohere", "google.genai", "langchain", "openai")


@pytest.mark.skipif(
    os.environ.get("CI") != "true" and "MAKELEVEL" not in os.environ,
    reason="run by hand: only `make` and CI set everything up, and have to have agentdojo",
)
def test_agentdojo_is_installed_wherever_make_or_ci_sets_up() -> None:
    assert loader.installed(), "run `make setup`; without agentdojo these tests would skip, and nobody would know"


def test_no_init_of_its_packages_is_run_and_nothing_of_it_is_left_behind(suites: dict[str, loader.Suite]) -> None:
    assert set(suites) == {"banking", "slack"}
    assert [name for name in sys.modules if name.partition(".")[0] == "agentdojo"] == []
    assert [name for name in MODEL_CLIENTS if name in sys.modules] == []


def test_every_tool_of_both_suites_has_a_contract(suites: dict[str, loader.Suite]) -> None:
    for suite in suites.values():
        assert set(replay.Stage(suite).actions) == set(suite.tools)


def test_all_versions_of_all_tasks_are_there(suites: dict[str, loader.Suite]) -> None:
    """A newer agentdojo may have more; then these numbers are looked at again."""
    found = {
        name: (len(suite.tasks), len(list(replay.calls(suite))), len(replay.distinct(suite)))
        for name, suite in suites.items()
    }
    assert found == {"banking": (35, 63, 26), "slack": (36, 163, 35)}
