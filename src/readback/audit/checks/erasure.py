"""Audit of erasures: bytes are missing exactly where an entry records their erasure.

Called by the audit: `is_gone` for missing evidence, `erasure_faults` for each action. An entry affects only its own
action.
"""

from __future__ import annotations

from collections.abc import Iterator

from readback.domain.action.erasure import erased_digests, payloads
from readback.domain.events import EventKind, ParsedEnvelope
from readback.errors import StoreCorruptError
from readback.ports.storage.store import Kept, LedgerStore


def erasure_faults(store: LedgerStore, tenant: str, opened: list[ParsedEnvelope]) -> Iterator[tuple[str, str]]:
    """Return (code, fault) for the erasures of one action."""
    if EventKind.ERASED not in [one.event.kind for one in opened]:
        return
    own: set[str] = set()
    for one in opened:
        if one.event.kind is EventKind.ERASED:
            named = one.event.data.get("digests")
            if not isinstance(named, list) or not named or not own.issuperset(str(each) for each in named):
                yield (
                    "erasure",
                    f"Version {one.version} of action {one.action_id} erases evidence the action does not have.",
                )
        own.update(payloads(one.event))
    action_id = opened[0].action_id
    for digest in erased_digests(opened):
        if not store.erased(tenant, action_id, digest) and _is_there(store, tenant, action_id, digest):
            what = f"Evidence {digest} of action {action_id} was erased, and its bytes still exist."
            yield "evidence.not-erased", what


def _is_there(store: LedgerStore, tenant: str, action_id: str, digest: str) -> bool:
    try:
        return store.evidence(tenant, action_id, digest) is not None
    except StoreCorruptError:
        return False  # reported for the evidence itself


def is_gone(store: LedgerStore, tenant: str, kept: Kept, let_go: frozenset[str]) -> bool:
    """Return whether an entry of the action records the erasure of missing evidence. No other reason is valid."""
    return kept[1] in let_go and store.erased(tenant, *kept)
