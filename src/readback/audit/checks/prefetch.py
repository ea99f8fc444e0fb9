"""Batch loading for the audit: evidence and keys of several actions, fetched together.

Called by the audit: filled for a few actions at a time, and queried like the store. Each digest is recomputed once.
Anything else is read from the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from readback.canon import Json, ReadbackError, parse_json
from readback.errors import StoreCorruptError, StoreError
from readback.ports.storage.store import Evidence, Kept, KeyRecord, LedgerStore

MEDIA: Final = "application/json"
DIGESTS_KEPT_MAX: Final = 4096
"""Digests of shared evidence (contracts) remembered as sound, and not read again for each action."""
CONTRACTS_KEPT_MAX: Final = 64
"""Parsed contracts cached for many actions."""


_NONE: Final[frozenset[Kept]] = frozenset()
_NO_KEYS: Final[Mapping[str, KeyRecord]] = MappingProxyType({})
_MEDIA: Final = frozenset({MEDIA})


class EvidenceCache:
    """Evidence and keys of the present batch of actions."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._sound: dict[str, dict[Kept, tuple[str, bytes]]] = {}
        """By tenant: media and bytes of evidence with a correct digest."""
        self._false: set[tuple[str, Kept]] = set()
        self._seen: dict[str, set[Kept]] = {}
        """By tenant: contract texts found sound in an earlier action."""
        self._whole: set[str] = set()
        """Tenants whose requested evidence is all sound and of the expected media type."""
        self._room = DIGESTS_KEPT_MAX
        self._keys: dict[str, dict[str, KeyRecord]] = {}
        self._parsed: dict[tuple[str, Kept], dict[str, Json]] = {}
        self._contracts: dict[tuple[str, Kept], dict[str, Json]] = {}

    def fill(self, evidence: Mapping[str, set[Kept]], keys: Mapping[str, set[str]]) -> int:
        """Replace the cache with unseen evidence and idempotency records, by tenant.

        Return the number of newly fetched pieces of tenants with `is_whole` true.
        """
        self._sound, self._false, self._keys = {}, set(), {}
        self._parsed.clear()
        self._whole.clear()
        seen = 0
        for tenant, wanted in evidence.items():
            new = self.unseen(tenant, wanted)
            held = self._store.bodies(tenant, new)
            sound = {name: one for name, one in held.items() if sha256(one[1]).hexdigest() == name[1]}
            self._sound[tenant] = sound
            if len(sound) < len(held):
                self._false |= {(tenant, name) for name in held.keys() - sound.keys()}
            elif sound.keys() == new and _MEDIA.issuperset([media for media, _ in sound.values()]):
                self._whole.add(tenant)
                self.note(tenant, new)
                seen += len(new)
        for tenant, names in keys.items():
            self._keys[tenant] = self._store.keys(tenant, [*names])
        return seen

    def is_whole(self, tenant: str) -> bool:
        """Return whether all evidence of the tenant's present actions is sound and of the expected media type."""
        return tenant in self._whole

    def unseen(self, tenant: str, evidence: set[Kept]) -> set[Kept]:
        """Return the evidence not yet noted as sound."""
        return evidence - self._seen.get(tenant, _NONE)

    def note(self, tenant: str, evidence: set[Kept]) -> None:
        """Note evidence as sound. Only evidence shared with other actions is remembered."""
        shared = [name for name in evidence if not name[0]]
        if self._room > 0 and shared:
            self._room -= len(shared)
            self._seen.setdefault(tenant, set()).update(shared)

    def evidence(self, tenant: str, action_id: str, digest: str) -> Evidence | None:
        """Like the store's method. Raises StoreCorruptError for bytes with another digest."""
        held = self._sound.get(tenant, {}).get((action_id, digest))
        if held is not None:
            return Evidence(digest, *held)
        if (tenant, (action_id, digest)) in self._false:
            raise StoreCorruptError(f"Evidence {digest} has other bytes than its digest says.")
        return self._store.evidence(tenant, action_id, digest)

    def key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        """Like the store's method."""
        found = self._keys.get(tenant, _NO_KEYS).get(key_hash)
        return found if found is not None else self._store.key(tenant, key_hash)

    def loaded(self, tenant: str, action_id: str, digest: str) -> dict[str, Json]:
        """Return the object in a piece of evidence, or an empty object. Without action id: a shared contract."""
        at = (tenant, (action_id, digest))
        known = self._contracts.get(at) or self._parsed.get(at)
        if known is not None:
            return known
        try:
            found = self.evidence(tenant, action_id, digest)
            body = parse_json(found.body) if found is not None else None
        except (StoreCorruptError, ReadbackError) as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreCorruptError):
                raise
            return {}  # already reported by its digest
        made = body if isinstance(body, dict) else {}
        if not action_id and len(self._contracts) < CONTRACTS_KEPT_MAX:
            self._contracts[at] = made
        else:
            self._parsed[at] = made
        return made
