"""The herald: tells incidents once they are durable, in a thread of its own. Nothing waits for it, and nothing fails.

Woken by the drivers after an append that carried an incident, and by whoever resumes work (`sweep`). What it tells it
takes from the store, so that a wake-up that is lost or doubled changes nothing: an incident that no sink took stays
untold there, and is told by the next process, at least once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from readback.bootstrap import incident_fallback
from readback.domain.errors import StoreError
from readback.ports.runtime import Runtime
from readback.ports.sink import IncidentNotice, IncidentSink
from readback.ports.store import Append, Incident, LedgerStore
from readback.sdk.sealer import Sealer

RETRY_FIRST_US: Final = 5_000_000
RETRY_MAX_US: Final = 600_000_000
"""A sink that did not take an incident is asked again, ever more seldom."""
SWEEP_US: Final = 5_000_000
"""How often whoever stays looks for incidents that nobody told."""
CLOSE_SECONDS: Final = 5.0
"""How long closing waits for an incident that is being told; the next process tells what is left."""


class Herald:
    """Tells the incidents of one opened ledger. Without a sink they go to the file beside it."""

    def __init__(
        self,
        store: LedgerStore,
        runtime: Runtime,
        sinks: Sequence[IncidentSink] = (),
        sealer: Sealer | None = None,
    ) -> None:
        self._store, self._runtime, self._sinks = store, runtime, tuple(sinks)
        self.sealer = sealer
        """Who is told of every append, to seal the log; the drivers find it here."""
        self._lock = threading.Lock()
        self._wanted: set[str] = set()
        """Tenants with something to tell; "" stands for all of them."""
        self._thread: threading.Thread | None = None
        self._retry: dict[tuple[str, str], tuple[int, int]] = {}
        """Incident -> (when it may be told again, the pause before that)."""
        self._swept_us = 0
        self._closed = False

    def hear(self, append: Append) -> None:
        """An append that is durable. Returns at once, whatever becomes of telling it."""
        if append.incidents:
            self._wake(append.tenant)

    def sweep(self, *tenants: str) -> None:
        """Tells what was left untold, by this process or another, as far as it is time for that. Returns at once.

        None named stands for all tenants.
        """
        now_us = self._runtime.now_us()
        if now_us - self._swept_us >= SWEEP_US:
            self._swept_us = now_us
            for tenant in tenants or ("",):
                self._wake(tenant)

    def flush(self, patience_s: float = CLOSE_SECONDS) -> bool:
        """Waits until nothing is being told any more; False where that takes longer than `patience_s`."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(patience_s)
        return thread is None or not thread.is_alive()

    def close(self) -> None:
        """Waits, within its limit, for what is being told."""
        self.flush()
        self._closed = True

    def _wake(self, tenant: str) -> None:
        with self._lock:
            self._wanted.add(tenant)
            if self._closed or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="readback-herald", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending: the next process tells it
                self._thread = None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted or self._closed:
                    self._thread = None
                    return
                tenant = self._wanted.pop()
            try:
                for incident in reversed(self._store.incidents(tenant)):
                    if not incident.told_us:
                        self._tell(incident)
            except StoreError:
                continue  # what is untold stays untold in the ledger, for whoever comes next

    def _tell(self, incident: Incident) -> None:
        at, now_us = (incident.tenant, incident.id), self._runtime.now_us()
        until_us, pause_us = self._retry.get(at, (0, 0))
        if now_us < until_us or self._closed:
            return
        notice = self._notice(incident)
        if self._taken(notice, first=not pause_us):
            self._store.told(incident.tenant, incident.id, max(self._runtime.now_us(), incident.opened_us))
            self._retry.pop(at, None)
            return
        pause_us = min(2 * pause_us or RETRY_FIRST_US, RETRY_MAX_US)
        self._retry[at] = (now_us + pause_us, pause_us)

    def _taken(self, notice: IncidentNotice, *, first: bool) -> bool:
        if not self._sinks:
            return bool(incident_fallback(self._store, notice.as_json()))
        for sink in self._sinks:
            try:
                sink.tell(notice)
            except Exception:  # tidy: boundary -- a sink is anybody's code: whatever it raises, it did not take it
                if first:
                    incident_fallback(self._store, notice.as_json())
                return False
        return True

    def _notice(self, incident: Incident) -> IncidentNotice:
        stored = self._store.projection(incident.action_id)
        about = stored.projection if stored is not None else None
        return IncidentNotice(
            incident.id,
            incident.tenant,
            incident.severity,
            incident.cause,
            incident.action_id,
            incident.opened_us,
            incident.seen,
            about.contract if about is not None else "",
            about.target if about is not None else "",
            about.state if about is not None else "",
            about.review if about is not None else "",
        )
