"""A log in memory with a real key, which can be spoiled as somebody who has the file could."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from readback import bootstrap
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.sealing.seal import seal
from readback.log.checkpoint import SignedCheckpoint
from readback.ports.signer import LogSigner
from readback.ports.storage.store import StoredEvent
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import NOON_US, sample_append, sample_event

NAME = "example.com/ledger"


class Signer:
    """A log's key, from its seed."""

    def __init__(self, name: str, seed: bytes) -> None:
        self.name = name
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.raw_key = self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def authority(signer: LogSigner) -> Authority:
    return Authority(key_of(signer), bootstrap.verify_signature)


class Log:
    """Entries that mean nothing, and their key."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.signer = Signer(NAME, b"\7" * 32)
        self.authority = authority(self.signer)
        self._made = 0

    def append(self, count: int, text: str = "entry") -> list[bytes]:
        """So many entries more; their leaf hashes."""
        leaves = []
        for _ in range(count):
            self._made += 1
            event = sample_event(f"{text} {self._made}")
            self.store.append([replace(sample_append(f"a{self._made}"), events=(event,))])
            leaves.append(event.leaf)
        return leaves

    def seal(self) -> SignedCheckpoint | None:
        return seal(self.store, self.signer, self.authority, NOON_US)

    # --- by hand ---

    @property
    def entries(self) -> list[StoredEvent]:
        return self.store._content.log

    def change(self, seq: int, how: Callable[[StoredEvent], StoredEvent]) -> None:
        self.entries[seq - 1] = how(self.entries[seq - 1])

    def remove(self, seq: int) -> None:
        del self.entries[seq - 1]

    def cut(self, count: int) -> None:
        del self.entries[-count:]

    def forget_before(self, seq: int) -> None:
        for at in range(seq - 1):
            self.entries[at] = replace(self.entries[at], envelope=b"", leaf=b"")
