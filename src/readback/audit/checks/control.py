"""Audit of freezes and incidents: derived again from the entries, and compared.

Called by the audit: `take` for the entries of each action, in any order, and `compare` at the end, which applies the
entries in the order of the log. A difference caused by a concurrent writer is checked again before it is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, fields, replace
from operator import itemgetter
from typing import Final

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.events import ParsedEnvelope, open_envelope
from readback.engine.entries.side_records import FreezeAndIncidentChanges
from readback.ports.storage.store import Freeze, Incident, LedgerStore, StoredEvent

LOOKS_MAX: Final = 5
UNPLACED_MAX: Final = 10_000
"""Most entries without a sequence number to read."""


@dataclass(slots=True)
class Controls:
    """The freezes and incidents that follow from the entries up to some sequence number."""

    freezes: dict[tuple[str, str, str], Freeze] = field(default_factory=dict)
    incidents: dict[tuple[str, str], Incident] = field(default_factory=dict)
    tenants: set[str] = field(default_factory=set)
    """Every tenant with actions."""
    _open: dict[tuple[str, str], str] = field(default_factory=dict)
    """The id of the open incident of a (tenant, cause)."""
    _marked: list[tuple[int, ParsedEnvelope]] = field(default_factory=list)
    """Entries with an effect on freezes or incidents, with their sequence numbers."""
    _ahead: set[tuple[str, int]] = field(default_factory=set)
    """Entries applied before they had a sequence number, by action and version."""

    def take(self, entries: Sequence[StoredEvent], said: Sequence[ParsedEnvelope]) -> None:
        """Collect further entries of the log, given with their parsed content.

        An entry without any of these keys affects neither freezes nor incidents. An incident also has a severity.
        """
        self._marked += [
            (entries[at].seq, one)
            for at, one in enumerate(said)
            if "severity" in (data := one.event.data) or "freeze" in data or "lift" in data or "closes" in data
        ]

    def _read(self, stored: StoredEvent) -> None:
        """Apply an entry from a concurrent writer. An unreadable entry is reported by another check."""
        try:
            opened = open_envelope(stored.envelope)
        except ReadbackError:
            return
        entry = (opened.action_id, opened.version)
        if entry in self._ahead:
            return
        if not stored.seq:
            self._ahead.add(entry)
        self.heard(opened)

    def heard(self, opened: ParsedEnvelope) -> None:
        """Apply the freezes and incidents of one entry."""
        event = opened.event
        control = FreezeAndIncidentChanges()
        control.take(opened.tenant, opened.action_id, opened.version, event.at_us, event.data)
        for freeze in control.freezes:
            self.freezes.setdefault((freeze.tenant, freeze.subject, freeze.action_id), freeze)
        for subject in control.lifts:
            self.freezes.pop((opened.tenant, subject, opened.action_id), None)
        for incident in control.incidents:
            self._opened(incident)
        for incident_id in control.closes:
            self._closed(opened.tenant, incident_id, event.at_us)

    def _opened(self, incident: Incident) -> None:
        known = self._open.setdefault((incident.tenant, incident.cause), incident.id)
        at = (incident.tenant, known)
        before = self.incidents.get(at)
        self.incidents[at] = incident if before is None else replace(before, seen=before.seen + 1)

    def _closed(self, tenant: str, incident_id: str, at_us: int) -> None:
        incident = self.incidents.get((tenant, incident_id))
        if incident is not None and not incident.closed_us:
            self.incidents[tenant, incident_id] = replace(incident, closed_us=at_us)
            self._open.pop((tenant, incident.cause), None)

    def compare(self, store: LedgerStore, head_seq: int) -> list[tuple[str, str]]:
        """Return (action id, fault) for each row in contradiction to the entries up to `head_seq`.

        A row follows its entry at once, but the entry's sequence number may come later. Before reporting a difference,
        the check therefore reads newer and unsequenced entries too.
        """
        for seq, opened in sorted(self._marked, key=itemgetter(0)):
            if 0 < seq <= head_seq:
                self.heard(opened)
        self._marked.clear()
        wrong: list[tuple[str, str]] = []
        for _ in range(LOOKS_MAX):
            wrong = [*self._freezes(store), *self._incidents(store)]
            if not wrong:
                break
            read, ahead = head_seq, len(self._ahead)
            for stored in store.scan(read):
                self._read(stored)
                head_seq = stored.seq
            for stored in store.unsequenced(UNPLACED_MAX):
                self._read(stored)  # last: unsequenced entries come after all others
            if (head_seq, len(self._ahead)) == (read, ahead):
                break
        return wrong

    def _freezes(self, store: LedgerStore) -> Iterator[tuple[str, str]]:
        tenants = sorted(self.tenants | {tenant for tenant, _, _ in self.freezes})
        held = {(f.tenant, f.subject, f.action_id): f for tenant in tenants for f in store.freezes(tenant)}
        for at in sorted(self.freezes.keys() | held.keys()):
            wanted, found = self.freezes.get(at), held.get(at)
            if wanted == found:
                continue
            if found is None:
                yield at[2], f"{at[1]!r} was frozen by action {at[2]}, and the freeze is missing."
            elif wanted is None:
                yield at[2], f"{at[1]!r} is frozen in the name of action {at[2]}, and no entry says so."
            else:
                yield at[2], f"The freeze of {at[1]!r} by action {at[2]} is {_differences(found, wanted)}."

    def _incidents(self, store: LedgerStore) -> Iterator[tuple[str, str]]:
        held = {(i.tenant, i.id): i for i in store.incidents(open_only=False)}
        for at in sorted(self.incidents.keys() | held.keys()):
            wanted, found = self.incidents.get(at), held.get(at)
            if found is None:
                assert wanted is not None
                yield wanted.action_id, f"Incident {at[1]} was opened, and is missing."
            elif wanted is None:
                yield found.action_id, f"Incident {at[1]} exists, and no entry opened it."
            elif found != wanted:
                yield found.action_id, f"Incident {at[1]} is {_differences(found, wanted)}."


def _differences(found: Freeze | Incident, wanted: Freeze | Incident) -> str:
    names = [f.name for f in fields(found)]
    differ = [name for name in names if getattr(found, name) != getattr(wanted, name)]
    said = (f"{name} {getattr(found, name)!r} beside {getattr(wanted, name)!r}" for name in differ)
    return "recorded with " + ", ".join(said)
