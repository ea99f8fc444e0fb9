"""The health page's counts: one fold of the log for each tenant, made beside the requests, and bars of recent actions.

The first fold reads the whole log in a thread. A page never waits: it shows the counts of the last finished fold.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.ports.storage.store import ActionFilter
from readback.server.console.rendering import sign_of
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.health import Health, health_of
from readback.views.text import BAD, OK, OPEN

LOG: Final = logging.getLogger("readback.server")
TENANTS_MAX: Final = 64
CONTRACTS_MAX: Final = 40
"""Rows of each table: the page stays within its size."""
BARS_MAX: Final = 40
BAR_STEP: Final = 4
BAR_HEIGHT: Final = 20


@dataclass(frozen=True, slots=True)
class Bar:
    """One action in a strip."""

    sign: str
    x: int
    y: int
    height: int


@dataclass(frozen=True, slots=True)
class Strip:
    """The newest actions of a contract as bars, the newest at the right."""

    bars: tuple[Bar, ...]
    width: int
    label: str

    @property
    def paths(self) -> list[tuple[str, str]]:
        """The bars of each sign as one path of vertical strokes."""
        drawn = {sign: [each for each in self.bars if each.sign == sign] for sign in (OK, BAD, OPEN)}
        return [
            (sign, "".join(f"M{each.x + 1} {each.y}v{each.height}" for each in found))
            for sign, found in drawn.items()
            if found
        ]


@dataclass(slots=True)
class TenantHealth:
    """The health of one tenant: the last finished counts, and whether a fold is running."""

    metrics: LedgerMetrics
    health: Health | None = None
    position: int = 0
    strips: dict[str, Strip] = field(default_factory=dict)
    running: bool = False


class HealthBoard:
    """The counts of each tenant in this process. `stopping`: set when the server ends, before the ledger closes."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        self._lock = threading.Lock()
        self._tenants: dict[str, TenantHealth] = {}

    def of(self, session: Session) -> dict[str, Any]:
        """Return the values of the page, and start a fold of newer entries. Raises StoreError."""
        tenant, store = session.scope.tenant, session.store
        with self._lock:
            found = self._tenants.pop(tenant, None)
            if found is None:
                found = TenantHealth(LedgerMetrics(store, session.runtime.now_us, tenants=(tenant,)))
            self._tenants[tenant] = found
            while len(self._tenants) > TENANTS_MAX:
                del self._tenants[next(iter(self._tenants))]
            if not found.running:
                found.running = True
                threading.Thread(target=self._fold, args=(found, session), name="readback-health", daemon=True).start()
        health = found.health
        return {
            "health": None if health is None else _Shown(health),
            "position": found.position,
            "read": found.metrics.position,
            "total": store.last_seq(),
            "strips": found.strips,
        }

    def _fold(self, found: TenantHealth, session: Session) -> None:
        try:
            fold = found.metrics.refresh()
            health = health_of(fold, lambda name: found.metrics.over_window(fold.pending()[name]))
            strips = ((name, strip_of(session, name)) for name in sorted(health.contracts)[:CONTRACTS_MAX])
            found.strips = {name: strip for name, strip in strips if strip is not None}
            found.position, found.health = fold.position, health
        except ReadbackError as error:  # the last counts stay on the page, and the next request folds again
            if not self._stopping.is_set():
                LOG.warning("The counts of the health page are not new. %s", error, extra={"readback_code": error.code})
        finally:
            found.running = False


class _Shown:
    """Sorted and bounded lists for the template."""

    shown_max = CONTRACTS_MAX

    def __init__(self, health: Health) -> None:
        kinds = (health.contracts, health.tools, health.sources)
        self.left_out = sum(max(len(each) - CONTRACTS_MAX, 0) for each in kinds)
        self.contracts = sorted(health.contracts.items())[:CONTRACTS_MAX]
        self.tools = sorted(health.tools.items())[:CONTRACTS_MAX]
        self.sources = sorted(health.sources.items())[:CONTRACTS_MAX]


def strip_of(session: Session, contract: str) -> Strip | None:
    """Return the bars of the newest actions of a contract; None without an action."""
    page = session.store.page(ActionFilter(session.scope.tenant, contract=contract, limit=BARS_MAX))
    if not page:
        return None
    rows = [each.projection for each in reversed(page)]
    took = [max(each.updated_us - each.created_us, 0) for each in rows]
    longest = max(*took, 1)
    heights = [max(BAR_HEIGHT * each // longest, 3) for each in took]
    bars = tuple(
        Bar(sign_of(row), at * BAR_STEP, BAR_HEIGHT + 1 - height, height)
        for at, (row, height) in enumerate(zip(rows, heights, strict=True))
    )
    counts: Mapping[str, int] = {sign: sum(each.sign == sign for each in bars) for sign in (OK, BAD, OPEN)}
    label = f"Last {len(bars)} actions: {counts[OK]} verified, {counts[BAD]} not, {counts[OPEN]} open"
    return Strip(bars, len(bars) * BAR_STEP, label)
