"""The part of the audit that looks at erasures: bytes are gone only where an entry says so, and are gone where it does.

Called by audit: `missing` for evidence that is not there, `read` for each action, `compare` at the end, when every
action has been read. An entry takes effect for the action that it belongs to, and for no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.erasure import let_go_by, payloads
from readback.domain.errors import StoreCorruptError
from readback.domain.events import EventKind, Opened, open_envelope
from readback.ports.store import LedgerStore

DOUBTED_MAX: Final = 100_000
"""Payloads that were let go of and are there still: so many are looked for in other actions. About 20 MB."""


@dataclass(slots=True)
class Erasures:
    """What the actions up to some place have let go of, and is there still."""

    doubted: dict[tuple[str, str], str] = field(default_factory=dict)
    """By tenant and digest, the action that let go of it."""

    def read(self, store: LedgerStore, tenant: str, opened: list[Opened]) -> Iterator[str]:
        """One more action. Says what is wrong with its erasures by themselves."""
        if EventKind.ERASED not in [one.event.kind for one in opened]:
            return
        own: set[str] = set()
        for one in opened:
            if one.event.kind is EventKind.ERASED:
                named = one.event.data.get("digests")
                if not isinstance(named, list) or not named or not own.issuperset(str(each) for each in named):
                    yield f"Version {one.version} of action {one.action_id} erases what it does not have."
            own.update(payloads(one.event))
        for digest in let_go_by(opened):
            if len(self.doubted) < DOUBTED_MAX and not store.erased(tenant, digest):
                self.doubted.setdefault((tenant, digest), opened[0].action_id)

    def compare(self, store: LedgerStore) -> list[tuple[str, str]]:
        """(action id, what is wrong) for each payload that was erased, is there, and that no action refers to."""
        left = dict(self.doubted)
        if left:
            for held in store.projections():
                tenant = held.projection.tenant
                try:
                    opened = [open_envelope(each.envelope) for each in store.events(held.projection.action_id)]
                except StoreCorruptError:
                    continue  # said of the entry itself
                found = {digest for one in opened for digest in payloads(one.event) if (tenant, digest) in left}
                for digest in found - let_go_by(opened) if found else ():
                    left.pop((tenant, digest), None)
                if not left:
                    break
        return [
            (action_id, f"Evidence {digest} of action {action_id} was erased, and its bytes are there.")
            for (tenant, digest), action_id in left.items()
            if _is_there(store, tenant, digest)
        ]


def _is_there(store: LedgerStore, tenant: str, digest: str) -> bool:
    try:
        return store.evidence(tenant, digest) is not None
    except StoreCorruptError:
        return False  # said of the evidence itself


def is_gone(store: LedgerStore, tenant: str, digest: str, let_go: frozenset[str]) -> bool:
    """Whether evidence that is not there was erased, as an entry of the action says: only then may it be missing."""
    return digest in let_go and store.erased(tenant, digest)
