"""A signer for simulations: keys made of a name, and a check without any cryptography. For tests alone.

It keeps the port's promises, as the conformance suite shows, among parties that do not cheat: whoever knows the name of
such a key can sign with it.
"""

from __future__ import annotations

from base64 import b64encode

from readback.canon import sha256_bytes
from readback.domain.contract.approval import KEY_PREFIX


class MemorySigner:
    """A key that is made of a name."""

    __slots__ = ("public_key",)

    def __init__(self, name: str) -> None:
        self.public_key = KEY_PREFIX + b64encode(sha256_bytes(name.encode())).decode("ascii")

    def sign(self, message: bytes) -> bytes:
        return _signature(self.public_key, message)


def verify_memory(public_key: str, message: bytes, signature: bytes) -> bool:
    """Whether a MemorySigner with this public key signed this message."""
    return signature == _signature(public_key, message)


def _signature(public_key: str, message: bytes) -> bytes:
    first = sha256_bytes(public_key.encode(errors="replace") + b"\n" + message)
    return first + sha256_bytes(first)
