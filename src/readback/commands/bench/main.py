"""`readback bench`: the measurements as a table, or as one JSON object. The command line and `make bench` start it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Final

from readback.canon import Json
from readback.commands.bench.measure import everything

MARKS: Final = (
    ("sequential_over_floor", "one after another, times the floor's two commits", "at most 2.0"),
    ("inflight_16_of_floor", "16 in flight, share of the floor's rate", ""),
    ("inflight_256_of_floor", "256 in flight, share of the floor's rate", "at least 0.20"),
    ("waiting_100k_rss_mb", "a worker's memory with 100,000 actions waiting, MB", "under 400"),
    ("resume_first_due_s", "the first due one of them moved, seconds after the start", "within 2"),
    ("proof_of_a_million_ms", "a proof for one of 1,000,000 sealed entries, ms", "under 5"),
    ("proof_of_a_million_bytes", "the same, bytes", "under 4096"),
    ("verify_per_s", "`ledger verify`, entries a second", "at least 30,000"),
    ("sealing_cost", "sealing, share of the rate at 256 in flight", "at most 0.15"),
)


def run_bench(as_json: bool = False) -> int:
    """Measures, prints, and ends with 0: a figure is for reading, not for failing."""
    result = everything(lambda what: _say(f"measuring: {what}"))
    sys.stdout.write(json.dumps(result) + "\n" if as_json else table(result))
    return 0


def table(result: Mapping[str, Json]) -> str:
    """The figures with the marks they are held against."""
    lines = [f"{'':60} {'here':>8}   mark"]
    lines += [f"{what:60} {result[key]!s:>8}   {mark}" for key, what, mark in MARKS]
    lines.append("raw: " + json.dumps(result["raw"]))
    return "\n".join(lines) + "\n"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(run_bench("--json" in sys.argv))
