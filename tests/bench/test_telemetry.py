"""The benchmarks of spans and metrics, in small: each measures real work over a ledger of the asked size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import metrics, spans
from readback.stores.sqlite import open_sqlite_store

ENTRIES = 2_000


@pytest.mark.slow
@pytest.mark.requirement("BENCH-telemetry")
def test_the_metrics_are_measured_over_a_ledger_of_the_asked_size(tmp_path: Path) -> None:
    found = metrics.measure(tmp_path, ENTRIES)
    honest, lie = metrics.templates()
    with_new = found["entries"] + 4 * metrics.NEW_ACTIONS * len(honest)
    assert ENTRIES <= found["entries"] < ENTRIES + max(len(honest), len(lie))
    store = open_sqlite_store(f"sqlite:///{tmp_path / 'ledger.db'}")
    try:
        assert sum(1 for _ in store.scan()) == pytest.approx(with_new, rel=0.2)  # a lie has another number of entries
    finally:
        store.close()
    assert (tmp_path / "kept.json").stat().st_size == found["checkpoint_bytes"]
    assert min(found["fold_per_s"], found["scrape_ms"], found["served_scrape_ms_wall"], found["scrape_bytes"]) > 0


@pytest.mark.requirement("BENCH-telemetry")
def test_the_program_ends_with_1_where_a_figure_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"fold_per_s": 60_000.0, "scrape_ms": 20.0, "served_scrape_ms_wall": 5.0}
    for changed, code in [({}, 0), ({"fold_per_s": 49_000.0}, 1), ({"scrape_ms": 51.0}, 1),
                          ({"served_scrape_ms_wall": 51.0}, 1)]:  # fmt: skip
        monkeypatch.setattr(metrics, "measure", lambda *_, now=changed: {**good, **now})
        assert metrics.main(["--json"]) == code
        assert json.loads(capsys.readouterr().out) == {**good, **changed}


@pytest.mark.requirement("BENCH-telemetry")
def test_the_guard_of_live_spans_is_measured() -> None:
    assert 0 < spans.guard_us() < 1_000
