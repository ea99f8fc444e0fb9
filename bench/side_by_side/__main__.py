"""`python -m bench.side_by_side [--json] [--only NAME ...]`: everything, or some; a whole run is kept on the page.

A figure is for reading, not for failing: it ends with 0 whatever they are.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.side_by_side.contenders import CONTENDERS
from bench.side_by_side.environments import ROOT, python_of
from bench.side_by_side.machine import described, warning
from bench.side_by_side.page import keep, tables
from bench.side_by_side.postgres import PostgresServer
from bench.side_by_side.rounds import measured

PAGE: Final = ROOT / "docs" / "benchmarks.md"
ALL_MAY_PASS: Final = 0o755


def main(arguments: Sequence[str]) -> int:
    """Measures, prints, and keeps what is whole."""
    parser = argparse.ArgumentParser(prog="python -m bench.side_by_side", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the tables")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[each.name for each in CONTENDERS])
    asked = parser.parse_args(arguments)
    chosen = [each for each in CONTENDERS if not asked.only or each.name in asked.only]
    for each in chosen:
        python_of(each.environment, _say)
    with ExitStack() as stack:
        # On the disk that is measured, and not where a system keeps what is temporary in memory.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="readback-bench-", dir="."))).absolute()
        folder.chmod(ALL_MAY_PASS)  # PostgreSQL may run as somebody else
        machine, warned = described(folder), warning()
        server = None
        if any(each.store == "postgres" for each in chosen):
            _say("starting PostgreSQL")
            server = stack.enter_context(PostgresServer(folder))
        settings = server.settings() if server else {}
        found = measured(chosen, folder, server, _say)
    if asked.json:
        print(json.dumps({"machine": machine, "postgres": settings, "programs": [asdict(each) for each in found]}))
        return 0
    text = tables(found, machine, settings, warned)
    print(text)
    if not asked.only:
        keep(PAGE, text)
        _say(f"kept on {PAGE.relative_to(ROOT)}")
    return 0


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
