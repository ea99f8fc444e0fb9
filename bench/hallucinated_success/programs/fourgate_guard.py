"""Fourgate: `fourgate guard --mode enforce` in front of the tool's MCP server, with a local command as the verifier.

A confirmed failure prepends a verdict to the tool's answer. An unknown passes through unchanged, as its documents say,
so the caller sees what the tool claims. The verifier's time is Fourgate's maximum of 2 s.
"""

from __future__ import annotations

import json
import os
import sys

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.proxied.bridge import Bridge, called_through
from bench.hallucinated_success.tasks import FAILED, PATIENCE_S, SUCCESS, Task
from bench.side_by_side.environments import ROOT


def run(task: Task) -> str:
    with Bridge(task) as bridge:
        contracts = task.world.path.with_suffix(".contracts.json")
        verifier = ["{python}", "-m", "bench.hallucinated_success.proxied.reading_back", str(bridge.port), task.kind]
        contracts.write_text(
            json.dumps(
                {
                    "contract_version": 1,
                    "tools": {
                        "change_order": {
                            "extract": {"order_id": {"source": "arguments", "path": "order_id"}},
                            "verifier": {
                                "command": [*verifier, str(PATIENCE_S)], "cwd": str(ROOT), "timeout_ms": 2000,
                            },
                            "allowed_failure_reasons": ["field_mismatch"],
                            "recovery": "stop",
                        }
                    },
                }
            )
        )  # fmt: skip
        log = str(contracts.with_suffix(".log"))
        guard = [
            sys.executable,
            "-m",
            "fourgate",
            "guard",
            "--contracts",
            str(contracts),
            "--mode",
            "enforce",
            "--log",
            log,
        ]
        result = called_through([*guard, "--"], bridge.port, dict(os.environ))
    text = " ".join(str(each.get("text", "")) for each in result.get("content", []))
    return FAILED if result.get("isError") or "outcome_failed" in text else SUCCESS


if __name__ == "__main__":
    serve(run)
