"""verimcp: its proxy in front of the tool's MCP server, with a verifier of ours as a plugin.

A verifier is an entry point of the group `verimcp.verifiers`, as its documents on writing one say. A failed check makes
an error of the tool's answer. The interface has no third result, so the verifier leaves an unread answer unchanged, as
the shipped verifiers do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.proxied.bridge import Bridge, called_through
from bench.hallucinated_success.tasks import FAILED, SUCCESS, Task
from bench.side_by_side.environments import ROOT

ENTRY = "[verimcp.verifiers]\norders = bench.hallucinated_success.proxied.verimcp_verifier:OrderVerifier\n"


def run(task: Task) -> str:
    plugin = Path(task.world.path.parent, "bench_verifier-1.0.dist-info")
    plugin.mkdir(exist_ok=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-verifier\nVersion: 1.0\n", encoding="utf-8")
    (plugin / "entry_points.txt").write_text(ENTRY, encoding="utf-8")
    with Bridge(task) as bridge:
        path = os.pathsep.join([str(plugin.parent), str(ROOT)])
        env = {**os.environ, "PYTHONPATH": path, "BENCH_PORT": str(bridge.port), "BENCH_KIND": task.kind}
        proxy = [
            sys.executable,
            "-c",
            "from verimcp.cli import main; raise SystemExit(main())",
            "--verifiers",
            "orders",
        ]
        result = called_through([*proxy, "--"], bridge.port, env)
    return FAILED if result.get("isError") else SUCCESS


if __name__ == "__main__":
    serve(run)
