"""What a replay bundle of an action holds, named by hashes alone; and the id that follows from it.

Called by whatever writes records, bundles, or checks one. Every part of a bundle is bound here by its hash, so that the
id stands for the content, and can be had without loading any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from readback.canon import Json, sha256_hex, stored_bytes
from readback.domain.events import EventKind, Opened, open_envelope
from readback.ports.storage.store import StoredEvent

FORMAT: Final = "readback/replay-bundle/1"
_TABLES: Final = ("table", "recovery_table")


def manifest(action_id: str, tenant: str, leaves: Iterable[str], opened: Sequence[Opened]) -> dict[str, Json]:
    """Leaf hashes of all entries in order, digests of all evidence, and versions of all tables that they name."""
    return {
        "format": FORMAT,
        "action": action_id,
        "tenant": tenant,
        "leaves": [*leaves],
        "evidence": [*sorted({digest for one in opened for digest in _payloads(one)})],
        "tables": [*sorted(table_versions(opened))],
    }


def _payloads(one: Opened) -> Iterable[str]:
    return one.event.refs.values() if one.event.kind is not EventKind.ERASED else ()


def table_versions(opened: Iterable[Opened]) -> frozenset[str]:
    """The versions of the recovery tables by which was decided."""
    said = (one.event.data.get(name) for one in opened for name in _TABLES)
    return frozenset(version for version in said if isinstance(version, str) and version)


def id_of(content: dict[str, Json]) -> str:
    """The id of a bundle with this manifest: its SHA-256, in hex."""
    return sha256_hex(stored_bytes(content))


def bundle_id(stored: Sequence[StoredEvent]) -> str:
    """The id of the bundle of the action that these entries are of. There is one for every action."""
    opened = [open_envelope(each.envelope) for each in stored]
    first = opened[0]
    return id_of(manifest(first.action_id, first.tenant, [each.leaf.hex() for each in stored], opened))
