"""What spans cost: on an action's own path, and in the projector. Run: python -m bench.spans

Times are processor time of this process, the least of several rounds. The live span is compared with a bare span of the
SDK in the same run, so that the load of the machine counts on both sides.
"""

from __future__ import annotations

import gc
import importlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from readback import Readback, verified
from readback.drivers import live_span
from readback.drivers.live_span import begin, with_caller
from readback.engine.compiled_contract import CallerContext
from readback.engine.effects import Called, Dispatch, Ending
from readback.stores.sqlite import open_sqlite_store
from readback.telemetry.projector import Projector

ROUNDS, ACTIONS, GUARDS = 9, 400, 200_000
LEDGER_ACTIONS = 3_000
SPAN_US = 27.0
"""The cost of the bare span on the machine of the budget. The ratio of both holds on any machine."""
GUARD_US_MAX, LIVE_US_MAX, ENTRIES_PER_SECOND_MIN = 1.0, 35.0, 20_000


def main() -> int:
    """Print the figures. Returns 1 where one misses its limit."""
    figures = [
        ("guard an action, no OpenTelemetry loaded", guard_us(), GUARD_US_MAX, "us"),
    ]
    importlib.import_module("opentelemetry.trace")
    figures.append(("guard an action, OpenTelemetry loaded, no span", guard_us(), GUARD_US_MAX, "us"))
    live_us, span_us = live_cost_us()
    missed = live_us / span_us > LIVE_US_MAX / SPAN_US
    for name, value, limit, unit in figures:
        missed |= value > limit
        print(f"{name:52} {value:10.2f} {unit}  (at most {limit:g})")
    print(f"{'live span an action, SDK and batch processor':52} {live_us:10.2f} us")
    print(f"{'a bare SDK span with ten attributes':52} {span_us:10.2f} us  ({SPAN_US:g} on a quiet machine)")
    print(f"{'live span, in bare spans':52} {live_us / span_us:10.2f}     (at most {LIVE_US_MAX / SPAN_US:.2f})")
    rate, grown = projector()
    entry, limit = 1e6 / rate / span_us, 1e6 / ENTRIES_PER_SECOND_MIN / SPAN_US
    missed |= entry > limit
    print(f"{'projector, entries a second on one core':52} {rate:10.0f}")
    print(
        f"{'projector, an entry in bare spans':52} {entry:10.2f}     (at most {limit:.2f}: {ENTRIES_PER_SECOND_MIN}/s)"
    )
    print(f"{'memory grown in the second half of the projection':52} {grown:10d} KiB")
    return int(missed)


def guard_us() -> float:
    """The cost of both guards of an action, without a recording span."""
    scope, step = CallerContext("acme", "agent", run="bench"), cast("Any", None)
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(GUARDS):
            with_caller(scope)
            begin(step, 0)
        spent = time.process_time() - started
        started = time.process_time()
        for _ in range(GUARDS):
            pass
        best = min(best, spent - (time.process_time() - started))
    return best / GUARDS * 1e6


def live_cost_us() -> tuple[float, float]:
    """The cost of a live span an action, and of a bare span of the SDK with ten attributes."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), schedule_delay_millis=60_000, max_queue_size=10**6))
    trace.set_tracer_provider(provider)
    tracer = provider.get_tracer("bench")
    lamp: dict[str, bool] = {"on": False}

    def turn_on() -> None:
        lamp["on"] = True

    switch = verified(turn_on, name="switch", read=lambda: lamp, strong=True, expect={"on": True})
    taken: list[tuple[Dispatch, int]] = []
    real = live_span.begin
    live_span.begin = lambda step, at_us: taken.append((step, at_us))  # type: ignore[assignment]
    with Readback.open("memory:", run="bench") as rb, tracer.start_as_current_span("model inference"):
        rb.run(switch())
    live_span.begin = real
    ((step, at_us),) = taken
    called, scope = Called(Ending.RETURNED, {"status": "ok"}, None, at_us, at_us + 1), CallerContext("acme", "agent")

    def live() -> None:
        with tracer.start_as_current_span("model inference"):
            for _ in range(ACTIONS):
                with_caller(scope)
                span = begin(step, at_us)
                assert span is not None
                span.end(called)

    cost = min(_timed(live) for _ in range(ROUNDS))
    attributes = {f"bench.attribute.{number}": f"value {number}" for number in range(10)}

    def bare() -> None:
        for _ in range(ACTIONS):
            with tracer.start_as_current_span("bare", attributes=attributes):
                pass

    span = min(_timed(bare) for _ in range(ROUNDS))
    return cost / ACTIONS * 1e6, span / ACTIONS * 1e6


def projector() -> tuple[float, int]:
    """Entries a second from a ledger on disk to spans, and the memory grown over the second half in KiB."""
    lamp: dict[str, bool] = {"on": False}

    def turn_on() -> None:
        lamp["on"] = True

    switch = verified(turn_on, name="switch", read=lambda: lamp, strong=True, expect={"on": True})
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "ledger.db"
        with Readback.open(f"sqlite:///{path}", run="bench") as rb:
            for _ in range(LEDGER_ACTIONS):
                lamp["on"] = False
                rb.run(switch())
        store = open_sqlite_store(path)
        try:
            rates, grown = [], 0
            for _ in range(3):
                gc.collect()
                made, seq, entries, half = Projector(store), 0, 0, 0
                last = store.last_seq()
                started = time.process_time()
                while (found := made.after(seq, 1024)).entries:
                    seq, entries = found.last_seq, entries + found.entries
                    if not half and seq > last // 2:
                        half = _resident()
                rates.append(entries / (time.process_time() - started))
                grown = _resident() - half
            return max(rates), grown
        finally:
            store.close()


def _timed(work: Callable[[], None]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
