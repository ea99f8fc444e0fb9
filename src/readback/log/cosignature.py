"""Cosignatures of witnesses (C2SP tlog-cosignature, Ed25519): a third party saw a checkpoint at a given time.

Called to accept a witness's answer and to verify cosignature lines. A witness signs the checkpoint's text with a time
before the text. The key id has an algorithm number of its own, so a log's signature never passes for a cosignature.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from readback.canon.frozen import dataclass
from readback.log.fault import LogFormatError, LogSignatureError
from readback.log.note import (
    KEY_BYTES,
    KEY_ID_BYTES,
    SIGNATURE_BYTES,
    Check,
    Sign,
    Signature,
    VerifierKey,
    base64_bytes,
    base64_text,
)

COSIGNATURE: Final = b"\x04"
"""Algorithm number in key ids and encoded keys: timestamped Ed25519."""
TIME_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class WitnessKey:
    """The public half of a witness's key, with its name."""

    name: str
    public: bytes

    def __post_init__(self) -> None:
        VerifierKey(self.name, self.public)  # the same rules for names and keys

    @property
    def key_id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + COSIGNATURE + self.public).digest()[:KEY_ID_BYTES]

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{base64_text(COSIGNATURE + self.public)}"


def parse_witness_key(text: str) -> WitnessKey:
    """Parse a witness's verifier key. Raises LogFormatError."""
    parts = text.split("+", 2)  # base64 may hold a plus; a name may not
    raw = base64_bytes(parts[2], "witness's key") if len(parts) == 3 else b""
    if raw[:1] != COSIGNATURE or len(raw) != 1 + KEY_BYTES:
        raise LogFormatError("The key is not a witness's key. Expected: name+id+key, for timestamped Ed25519.")
    found = WitnessKey(parts[0], raw[1:])
    if found.key_id.hex() != parts[1]:
        raise LogFormatError("The id of the witness's key does not match its name and key.")
    return found


def cosign(text: str, key: WitnessKey, sign: Sign, at_s: int) -> Signature:
    """Sign a checkpoint's text as a witness, at a time in seconds since the epoch."""
    return Signature(key.name, key.key_id, at_s.to_bytes(TIME_BYTES, "big") + sign(_message(text, at_s)))


def check_cosignature(line: Signature, text: str, key: WitnessKey, check: Check) -> int:
    """Return the time of the cosignature, in seconds since the epoch. Raises LogSignatureError if the witness did not
    sign.
    """
    at_s = int.from_bytes(line.signature[:TIME_BYTES], "big")
    signature = line.signature[TIME_BYTES:]
    public = "ed25519:" + base64_text(key.public)
    named = (line.name, line.key_id) == (key.name, key.key_id)
    if not named or len(signature) != SIGNATURE_BYTES or not check(public, _message(text, at_s), signature):
        raise LogSignatureError(f"The cosignature by {key.name} is not valid.")
    return at_s


def _message(text: str, at_s: int) -> bytes:
    return f"cosignature/v1\ntime {at_s}\n{text}".encode()
