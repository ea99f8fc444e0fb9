"""Place: every entry that can have its place in the log gets it, before somebody looks at the log.

Called by commands that sign, and by erasure. Where places come with the append there is nothing to do. What a running
transaction still holds up keeps waiting: nobody waits for it here.
"""

from __future__ import annotations

from typing import Final

from readback.ports.storage.store import LedgerStore

PLACES_AT_ONCE_MAX: Final = 4_096


def place_all(store: LedgerStore) -> int:
    """Gives places until nothing is left that can have one; how many it gave. Raises StoreError."""
    total = 0
    while store.places_later and (taken := store.take_places(PLACES_AT_ONCE_MAX)):
        total += taken
    return total
