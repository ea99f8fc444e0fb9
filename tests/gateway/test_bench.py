"""`readback bench --gateway`, in small: every figure is there, and of calls in flight none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workers import forks

pytest.importorskip("mcp")


@pytest.mark.slow
@pytest.mark.requirement("GATEWAY-measured")
def test_the_measure_of_the_gateway_has_every_figure_and_loses_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from readback.bench import gateway
    from readback.bench.main import GATEWAY_MARKS, table

    monkeypatch.chdir(tmp_path)
    # Its servers and gateways are forked: what is measured is their calls.
    monkeypatch.setattr(sys, "executable", f"{forks.programs()}/python")
    sizes = {"ROUNDS": 2, "SLICES": 1, "CALLS": 4, "IN_FLIGHT": 30, "LONG_WARM": 8, "LONG_CALLS": 24, "LONG_WIDTH": 4}
    for name, size in sizes.items():
        monkeypatch.setattr(gateway, name, size)
    found: Any = gateway.gateway_measures(lambda what: None)
    assert found["stdio_lost"] == found["http_lost"] == 0, found["raw"]
    assert all(found[key]["p50"] > 0 for key, _, _ in GATEWAY_MARKS if key.endswith("_times"))
    for transport in ("stdio", "http"):
        measured = found["raw"][transport]
        assert measured["readings_ms"] > 0
        for name in ("governed", "unverified", "passed"):
            assert found[f"{transport}_{name}_times"]["p50"] > found[f"{transport}_{name}_added"]["p50"]
        assert found[f"{transport}_cpu"].keys() == {"passed", "unverified", "governed"}
    drawn = table(found, GATEWAY_MARKS)
    assert all(what in drawn and mark in drawn for _, what, mark in GATEWAY_MARKS)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.requirement("GATEWAY-measured")
def test_processor_time_is_that_of_the_process_alone() -> None:
    from readback.bench.gateway import _cpu_ms

    before_ms = _cpu_ms(os.getpid())
    sum(range(2_000_000))
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
    assert 1 < _cpu_ms(os.getpid()) - before_ms < time.process_time() * 1000


@pytest.mark.requirement("GATEWAY-measured")
def test_a_call_is_held_against_the_plain_ones_of_its_own_slice() -> None:
    from readback.bench.gateway import _figures

    def taken(plain: float, times: float) -> dict[str, list[list[float]]]:
        names = {"put": plain, "governed": plain * times + 2, "answer": plain, "unverified": plain * times}
        slices = {name: [[each] * 3, [each * 10] * 3] for name, each in {**names, "passed": plain}.items()}
        slices["governed"] = [[plain * times + 2] * 3, [plain * 10 * times + 2] * 3]
        return {**slices, "readings": [[1.0, 1.0]]}

    found: Any = _figures([taken(1.0, 2.0), taken(5.0, 2.0), taken(3.0, 2.0)])
    assert (found["unverified_times"]["p50"], found["passed_times"]["p99"]) == (2.0, 1.0)
    assert (found["unverified_added"]["p50"], found["passed_added"]["p99"]) == (1.0, 0.0)
    assert (found["governed_added"]["p50"], found["readings_ms"]) == (1.0, 2.0)
    assert found["governed_times"]["p50"] > 2.0
    assert found["answer_ms"]["p50"] == 7.5
