"""Signatures: somebody's key that signs, and the check that anybody can make with the public half.

Called where an approval is signed (`Signer`) and wherever one counts (`Verifier`). The engine is handed a verifier as a
plain function; it never sees a private key.
"""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """One person's private key, opened. Trusted to sign nothing by itself.

    `public_key` is text: the algorithm, a colon, and the raw key in base64 (`ed25519:...`). It is the same each time.
    """

    @property
    def public_key(self) -> str:
        """The public half."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of exactly these bytes, of fixed length. The same bytes always give one that is valid."""
        ...


class Verifier(Protocol):
    """Checks signatures. Pure: the same three arguments always give the same answer, from any thread."""

    def __call__(self, public_key: str, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's over exactly this message.

        False for everything else, what is no key or no signature included; it raises nothing for what it is given.
        """
        ...


class LogSigner(Protocol):
    """The key of a log, opened. Trusted to sign nothing by itself."""

    @property
    def name(self) -> str:
        """The log's origin, which is the key's name."""
        ...

    @property
    def raw_key(self) -> bytes:
        """The public half, 32 bytes. It is the same each time."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of exactly these bytes."""
        ...
