"""Signatures: a private key to sign with, and the check with the public key.

Called for signing an approval (`Signer`) and for every check (`Verifier`). The engine receives a verifier as a plain
function, and never sees a private key.
"""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """One person's private key, opened. Signs only on request.

    `public_key` is text: the algorithm, a colon, and the raw key in base64 (`ed25519:...`). Constant.
    """

    @property
    def public_key(self) -> str:
        """The public half."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of exactly these bytes, of fixed length. Every signature of the same bytes is valid."""
        ...


class Verifier(Protocol):
    """Checks signatures. Pure: the same three arguments always give the same answer, from any thread."""

    def __call__(self, public_key: str, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's over exactly this message.

        False for everything else, including malformed keys and signatures; no input raises an error.
        """
        ...


class LogSigner(Protocol):
    """The key of a log, opened. Signs only on request."""

    @property
    def name(self) -> str:
        """The log's origin, used as the key's name."""
        ...

    @property
    def raw_key(self) -> bytes:
        """The public half, 32 bytes. Constant."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of exactly these bytes."""
        ...
