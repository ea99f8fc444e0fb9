"""The same series as instruments of OpenTelemetry, observed at each export.

Called by programs with an SDK of OpenTelemetry. The package `opentelemetry-api` is needed here only. A counter becomes
an observable counter. A number that falls becomes an observable up-down counter, and a time becomes an observable
gauge. OpenTelemetry has no observable histogram, so a histogram becomes two counters: `.count` and `.sum`, in seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from readback.audit.feedback.tally import Spread
from readback.canon import ReadbackError
from readback.errors import SettingsError
from readback.telemetry.fold_reader import LedgerMetrics, log
from readback.telemetry.metrics import ALL_SERIES, US, Family, Series

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

NAME_PREFIX: Final = "readback."


def instrument(meter: Meter, metrics: LedgerMetrics) -> int:
    """Register an instrument for each series. Return the number of instruments.

    An export folds the new entries of the ledger once. A ledger that cannot be read gives no measurements and one
    warning for each export, and the program continues.

    Args:
        meter: A meter of OpenTelemetry, such as `get_meter("readback")`.
        metrics: The ledger's metrics.

    Raises:
        SettingsError: The package `opentelemetry-api` is not installed.

    Example:
        >>> from opentelemetry.metrics import get_meter
        >>> from readback import Readback
        >>> from readback.telemetry import instrument, metrics_of
        >>> with Readback.open("memory:") as rb:
        ...     instrument(get_meter("readback"), metrics_of(rb)) > 19
        True
    """
    try:
        from opentelemetry.metrics import Observation
    except ModuleNotFoundError as error:
        raise SettingsError(
            "OpenTelemetry is not installed.", remedy="Install it: pip install 'readback-ai[otel]'."
        ) from error
    readings, count = _Readings(metrics), 0
    for series in ALL_SERIES:
        for name, unit, value in _instruments(series):
            callback = _callback(readings, series, name, value, Observation)
            _creator(meter, series)(name, callbacks=[callback], unit=unit, description=series.text)
            count += 1
    return count


class _Readings:
    """One fold for all instruments of an export. Each instrument takes its samples once."""

    def __init__(self, metrics: LedgerMetrics) -> None:
        self._metrics, self._lock = metrics, threading.Lock()
        self._families: dict[str, Family] = {}
        self._taken: set[str] = set()

    def samples(self, series: Series, instrument: str) -> list[tuple[dict[str, str], int | float | Spread]]:
        """Return the samples of a series. The second request of an instrument begins a new export."""
        with self._lock:
            if not self._families or instrument in self._taken:
                self._families = {family.series.name: family for family in self._metrics.families()}
                self._taken.clear()
            self._taken.add(instrument)
            return self._families[series.name].samples


_Value = Callable[[Any], "int | float"]


def _instruments(series: Series) -> Iterable[tuple[str, str, _Value]]:
    """The names, units and values of the instruments of a series."""
    name = NAME_PREFIX + series.name.removesuffix("_total").removesuffix("_seconds").removesuffix("_timestamp")
    if series.kind == "histogram":
        yield name + ".count", "1", lambda spread: spread.count
        yield name + ".sum", "s", lambda spread: spread.total_us / US
    else:
        yield name, "s" if series.name.endswith("_seconds") else "1", lambda value: value


def _creator(meter: Meter, series: Series) -> Callable[..., object]:
    if series.kind != "gauge":
        return meter.create_observable_counter
    is_time = series.name.endswith("_seconds") or series.name == "ledger_position"
    return meter.create_observable_gauge if is_time else meter.create_observable_up_down_counter


def _callback(
    readings: _Readings, series: Series, instrument: str, value: _Value, observation: type[Observation]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> list[Observation]:
        try:
            samples = readings.samples(series, instrument)
        except ReadbackError as error:
            if series is ALL_SERIES[0]:
                log.warning("The metrics are not available: %s", error, extra={"readback_code": error.code})
            return []
        return [observation(value(each), labels) for labels, each in samples]

    return observe
