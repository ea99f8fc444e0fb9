"""`python -m bench.hallucinated_success [--only NAME ...] [--page]`: run the programs, keep the data, write the page.

A whole run replaces `results.json` and the page. `--only` runs some programs and prints their totals. `--page` writes
the page from the kept data. Each program runs in its own environment, which is built from its lock at first use.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.hallucinated_success.contenders import CONTENDERS, Contender
from bench.hallucinated_success.page import keep, tables
from bench.side_by_side.environments import ROOT, python_of

DATA: Final = Path(__file__).parent / "results.json"
PAGE: Final = ROOT / "docs" / "hallucinated-success.md"
TIMEOUT_S: Final = 900


def main(arguments: Sequence[str]) -> int:
    """Run, print, and keep a whole run."""
    parser = argparse.ArgumentParser(prog="python -m bench.hallucinated_success", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[each.name for each in CONTENDERS])
    parser.add_argument("--page", action="store_true", help="write the page from the kept data")
    asked = parser.parse_args(arguments)
    if asked.page:
        keep(PAGE, tables(json.loads(DATA.read_text(encoding="utf-8"))))
        return 0
    chosen = [each for each in CONTENDERS if not asked.only or each.name in asked.only]
    found = {each.name: runs_of(each) for each in chosen}
    text = tables(found)
    print(text)
    if not asked.only:
        DATA.write_text(written(found), encoding="utf-8")
        keep(PAGE, text)
    return 0


def runs_of(contender: Contender) -> list[dict[str, Any]]:
    """Run one program in its environment. Raises RuntimeError for a program that ends without every result."""
    python = python_of(contender.environment, _say)
    _say(f"running: {contender.title}")
    module = f"bench.hallucinated_success.programs.{contender.name}"
    done = subprocess.run(
        [str(python), "-m", module], capture_output=True, text=True, check=False, cwd=ROOT, timeout=TIMEOUT_S
    )
    if done.returncode:
        raise RuntimeError(f"{contender.title} ended with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def written(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return the data as JSON with a line for each run."""
    programs = []
    for name, runs in found.items():
        lines = ",\n".join(f"  {json.dumps(run, sort_keys=True)}" for run in runs)
        programs.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(programs) + "\n}\n"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
