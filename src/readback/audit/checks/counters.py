"""The part of the audit that looks at counters: none stands higher than the entries can have moved it.

Called by audit: `read` for each action, and `compare` at the end. A counter decides: one of faults holds new actions,
and one of sightings lets the silence of a search free a key. Entries that are written meanwhile explain a counter too.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, Opened, open_envelope
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.store_rules import PACE

UNPLACED_MAX: Final = 10_000
_JUDGED, _READ, _PROPOSED = EventKind.JUDGED, EventKind.READ, EventKind.PROPOSED
_NAMES_A_HASH: Final = frozenset({EventKind.PROPOSED, EventKind.ADMITTED})
_BLIND: Final = frozenset({EventKind.REJECTED, EventKind.WATCHED, EventKind.JUDGED})
"""Entries that may have counted a fault of a source that they do not name."""
_CONTRACT, _SOURCE, _SIGHTED = "contract:", "source:", "sighted:"


@dataclass(slots=True)
class Counters:
    """What the entries up to some place may have counted."""

    tenants: set[str] = field(default_factory=set)
    judged: Tally[tuple[str, str]] = field(default_factory=Tally)
    """By tenant and contract: how many judgements there are."""
    read_of: set[tuple[str, str]] = field(default_factory=set)
    """Tenant and source of each reading."""
    blind: set[str] = field(default_factory=set)
    """Tenants with entries that may have counted a fault of any source."""
    sighted: set[tuple[str, str, str]] = field(default_factory=set)
    """Tenant, contract and the first half of its hash, where a search found an effect by the stamp."""

    def read(self, opened: Iterable[Opened]) -> None:
        """The entries of one action, from its proposal on."""
        contract, digest = "", ""
        for one in opened:
            event, tenant = one.event, one.tenant
            self.tenants.add(tenant)
            kind = event.kind
            contract = str(event.data.get("contract", "")) if kind is _PROPOSED else contract
            if kind in _NAMES_A_HASH and event.data.get("contract_hash"):
                digest = str(event.data["contract_hash"])
            if kind is _READ:
                self.read_of.add((tenant, str(event.data.get("source"))))
                if event.data.get("sighted") is True:
                    self.sighted.add((tenant, contract, digest[:16]))
            if kind is _JUDGED:
                self.judged[tenant, contract] += 1
            if kind in _BLIND:
                self.blind.add(tenant)

    def compare(self, store: LedgerStore, head_seq: int) -> list[str]:
        """What is wrong, a sentence each."""
        wrong = self._wrong(store)
        if not wrong:
            return wrong
        later = [*store.scan(head_seq), *store.unplaced(UNPLACED_MAX)]
        for action_id in {stored.action_id for stored in later}:
            try:
                self.read(open_envelope(each.envelope) for each in store.events(action_id))
            except ReadbackError:
                continue  # named by its place
        return self._wrong(store)

    def _wrong(self, store: LedgerStore) -> list[str]:
        return [what for tenant in sorted(self.tenants) for what in self._of(tenant, store)]

    def _of(self, tenant: str, store: LedgerStore) -> Iterator[str]:
        for subject, name, value in store.counts(tenant):
            most = self._most(tenant, subject, name)
            if subject != PACE and most is not None and value > most:
                told = f"Tenant {tenant} counts {value} of {name!r} for {subject!r}"
                yield f"{told}, and its entries can have counted {most}."

    def _most(self, tenant: str, subject: str, name: str) -> int | None:
        """How far the entries can have moved a counter; None where they do not bound it."""
        what, contract = name.removeprefix(_SIGHTED), subject.removeprefix(_CONTRACT)
        if subject.startswith(_CONTRACT) and name.startswith(_SIGHTED):
            return self.judged[tenant, contract] + 1 if (tenant, contract, what) in self.sighted else 0
        if subject.startswith(_CONTRACT) and name == "mismatch":
            return self.judged[tenant, contract]
        if subject.startswith(_SOURCE) and name == "verifier_error":
            named = (tenant, subject.removeprefix(_SOURCE)) in self.read_of
            return None if named or tenant in self.blind else 0
        return 0
