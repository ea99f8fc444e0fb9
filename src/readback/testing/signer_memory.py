"""A signer for simulations: keys from names, and a check without cryptography. For tests alone.

The signer keeps the port's promises among honest parties. Anybody with the name of a key can sign.
"""

from __future__ import annotations

from base64 import b64encode

from readback.canon import sha256_bytes
from readback.domain.contract.approval import KEY_PREFIX


class MemorySigner:
    """A key from a name."""

    __slots__ = ("public_key",)

    def __init__(self, name: str) -> None:
        self.public_key = KEY_PREFIX + b64encode(sha256_bytes(name.encode())).decode("ascii")

    def sign(self, message: bytes) -> bytes:
        return _signature(self.public_key, message)


def verify_memory(public_key: str, message: bytes, signature: bytes) -> bool:
    """Whether a MemorySigner with this public key signed the message."""
    return signature == _signature(public_key, message)


def _signature(public_key: str, message: bytes) -> bytes:
    first = sha256_bytes(public_key.encode(errors="replace") + b"\n" + message)
    return first + sha256_bytes(first)
