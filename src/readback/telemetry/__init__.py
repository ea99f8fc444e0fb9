"""Public: telemetry, made from the ledger and off the path of every action.

`metrics_of` returns the metrics of a ledger. `MetricsServer` serves the metrics to Prometheus, and `instrument` serves
OpenTelemetry. `export_spans` sends the spans of a ledger to a tracing backend. `spans_of` returns the
spans of one action as values.

Example:
    >>> from readback import Readback, verified
    >>> from readback.telemetry import spans_of
    >>> lamp = {"on": False}
    >>> def switch_on() -> None: lamp["on"] = True
    >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
    >>> with Readback.open("memory:") as rb:
    ...     spans = spans_of(rb, rb.run(switch()).id)
    >>> [span.name for span in spans][-1]
    'readback.call switch_on'
"""

from readback.telemetry.fold_reader import LedgerMetrics, metrics_of
from readback.telemetry.metrics_otel import instrument
from readback.telemetry.prometheus import MetricsServer
from readback.telemetry.spans_export import export_spans, spans_of

__all__ = ["LedgerMetrics", "MetricsServer", "export_spans", "instrument", "metrics_of", "spans_of"]
