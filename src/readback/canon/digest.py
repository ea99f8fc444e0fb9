"""SHA-256, the one digest of this project. Everything that binds bytes calls it; it must not know what they
mean.
"""

from __future__ import annotations

from hashlib import sha256 as _sha256


def sha256_bytes(data: bytes) -> bytes:
    """The 32 raw bytes."""
    return _sha256(data).digest()


def sha256_hex(data: bytes) -> str:
    """64 lower-case hexadecimal digits."""
    return _sha256(data).hexdigest()
