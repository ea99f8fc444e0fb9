"""The part of the audit that looks at erasures: bytes are gone only where an entry says so, and are gone where it does.

Called by audit: `is_gone` for evidence that is not there, `erasure_faults` for each action. An entry takes effect for
the action that it belongs to, and for no other.
"""

from __future__ import annotations

from collections.abc import Iterator

from readback.domain.action.erasure import let_go_by, payloads
from readback.domain.events import EventKind, Opened
from readback.errors import StoreCorruptError
from readback.ports.storage.store import Kept, LedgerStore


def erasure_faults(store: LedgerStore, tenant: str, opened: list[Opened]) -> Iterator[tuple[str, str]]:
    """(code, what is wrong) with the erasures of one action."""
    if EventKind.ERASED not in [one.event.kind for one in opened]:
        return
    own: set[str] = set()
    for one in opened:
        if one.event.kind is EventKind.ERASED:
            named = one.event.data.get("digests")
            if not isinstance(named, list) or not named or not own.issuperset(str(each) for each in named):
                yield "erasure", f"Version {one.version} of action {one.action_id} erases what it does not have."
        own.update(payloads(one.event))
    action_id = opened[0].action_id
    for digest in let_go_by(opened):
        if not store.erased(tenant, action_id, digest) and _is_there(store, tenant, action_id, digest):
            what = f"Evidence {digest} of action {action_id} was erased, and its bytes are there."
            yield "evidence.not-erased", what


def _is_there(store: LedgerStore, tenant: str, action_id: str, digest: str) -> bool:
    try:
        return store.evidence(tenant, action_id, digest) is not None
    except StoreCorruptError:
        return False  # said of the evidence itself


def is_gone(store: LedgerStore, tenant: str, kept: Kept, let_go: frozenset[str]) -> bool:
    """Whether evidence that is not there was erased, as an entry of the action says: only then may it be missing."""
    return kept[1] in let_go and store.erased(tenant, *kept)
