"""WorldState Check: after one call of the tool its command verifies postconditions over HTTP, and waits for them.

As its documents say: `worldstate-check verify FILE --wait SECONDS --allow-network`, with `http` checks of JSON fields.
A loopback server answers each check from the primary. VERIFIED, NOT_VERIFIED and UNCERTAIN are the three results.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.proxied.bridge import Bridge
from bench.hallucinated_success.tasks import FAILED, PATIENCE_S, SUCCESS, UNKNOWN, WANTED, Task
from bench.hallucinated_success.world import ORDER

TOLD = {"VERIFIED": SUCCESS, "NOT_VERIFIED": FAILED, "UNCERTAIN": UNKNOWN}


def run(task: Task) -> str:
    with suppress(OSError):
        task.call(ORDER)

    with Bridge(task) as bridge:
        return _verdict(task, bridge.port)


def _verdict(task: Task, port: int) -> str:
    spec, report = task.world.path.with_suffix(".json"), task.world.path.with_suffix(".report.json")
    checks = [
        {"id": name, "type": "http", "url": f"http://127.0.0.1:{port}/", "json_field": name, "operator": "eq",
         "value": value, "timeout_seconds": 1}
        for name, value in WANTED[task.kind].items()
    ]  # fmt: skip
    spec.write_text(json.dumps({"version": 1, "task": task.kind, "checks": checks}), encoding="utf-8")
    options = ["--wait", str(PATIENCE_S), "--allow-network", "--report", str(report)]
    command = [sys.executable, "-m", "worldstate_check", "verify", str(spec), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(spec).parent)
    if not report.exists():
        raise RuntimeError(done.stdout + done.stderr)
    return TOLD[json.loads(report.read_text(encoding="utf-8"))["verdict"]]


if __name__ == "__main__":
    serve(run)
