"""`readback bench`: print the measurements as a table, or as one JSON object. `make bench` runs the same code."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from readback.bench.measure import everything
from readback.canon import Json

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


GATEWAY_MARKS: Final = (
    ("stdio_governed_added", "added by a contract over stdio, less its readings, in plain calls", "at most 2.5"),
    ("http_governed_added", "added by a contract over HTTP, less its readings, in plain calls", "at most 2.5"),
    ("stdio_unverified_added", "added without a contract, marked, over stdio, in plain calls", "at most 1.5"),
    ("http_unverified_added", "added without a contract, marked, over HTTP, in plain calls", "at most 1.5"),
    ("stdio_passed_added", "added without a contract, passed on, over stdio, in plain calls", "at most 1.5"),
    ("http_passed_added", "added without a contract, passed on, over HTTP, in plain calls", "at most 1.5"),
    ("readings_ms", "what the readings of one governed call cost by themselves, ms", ""),
    ("stdio_governed_times", "a governed call over stdio, its readings with it, times the plain call", ""),
    ("http_governed_times", "a governed call over HTTP, its readings with it, times the plain call", ""),
    ("stdio_unverified_times", "a call without a contract, marked, over stdio, times the plain call", ""),
    ("http_unverified_times", "a call without a contract, marked, over HTTP, times the plain call", ""),
    ("stdio_cpu", "the gateway's processor time for one call over stdio, ms", ""),
    ("http_cpu", "the gateway's processor time for one call over HTTP, ms", ""),
    ("stdio_lost", "lost of 1,000 calls in flight over stdio", "0"),
    ("http_lost", "lost of 1,000 calls in flight over HTTP", "0"),
    ("grown_mb", "what a gateway's memory grew from call 10,000 to 20,000, MB", "at most 16"),
)


def run_bench(as_json: bool = False, gateway: bool = False) -> int:
    """Measure, print, and return 0. Figures never fail the command."""
    if gateway:
        from readback.bench.gateway import gateway_measures as measures
    else:
        measures = everything
    result = measures(lambda what: _say(f"measuring: {what}"))
    marks = GATEWAY_MARKS if gateway else MARKS
    sys.stdout.write(json.dumps(result) + "\n" if as_json else table(result, marks))
    return 0


def table(result: Mapping[str, Json], marks: Sequence[tuple[str, str, str]] = MARKS) -> str:
    """The figures beside their marks."""
    wide = max(len(what) for _, what, _ in marks)
    far = max(16, *(len(_figure(result[key])) for key, _, _ in marks))
    lines = [f"{'':{wide}} {'here':>{far}}   mark".rstrip()]
    lines += [f"{what:{wide}} {_figure(result[key]):>{far}}   {mark}".rstrip() for key, what, mark in marks]
    lines.append("raw: " + json.dumps(result["raw"]))
    return "\n".join(lines) + "\n"


def _figure(value: Json) -> str:
    """One figure, or several by name."""
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, dict) else str(value)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(run_bench("--json" in sys.argv, "--gateway" in sys.argv))
