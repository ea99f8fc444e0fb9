"""Run all scenarios under one framework, in that framework's environment, and print the results as JSON.

python -m tests.frameworks.run langchain --out results.json
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.metadata
import json
import platform
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.frameworks import scenarios, shop
from tests.frameworks.driver import Driver

SCENARIO_SECONDS = 120
CRASH = "a_crash_inside_the_tool"


def driver_of(framework: str) -> type[Driver]:
    """The one driver class of `drivers/FRAMEWORK.py`."""
    module = importlib.import_module(f"tests.frameworks.drivers.{framework}")
    [found] = [
        each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Driver) and each.name
    ]
    return found


async def judged(scenario: scenarios.Scenario, driver: type[Driver]) -> dict[str, Any]:
    """One scenario's verdict, in a shop of its own."""
    if reason := driver.cannot.get(scenario.name):
        return {"feature": scenario.feature, "status": "cannot", "reason": reason}
    with tempfile.TemporaryDirectory(prefix="readback-bed-", ignore_cleanup_errors=True) as folder:
        shop.use(Path(folder))
        bed = scenarios.Bed(Path(folder), driver, driver.name)
        verdict = bed.verdict
        try:
            await asyncio.wait_for(scenario.judge(bed), SCENARIO_SECONDS)
        except Exception:  # tidy: boundary -- whatever a framework raises is this scenario's fault
            verdict.faults.append(traceback.format_exc())
    return {
        "feature": scenario.feature,
        "status": "failed" if verdict.faults or verdict.false_successes or verdict.second_effects else "passed",
        "acts": verdict.acts,
        "false_successes": verdict.false_successes,
        "second_effects": verdict.second_effects,
        "faults": verdict.faults,
    }


async def all_of(driver: type[Driver], only: list[str]) -> dict[str, Any]:
    wanted = [each for each in scenarios.SCENARIOS if not only or each.name in only]
    if driver.hazards is Driver.hazards:  # a framework without dangers of its own has nothing to show there
        wanted = [each for each in wanted if each.name != scenarios.HAZARDS]
    found = {each.name: await judged(each, driver) for each in wanted}
    unknown = set(driver.cannot) - {each.name for each in scenarios.SCENARIOS}
    assert not unknown, f"the driver excludes scenarios that do not exist: {unknown}"
    return {
        "framework": driver.name,
        "versions": {name: importlib.metadata.version(name) for name in driver.packages},
        "python": platform.python_version(),
        "notes": driver.notes,
        "scenarios": found,
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("framework")
    parser.add_argument("scenarios", nargs="*", help="only these")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--phase", choices=["crash", "resume"])
    parser.add_argument("--home", type=Path)
    given = parser.parse_args()
    driver = driver_of(given.framework)
    if given.phase:
        shop.use(given.home)
        bed = scenarios.Bed(given.home, driver, driver.name)
        again = given.phase == "resume"
        print(asyncio.run(scenarios.crash_phase(driver.name, bed.open(), given.home, again=again)))
        return 0
    results = asyncio.run(all_of(driver, given.scenarios))
    text = json.dumps(results, indent=1, sort_keys=True) + "\n"
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    failed = {name: each for name, each in results["scenarios"].items() if each["status"] == "failed"}
    for name, each in results["scenarios"].items():
        print(f"{each['status']:<7} {name}", file=sys.stderr)
    for name, each in failed.items():
        print(f"\n{name}\n  " + "\n  ".join(each["faults"]), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
