"""The input of a release gate: the candidate, the incumbent, and recorded actions.

The command line builds the input, and every gate takes the same input. A gate reads from the input and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from readback.assurance.canary.tally import CanaryRun
from readback.assurance.results import Place
from readback.assurance.surfaces import Surface
from readback.audit.record.bundle import Bundle
from readback.canon.frozen import dataclass
from readback.contracts.documents.recovery_tables import TableFault
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.engine.compiled_contract import CompiledContract
from readback.testing.faults.fault import FaultWorld

CELL_MIN: Final = 5
"""Fewest recorded actions of a contract with one verdict, class and row, for a decision about them."""


@dataclass(frozen=True, slots=True)
class VerificationLogic:
    """Contracts by name, and a recovery table.

    `places`: where a contract file states a contract (key "") and each of its keys, such as `ensure.shipped`.
    """

    plans: Mapping[str, CompiledContract]
    table: RecoveryTable = DEFAULT_TABLE
    places: Mapping[str, Mapping[str, Place]] = field(default_factory=dict)
    unknown_table: str = ""
    """The version of the table in force, where its rows are not known."""
    table_path: str = ""
    table_faults: tuple[TableFault, ...] = ()
    """The faults of the table's file. A table with faults is not in `table`, and every gate that needs it fails."""

    def hashes(self) -> dict[str, str]:
        """Return the content hash of each contract, by `name@version`."""
        contracts = sorted((plan.contract for plan in self.plans.values()), key=lambda each: each.name)
        return {f"{each.name}@{each.version}": each.hash for each in contracts}

    def place(self, name: str, key: str = "") -> Place | None:
        """Return the place of a key, else of the nearest enclosing key, else of the contract."""
        known = self.places.get(name, {})
        while key and key not in known:
            key = key.rpartition(".")[0]
        return known.get(key)


@dataclass(frozen=True, slots=True)
class DamagedAction:
    """A recorded action that cannot be opened, with the reason. `name`: its id, or the bundle's file."""

    name: str
    reason: str


Recorded = Bundle | DamagedAction


def no_canaries() -> Sequence[CanaryRun]:
    """Return no canary."""
    return ()


def no_history() -> Iterable[Recorded]:
    """Return the empty history."""
    return ()


@dataclass(frozen=True, slots=True)
class GateInput:
    """The examined logic and the evidence. `history` yields recorded actions, anew on every call.

    `incumbent` None: nothing is in force yet, or no `--against` was given.
    """

    candidate: VerificationLogic
    incumbent: VerificationLogic | None = None
    history: Callable[[], Iterable[Recorded]] = no_history
    cell_min: int = CELL_MIN
    worlds: Mapping[str, FaultWorld] = field(default_factory=dict)
    """Simulated worlds and sandboxes for failure injection and recovery drills, by contract."""
    canaries: Callable[[], Sequence[CanaryRun]] = no_canaries
    """The canaries of the ledger, newest first."""
    kept: Sequence[str] = ()
    """Folders of kept ledgers, bundles and readers of earlier releases."""
    surfaces: Sequence[Surface] = ()
    """The ways in of this installation, for the false-success guard and the unknown-state test."""
