"""Audit of counters: no counter is higher than the entries allow.

Called by the audit: `read` for each action, and `compare` at the end. Counters decide: a fault counter stops new
actions, and a sighting counter lets an empty search release a key. Entries of concurrent writers also count.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.store_rules import PACE

UNPLACED_MAX: Final = 10_000
_JUDGED, _READ, _PROPOSED = EventKind.JUDGED, EventKind.READ, EventKind.PROPOSED
_NAMES_A_HASH: Final = frozenset({EventKind.PROPOSED, EventKind.ADMITTED})
_BLIND: Final = frozenset({EventKind.REJECTED, EventKind.WATCHED, EventKind.JUDGED})
"""Entries that may have counted a fault of an unnamed source."""
_CONTRACT, _SOURCE, _SIGHTED = "contract:", "source:", "sighted:"


@dataclass(slots=True)
class Counters:
    """Upper limits of the counters, from the entries up to some sequence number."""

    tenants: set[str] = field(default_factory=set)
    judged: Tally[tuple[str, str]] = field(default_factory=Tally)
    """Number of judgements, by tenant and contract."""
    read_of: set[tuple[str, str]] = field(default_factory=set)
    """Tenant and source of each reading."""
    blind: set[str] = field(default_factory=set)
    """Tenants with entries that may have counted a fault of any source."""
    sighted: set[tuple[str, str, str]] = field(default_factory=set)
    """Tenant, contract and the first half of its hash, for each effect found by its stamp."""

    def read(self, opened: Iterable[ParsedEnvelope]) -> None:
        """Add the entries of one action, starting with its proposal."""
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
        """Return one sentence for each fault."""
        wrong = self._wrong(store)
        if not wrong:
            return wrong
        later = [*store.scan(head_seq), *store.unsequenced(UNPLACED_MAX)]
        for action_id in {stored.action_id for stored in later}:
            try:
                self.read(open_envelope(each.envelope) for each in store.events(action_id))
            except ReadbackError:
                continue  # reported by its sequence number
        return self._wrong(store)

    def _wrong(self, store: LedgerStore) -> list[str]:
        return [what for tenant in sorted(self.tenants) for what in self._of(tenant, store)]

    def _of(self, tenant: str, store: LedgerStore) -> Iterator[str]:
        for subject, name, value in store.counts(tenant):
            most = self._most(tenant, subject, name)
            if subject != PACE and most is not None and value > most:
                told = f"Tenant {tenant} counts {value} of {name!r} for {subject!r}"
                yield f"{told}, and its entries allow at most {most}."

    def _most(self, tenant: str, subject: str, name: str) -> int | None:
        """Return the highest value the entries allow for a counter. None: no limit."""
        what, contract = name.removeprefix(_SIGHTED), subject.removeprefix(_CONTRACT)
        if subject.startswith(_CONTRACT) and name.startswith(_SIGHTED):
            return self.judged[tenant, contract] + 1 if (tenant, contract, what) in self.sighted else 0
        if subject.startswith(_CONTRACT) and name == "mismatch":
            return self.judged[tenant, contract]
        if subject.startswith(_SOURCE) and name == "verifier_error":
            named = (tenant, subject.removeprefix(_SOURCE)) in self.read_of
            return None if named or tenant in self.blind else 0
        return 0
