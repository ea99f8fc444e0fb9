"""Readback inside steps of DBOS, on DBOS's own SQLite database. Each run is a process of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from readback.errors import UsageError
from readback.frameworks.durable.dbos import operation
from tests.engines import processes, shop


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shop, "HOME", tmp_path)
    return tmp_path


def _application(home: Path, command: str, order: str) -> tuple[int, str]:
    """Run the application once; its exit code and its last line."""
    with (home / "worker.log").open("a") as log:
        done = subprocess.run(
            processes.python("tests.engines.dbos_worker", command, order),
            cwd=home,
            env=processes.environment(home),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=processes.LIMIT_SECONDS,
        )
    return done.returncode, (done.stdout.splitlines() or [""])[-1]


@pytest.mark.requirement("ENGINE-dbos")
def test_a_process_killed_between_effect_and_completion_leaves_one_effect(home: Path) -> None:
    assert _application(home, "run", "crash-1")[0] == shop.CRASHED
    assert (shop.counted("steps", "crash-1"), shop.counted("calls", "crash-1")) == (1, 1)
    code, cited = _application(home, "recover", "crash-1")
    assert (code, cited[:10]) == (0, "[readback:")
    assert (shop.counted("steps", "crash-1"), shop.counted("calls", "crash-1")) == (2, 1)


@pytest.mark.requirement("ENGINE-dbos")
def test_a_lie_ends_the_step_at_once_and_is_not_retried(home: Path) -> None:
    code, said = _application(home, "run", "lie-1")
    assert code == 0
    assert said.startswith("NotVerifiedError")
    assert (shop.counted("steps", "lie-1"), shop.counted("calls", "lie-1")) == (1, 1)


@pytest.mark.requirement("ENGINE-dbos")
def test_a_pending_action_is_awaited_by_retries_that_call_nothing(home: Path) -> None:
    code, cited = _application(home, "run", "late-1")
    assert (code, cited[:10]) == (0, "[readback:")
    assert shop.counted("steps", "late-1") > 1
    assert shop.counted("calls", "late-1") == 1


@pytest.mark.requirement("ENGINE-dbos")
def test_a_rewound_workflow_finds_its_action(home: Path) -> None:
    _, first = _application(home, "run", "again-1")
    assert _application(home, "rewind", "again-1") == (0, first)
    assert (shop.counted("steps", "again-1"), shop.counted("calls", "again-1")) == (2, 1)


@pytest.mark.requirement("ENGINE-new-run")
def test_a_forked_workflow_has_a_new_id_and_acts_again(home: Path) -> None:
    _, first = _application(home, "run", "again-1")
    code, forked = _application(home, "fork", "again-1")
    assert code == 0
    assert forked.startswith("[readback:")
    assert forked != first
    assert (shop.counted("steps", "again-1"), shop.counted("calls", "again-1")) == (2, 2)


@pytest.mark.requirement("ENGINE-dbos")
def test_a_call_outside_a_step_is_refused_before_it_acts() -> None:
    with pytest.raises(UsageError, match="inside a step"):
        operation()
