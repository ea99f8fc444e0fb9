"""SHA-256, the only digest of this project. This module knows nothing of the meaning of the bytes."""

from __future__ import annotations

from hashlib import sha256 as _sha256


def sha256_bytes(data: bytes) -> bytes:
    """Return the 32 raw bytes."""
    return _sha256(data).digest()


def sha256_hex(data: bytes) -> str:
    """Return 64 lower-case hexadecimal digits."""
    return _sha256(data).hexdigest()
