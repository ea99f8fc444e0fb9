"""Puts into a ledger in memory what an earlier run of the same contract would have left: its search found an effect."""

from __future__ import annotations

from readback.lifecycle.plan import Plan
from readback.lifecycle.verify import sighting
from readback.ports.store import LedgerStore
from readback.testing.store_memory import MemoryStore


def prove(store: LedgerStore, tenant: str, plan: Plan) -> None:
    """From here on, a complete search of this contract that finds nothing shows that nothing is there.

    A ledger in a file is left as it is: what its tests look at does not depend on a search.
    """
    if isinstance(store, MemoryStore):
        subject, name = sighting(plan.contract)
        store._content.counts[tenant, subject, name] = 1
