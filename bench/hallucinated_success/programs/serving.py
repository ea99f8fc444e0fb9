"""Runs every task by one program, in the program's own environment, and prints one line of JSON a task.

Standard library alone. The referee waits for late effects only after the program has told its result.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.hallucinated_success.tasks import PATTERNS, TOLD, Task

Program = Callable[[Task], str]


def run_all(program: Program) -> None:
    """Run the tasks in order and print each result."""
    with tempfile.TemporaryDirectory(prefix="readback-hs-") as folder:
        for pattern in PATTERNS:
            print(json.dumps(run_one(program, Task(pattern, Path(folder)))), flush=True)


def run_one(program: Program, task: Task) -> dict[str, Any]:
    """Run one task. A program turns the errors of its library into a result; any other error voids the whole run."""
    began = time.perf_counter()
    told = program(task)
    assert told in TOLD, told
    took = time.perf_counter() - began
    done_then = task.done()
    task.world.settle()
    return {
        "run": task.name,
        "code": task.pattern.code,
        "honest": task.pattern.honest,
        "knowable": task.pattern.knowable,
        "told": told,
        "done_when_told": done_then,
        "done": task.done(),
        "doubled": task.doubled,
        "calls": task.world.calls,
        "reads": task.world.reads,
        "seconds": round(took, 3),
    }


def serve(program: Program) -> None:
    """The entry point of a program's module."""
    run_all(program)
    sys.stdout.flush()
