"""Who runs what, where several processes share the tests: whole files, the longest first.

A file that takes long and comes last leaves the others idle; `longest.txt` names those worth starting with. It is
written anew by `make test LEARN=--learn-longest`; what is not named there follows by its number of tests.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

LONGEST = Path(__file__).with_name("longest.txt")
NAMED_S = 2.0
"""How long a file has to take to be named."""


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]
    """Files in the order in which they were collected, and a test whose process died is not run again.

    xdist's own puts the test that ended a worker back, for the next worker to end in, without an end; and the files
    that the worker had done, whose empty turns leave the next one idle.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def remove_node(self, node: Any) -> str | None:
        work = self.assigned_work.get(node, {})
        crashed = next((test for tests in work.values() for test, done in tests.items() if not done), None)
        if crashed is not None:
            work[self._split_scope(crashed)][crashed] = True
        for file in [file for file, tests in work.items() if all(tests.values())]:
            del work[file]
        super().remove_node(node)
        return crashed


def scheduler(config: pytest.Config, log: Any) -> LongestFirst | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None


def longest_first(items: list[pytest.Item]) -> None:
    """Sorts whole files."""
    rank = {name: place for place, name in enumerate(longest())}
    count = Counter(_file_of(item.nodeid) for item in items)
    items.sort(key=lambda item: (rank.get(file := _file_of(item.nodeid), len(rank)), -count[file], file))


def longest() -> list[str]:
    return [line for line in LONGEST.read_text(encoding="utf-8").splitlines() if line]


class Learner:
    """Writes the list from what a run has taken."""

    def __init__(self) -> None:
        self._taken_s: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._taken_s[_file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        named = [file for file, taken_s in self._taken_s.most_common() if taken_s >= NAMED_S]
        LONGEST.write_text("".join(f"{file}\n" for file in named), encoding="utf-8")


def _file_of(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]
