"""The hash by which an event stands in a Merkle log. The store calls it for every event; it must not look
inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

LEAF_PREFIX: Final = b"\x00"
"""RFC 6962, 2.1: keeps a leaf from being taken for an inner node, whose prefix is 0x01."""


def leaf_hash(envelope: bytes) -> bytes:
    """32 bytes: SHA-256 over 0x00 and the envelope's own bytes, as stored."""
    return sha256(LEAF_PREFIX + envelope).digest()


def leaf_hashes(envelopes: Iterable[bytes]) -> list[bytes]:
    """The same of many, in their order: who reads a whole log asks for nothing as often."""
    return [sha256(LEAF_PREFIX + envelope).digest() for envelope in envelopes]
