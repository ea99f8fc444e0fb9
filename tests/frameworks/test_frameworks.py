"""Every scenario under every framework, in that framework's own environment: `make frameworks` makes those.

`READBACK_FRAMEWORKS` names the frameworks, and `READBACK_FRAMEWORKS_KIND` the environments: `latest` or `lowest`. An
environment that does not exist fails its tests.
"""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks import page
from tests.frameworks.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
NAMES = os.environ.get("READBACK_FRAMEWORKS", "langchain openai_agents pydantic_ai").split()
KIND = os.environ.get("READBACK_FRAMEWORKS_KIND", "latest")
RUN_SECONDS = 600
AT_ONCE = 2
"""Frameworks that run side by side."""


def python_of(name: str) -> Path:
    """The interpreter of a framework's environment, which has to exist."""
    found = ROOT / ".venv" / "frameworks" / f"{name}-{KIND}" / "bin" / "python"
    assert found.exists(), f"no environment of {name}: run `make frameworks`"
    return found


def _run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python program in the framework's environment, without the settings of this one."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("READBACK_", "PYTEST", "COV"))
    }
    return subprocess.run(
        [str(python_of(name)), *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def _ran(name: str, out: Path) -> dict[str, Any]:
    done = _run(name, "-m", "tests.frameworks.run", name, "--out", str(out))
    assert out.exists(), f"the bed did not finish: {done.stderr[-3000:]}"
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[dict[str, Any]]]:
    """The fresh results of each framework. Two frameworks run at a time."""
    folder = tmp_path_factory.mktemp("frameworks")
    pool = ThreadPoolExecutor(AT_ONCE)
    return {name: pool.submit(_ran, name, folder / f"{name}.json") for name in NAMES}


@pytest.mark.requirement("L29", "FW-none-false")
@pytest.mark.parametrize("scenario", [each.name for each in SCENARIOS])
@pytest.mark.parametrize("name", NAMES)
def test_no_false_success_is_told_and_no_effect_is_doubled(
    name: str, scenario: str, results: dict[str, Future[dict[str, Any]]]
) -> None:
    found = results[name].result()["scenarios"].get(scenario, {"status": "cannot", "reason": "no dangers of its own"})
    if found["status"] == "cannot":
        assert found["reason"]
        return
    assert found["faults"] == []
    assert (found["false_successes"], found["second_effects"]) == (0, 0)
    assert found["status"] == "passed"


@pytest.mark.requirement("FW-page")
@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_results_are_those_of_this_run(name: str, results: dict[str, Future[dict[str, Any]]]) -> None:
    """The page of features is made from the recorded results, so they have to be true."""
    if KIND != "latest":
        pytest.skip("the page shows the latest versions")
    assert page.recorded(name) == page.to_record(results[name].result()), f"run: python -m tests.frameworks.page {name}"


@pytest.mark.requirement("FW-apart")
@pytest.mark.parametrize("name", NAMES)
def test_an_environment_has_no_conflict_and_needs_no_mcp_extra(name: str) -> None:
    done = _run(name, "-m", "pip", "check")
    assert done.returncode == 0, done.stdout


@pytest.mark.requirement("FW-ten-lines")
@pytest.mark.parametrize("name", NAMES)
def test_the_programs_of_the_page_run_and_print_what_it_shows(name: str, tmp_path: Path) -> None:
    programs = page.programs(name)
    assert programs, f"the page of {name} shows no program"
    for number, (program, expected) in enumerate(programs):
        file = tmp_path / f"program{number}.py"
        file.write_text(program, encoding="utf-8")
        done = _run(name, str(file))
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout == expected


@pytest.mark.requirement("FW-quick")
@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_adds_at_most_half_a_millisecond(name: str) -> None:
    """CPU time of a call through the adapter, less that of `rb.run`, in one run: see `overhead`.

    On a quiet machine `rb.run` takes about 1.3 ms and the adapters add 0.1 to 0.3 ms. A busy machine stretches both, so
    a third of `rb.run` is the limit where that is more.
    """
    done = _run(name, "-m", "tests.frameworks.overhead", name)
    assert done.returncode == 0, done.stderr[-3000:]
    measured = json.loads(done.stdout)
    assert measured["adds_us"] <= max(500, measured["rb_run_us"] / 3), measured


@pytest.mark.requirement("FW-surface")
@pytest.mark.parametrize("name", NAMES)
def test_the_gates_of_surfaces_hold_for_an_adapter_and_see_one_that_believes_the_tool(name: str) -> None:
    codes = []
    for more in ([], ["--flattering"]):
        done = _run(name, "-m", "tests.frameworks.surface", name, *more)
        assert done.returncode == 0, done.stderr[-3000:]
        codes.append(set(json.loads(done.stdout)))
    assert codes == [{"guard.held", "unknown.blocked"}, {"guard.outran", "unknown.not-reached"}]
