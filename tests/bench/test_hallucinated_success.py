"""The benchmark of hallucinated success: our rows run in virtual time, and the kept page is of the kept data."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.hallucinated_success.__main__ import DATA, PAGE
from bench.hallucinated_success.contenders import CONTENDERS
from bench.hallucinated_success.page import is_false_alarm, is_false_success, keep, tables, totals
from bench.hallucinated_success.programs import read_once, readback_contract, retries, trust
from bench.hallucinated_success.programs.serving import Program, run_one
from bench.hallucinated_success.tasks import PATTERNS, Pattern, Task
from bench.side_by_side.environments import LOCKS, ROOT
from readback.testing.runtime_virtual import VirtualRuntime

NAMES = [each.name for each in PATTERNS]


def run(pattern: Pattern, folder: Path, program: Program | None = None) -> dict[str, Any]:
    """One task in virtual time, by Readback or by another program."""
    clock = VirtualRuntime(seed=1)
    task = Task(pattern, folder, lambda: clock.now_us() / 1_000_000)
    return run_one(program or (lambda given: readback_contract.run(given, clock)), task)


@pytest.mark.requirement("BENCH-hallucinated")
@pytest.mark.parametrize("pattern", PATTERNS, ids=NAMES)
def test_readback_tells_no_false_success_and_raises_no_false_alarm(pattern: Pattern, tmp_path: Path) -> None:
    found = run(pattern, tmp_path)
    assert not is_false_success(found)
    assert not is_false_alarm(found)
    assert found["doubled"] == 0
    assert found["calls"] == 1
    if not pattern.knowable:
        assert found["told"] == "unknown"


@pytest.mark.requirement("BENCH-hallucinated")
def test_the_faults_deceive_a_program_that_trusts_or_retries(tmp_path: Path) -> None:
    for name, program, few in (("trust", trust.run, 0), ("retries", retries.run, 1)):
        (folder := tmp_path / name).mkdir()
        runs = [run(each, folder, program) for each in PATTERNS]
        deceived = {each["code"] for each in runs if is_false_success(each)}
        assert deceived >= {"HS-01", "HS-02", "HS-03", "HS-04", "HS-07", "HS-09", "HS-10", "HS-11", "HS-12", "HS-13"}
        assert totals(runs).doubled == few


@pytest.mark.requirement("BENCH-hallucinated")
def test_one_reading_by_the_default_path_is_deceived_by_a_stale_copy(tmp_path: Path) -> None:
    runs = {each.name: run(each, tmp_path, read_once.run) for each in PATTERNS}
    assert {name for name, each in runs.items() if is_false_success(each)} == {
        "HS-07 fault", "HS-08 fault", "HS-11 fault",
    }  # fmt: skip
    assert is_false_alarm(runs["HS-07 honest"])


@pytest.mark.requirement("BENCH-hallucinated")
def test_every_pattern_of_the_specification_has_a_fault_and_an_honest_run() -> None:
    codes = {f"HS-{number:02d}" for number in range(1, 15)}
    assert {each.code for each in PATTERNS if not each.honest} == codes
    assert {each.code for each in PATTERNS if each.honest} == codes
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.requirement("BENCH-hallucinated")
def test_the_page_is_of_the_kept_data_and_the_data_of_every_program_and_task(tmp_path: Path) -> None:
    found = json.loads(DATA.read_text(encoding="utf-8"))
    assert set(found) == {each.name for each in CONTENDERS}
    assert all([each["run"] for each in runs] == NAMES for runs in found.values())
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    keep(page, tables(found))
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    ours = totals(found["readback_contract"])
    assert (ours.false_successes, ours.false_alarms, ours.doubled) == (0, 0, 0)


@pytest.mark.requirement("BENCH-pinned")
def test_each_program_imports_only_what_its_environment_pins() -> None:
    for each in CONTENDERS:
        source = (ROOT / "bench/hallucinated_success/programs" / f"{each.name}.py").read_text(encoding="utf-8")
        named = {
            name.partition(".")[0]
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        foreign = named - set(sys.stdlib_module_names) - {"bench", "readback"}
        if not each.environment:
            assert foreign == set()
            continue
        lock = (LOCKS / f"{each.environment}.lock").read_text(encoding="utf-8")
        pinned = {name.replace("-", "_").lower() for name in re.findall(r"^([A-Za-z0-9_.-]+)==", lock, re.MULTILINE)}
        assert foreign <= pinned
