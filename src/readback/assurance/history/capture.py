"""Capture a stratified corpus of replay bundles from a ledger, for later runs of the gates.

Called by `readback gates capture`. Each cell (contract, verdict, class, row) gives up to `per_cell` bundles, the newest
first. The corpus holds payloads as the ledger does, so the files are readable by their owner alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import readback.bootstrap as bootstrap
from readback.assurance.faults import GatesError, HistoryError
from readback.assurance.history.recorded import INDEX, INDEX_FORMAT, Selection, ledger_url
from readback.assurance.history.verdicts import Cell
from readback.audit.record.action import is_action
from readback.audit.record.bundle import make_bundle
from readback.canon import Json, ReadbackError, json_text
from readback.canon.frozen import dataclass
from readback.config import shown
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.ports.storage.store import LedgerStore, StoredProjection


@dataclass(frozen=True, slots=True)
class Captured:
    """The result of a capture. `actions`: the ids of the written bundles. `cells`: seen and written actions of each
    cell. `refused`: actions without a bundle.
    """

    folder: str
    actions: tuple[str, ...]
    cells: Mapping[Cell, tuple[int, int]]
    refused: Mapping[str, str]

    def as_json(self) -> dict[str, Json]:
        """Return the index of the corpus."""
        listed: list[Json] = [
            {
                "contract": cell.contract,
                "verdict": cell.verdict,
                "discrepancy": cell.discrepancy,
                "row": cell.row,
                "seen": seen,
                "written": written,
            }
            for cell, (seen, written) in sorted(self.cells.items(), key=lambda each: each[0].text())
        ]
        return {
            "format": INDEX_FORMAT,
            "bundles": self.bundles,
            "actions": [*self.actions],
            "cells": listed,
            "refused": dict(self.refused),
        }

    @property
    def bundles(self) -> int:
        """The number of written bundles."""
        return len(self.actions)


def capture(
    ledger: str,
    folder: Path,
    per_cell: int,
    chosen: Selection | None = None,
    tables: tuple[RecoveryTable, ...] = (DEFAULT_TABLE,),
    progress: Callable[[int], None] = lambda _: None,
) -> Captured:
    """Write the corpus into an empty or new folder. Raises GatesError, HistoryError, StoreError."""
    if per_cell < 1:
        raise GatesError(f"--per-cell must be at least 1 (got {per_cell}).", remedy="Pass --per-cell 20.")
    if folder.exists() and any(folder.iterdir()):
        raise GatesError(f"The folder {str(folder)!r} is not empty.", remedy="Name a new folder.")
    store = bootstrap.store(ledger_url(ledger), read_only=True)
    try:
        seen, picked = _picked(store, per_cell, chosen or Selection())
        if not seen:
            raise HistoryError(f"The ledger {shown(ledger)!r} has no judged action.", remedy="Name another ledger.")
        folder.mkdir(parents=True, exist_ok=True)
        written: dict[Cell, int] = {}
        actions: list[str] = []
        refused: dict[str, str] = {}
        for number, (cell, tenant, action_id) in enumerate(picked, 1):
            progress(number)
            try:
                data = bundle_of(store, tenant, action_id, tables)
            except ReadbackError as error:
                refused[action_id] = error.message
                continue
            bootstrap.keep_file(folder / f"{action_id}.json", data, private=True)
            written[cell] = written.get(cell, 0) + 1
            actions.append(action_id)
    finally:
        store.close()
    cells = {cell: (many, written.get(cell, 0)) for cell, many in seen.items()}
    found = Captured(str(folder), tuple(actions), cells, refused)
    bootstrap.keep_file(folder / INDEX, json_text(found.as_json(), indent=2).encode() + b"\n", private=True)
    return found


def _picked(
    store: LedgerStore, per_cell: int, chosen: Selection
) -> tuple[dict[Cell, int], Iterator[tuple[Cell, str, str]]]:
    """Return the seen actions of each cell, and the newest of each. An action's id grows with time."""
    seen: dict[Cell, int] = {}
    kept: dict[Cell, list[tuple[int, str, str]]] = {}
    for held in store.projections(chosen.tenant):
        one = held.projection
        if not one.verdict or not chosen.fits(one.tenant, one.created_us):
            continue
        cell = _cell(held)
        seen[cell] = seen.get(cell, 0) + 1
        heap = kept.setdefault(cell, [])
        heapq.heappush(heap, (one.created_us, one.action_id, one.tenant))
        if len(heap) > per_cell:
            heapq.heappop(heap)
    return seen, ((cell, tenant, action_id) for cell, heap in kept.items() for _, action_id, tenant in sorted(heap))


def _cell(held: StoredProjection) -> Cell:
    one = held.projection
    return Cell(one.contract, one.verdict, one.discrepancy, one.row)


def bundle_of(
    store: LedgerStore, tenant: str, action_id: str, tables: tuple[RecoveryTable, ...], proof: bytes | None = None
) -> bytes:
    """Return the bundle of an action. Raises HistoryError where a part of the record is missing."""
    events = store.events(action_id)
    if not is_action(events):
        raise HistoryError(f"{action_id} is a saga.")

    def load(digest: str) -> bytes | None:
        for keeper in (action_id, ""):
            found = store.evidence(tenant, keeper, digest)
            if found is not None:
                return found.body
        if not store.erased(tenant, action_id, digest):
            raise HistoryError(f"The evidence {digest} of action {action_id} is missing.")
        return None

    return make_bundle(events, load, tables, proof)
