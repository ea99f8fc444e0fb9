"""What the audit has at hand of some actions: their evidence and their keys, fetched together, in place of one by one.

Called by audit: filled for a few actions at a time, and asked as the store would be. Each digest is recomputed once.
What was not fetched, the store is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from readback.canon import Json, ReadbackError, parse_json
from readback.canon.digest import sha256_hex
from readback.domain.errors import StoreCorruptError, StoreError
from readback.ports.store import Evidence, KeyRecord, LedgerStore

CONTRACTS_KEPT_MAX: Final = 64
"""Contracts that many actions share are not read again for each: parsed, so many of them."""


class Shelf:
    """The evidence and the keys of the actions at hand."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._bodies: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._sound: dict[tuple[str, str], Evidence] = {}
        self._keys: dict[tuple[str, str], KeyRecord] = {}
        self._parsed: dict[tuple[str, str], dict[str, Json]] = {}
        self._contracts: dict[tuple[str, str], dict[str, Json]] = {}

    def fill(self, digests: Iterable[tuple[str, str]], keys: Iterable[tuple[str, str]]) -> None:
        """Fetches evidence and idempotency records, each by tenant, in place of what was there."""
        wanted = {at for at in digests if at not in self._contracts}
        self._sound.clear()
        self._parsed.clear()
        self._bodies = {}
        for tenant in sorted({tenant for tenant, _ in wanted}):
            found = self._store.bodies(tenant, sorted(digest for owner, digest in wanted if owner == tenant))
            self._bodies.update({(tenant, digest): body for digest, body in found.items()})
        names = set(keys)
        self._keys = {}
        for tenant in sorted({tenant for tenant, _ in names}):
            held = self._store.keys(tenant, sorted(key for owner, key in names if owner == tenant))
            self._keys.update({(tenant, key): record for key, record in held.items()})

    def evidence(self, tenant: str, digest: str) -> Evidence | None:
        """As the store: raises StoreCorruptError for other bytes than the digest says."""
        at = (tenant, digest)
        known = self._sound.get(at)
        if known is not None:
            return known
        held = self._bodies.get(at)
        if held is None:
            return self._store.evidence(tenant, digest)
        media, body = held
        if sha256_hex(body) != digest:
            raise StoreCorruptError(f"Evidence {digest} has other bytes than its digest says.")
        found = self._sound[at] = Evidence(digest, media, body)
        return found

    def key(self, tenant: str, key_hash: str) -> KeyRecord | None:
        """As the store."""
        found = self._keys.get((tenant, key_hash))
        return found if found is not None else self._store.key(tenant, key_hash)

    def loaded(self, tenant: str, digest: str, *, shared: bool = False) -> dict[str, Json]:
        """The object that evidence holds; empty where there is none. `shared`: a contract, which others have too."""
        at = (tenant, digest)
        known = self._contracts.get(at) or self._parsed.get(at)
        if known is not None:
            return known
        try:
            found = self.evidence(tenant, digest)
            body = parse_json(found.body) if found is not None else None
        except (StoreCorruptError, ReadbackError) as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreCorruptError):
                raise
            return {}  # named already, by its digest
        made = body if isinstance(body, dict) else {}
        if shared and len(self._contracts) < CONTRACTS_KEPT_MAX:
            self._contracts[at] = made
        else:
            self._parsed[at] = made
        return made
