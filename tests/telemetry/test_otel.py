"""The series as instruments of OpenTelemetry: the same numbers, from one fold an export."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions, NoOpMeter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from readback.errors import StoreCorruptError
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.metrics import ALL_SERIES
from readback.telemetry.metrics_otel import instrument
from tests.telemetry.history import NOW_US, ledger, nineteen

Callback = Callable[[CallbackOptions], Iterable[Observation]]


class Recorder(NoOpMeter):
    """A meter that keeps its instruments, and reads them as an exporter does."""

    def __init__(self) -> None:
        super().__init__("readback")
        self.kinds: dict[str, str] = {}
        self.callbacks: dict[str, Callback] = {}

    def keep(self, kind: str, name: str, callbacks: Sequence[Any]) -> Any:
        assert name not in self.kinds, "two instruments of one name"
        self.kinds[name] = kind
        (self.callbacks[name],) = callbacks

    def create_observable_counter(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        return self.keep("counter", name, callbacks)

    def create_observable_up_down_counter(
        self, name: str, callbacks: Any = None, unit: str = "", description: str = ""
    ) -> Any:
        return self.keep("up_down_counter", name, callbacks)

    def create_observable_gauge(self, name: str, callbacks: Any = None, unit: str = "", description: str = "") -> Any:
        return self.keep("gauge", name, callbacks)

    def export(self) -> dict[str, list[Observation]]:
        return {name: [*callback(CallbackOptions())] for name, callback in self.callbacks.items()}


def value(found: dict[str, list[Observation]], name: str, **labels: str) -> float:
    """The only value with these labels."""
    (one,) = [each for each in found[name] if labels.items() <= dict(each.attributes or {}).items()]
    return one.value


def test_every_series_is_an_instrument_with_the_numbers_of_the_ledger(tmp_path: Path) -> None:
    meter = Recorder()
    histograms = sum(series.kind == "histogram" for series in ALL_SERIES)
    assert (
        instrument(meter, LedgerMetrics(ledger(tmp_path, nineteen()), lambda: NOW_US)) == len(ALL_SERIES) + histograms
    )
    found = meter.export()
    assert value(found, "readback.executed", contract="pay") == 13
    assert value(found, "readback.verifications", contract="pay", verdict="refuted") == 4
    assert value(found, "readback.verification.count", contract="pay") == 9
    assert value(found, "readback.verification.sum", contract="pay") > 0
    assert value(found, "readback.pending_actions", contract="pay", over_sla="true") == 1
    kinds = {
        name: meter.kinds[name] for name in ("readback.executed", "readback.unknown_actions", "readback.last_verified")
    }
    assert set(kinds.values()) == {"counter", "up_down_counter", "gauge"}


def test_an_export_folds_once_and_the_next_export_sees_new_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = nineteen()
    store, meter = ledger(tmp_path, history), Recorder()
    metrics = LedgerMetrics(store, lambda: NOW_US)
    folds: list[int] = []
    families = metrics.families
    monkeypatch.setattr(metrics, "families", lambda: folds.append(1) or families())
    instrument(meter, metrics)
    meter.export()
    assert len(folds) == 1
    done = len(history.appends)
    history.action("pay", 300).done(300)
    history.write(store, done)
    assert value(meter.export(), "readback.executed", contract="pay") == 14
    assert len(folds) == 2


def test_a_ledger_that_cannot_be_read_gives_no_numbers_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, meter = ledger(tmp_path, nineteen()), Recorder()
    instrument(meter, LedgerMetrics(store, lambda: NOW_US))

    def broken(after_seq: int = 0) -> object:
        raise StoreCorruptError("Entry 7 is damaged.")

    monkeypatch.setattr(store, "scan", broken)
    with caplog.at_level(logging.WARNING, "readback.metrics"):
        found = meter.export()
    assert not any(found.values())
    assert [record.readback_code for record in caplog.records] == ["store.corrupt"]  # type: ignore[attr-defined]


def test_an_exporter_of_the_sdk_receives_the_numbers(tmp_path: Path) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    metrics = LedgerMetrics(ledger(tmp_path, nineteen()), lambda: NOW_US)
    instrument(provider.get_meter("readback"), metrics)
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): point.value  # type: ignore[union-attr]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    verdicts = {
        dict(labels)["verdict"]: value
        for (name, labels), value in found.items()
        if name == "readback.verifications" and dict(labels)["contract"] == "pay"
    }
    assert verdicts == {"verified": 5, "refuted": 4, "undetermined": 2}
    provider.shutdown()
