"""Signed notes (C2SP signed-note): a text, a blank line, and one line for each Ed25519 signature.

Called for checkpoints. The caller passes in the functions for signing and checking, so this package stays pure. A key
id binds name, algorithm and key. As the format requires, signatures by unlisted keys are ignored, and an invalid
signature by a listed key rejects the whole note.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

from readback.canon.frozen import dataclass
from readback.log.fault import LogFormatError, LogSignatureError
from readback.log.tree import HASH_BYTES, SIZE_MAX

# The two encodings in every text of a log, parsed strictly: base64 and decimal numbers.

_DIGITS_MAX = len(str(SIZE_MAX))


def base64_text(data: bytes) -> str:
    """Encode by RFC 4648, section 4, with padding."""
    return b64encode(data).decode("ascii")


def base64_bytes(text: str, what: str) -> bytes:
    """Decode base64, accepting only the unique encoding of the bytes. Raises LogFormatError."""
    try:
        found = b64decode(text, validate=True)
    except ValueError as error:
        raise LogFormatError(f"The {what} is not base64.") from error
    if base64_text(found) != text:
        raise LogFormatError(f"The {what} is not canonical base64.")
    return found


def hash_bytes(text: str, what: str) -> bytes:
    """Decode a hash from base64. Raises LogFormatError."""
    found = base64_bytes(text, what)
    if len(found) != HASH_BYTES:
        raise LogFormatError(f"The {what} has {len(found)} bytes in place of {HASH_BYTES}.")
    return found


def number(text: str, what: str) -> int:
    """Parse a decimal number without leading zeros, up to the maximum size of a log. Raises LogFormatError."""
    plain = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and (text == "0" or text[0] != "0")
    if not plain or int(text) > SIZE_MAX:
        raise LogFormatError(f"The {what} is not a canonical decimal number.")
    return int(text)


ED25519: Final = b"\x01"
"""Algorithm number in key ids and encoded keys."""
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
KEY_ID_BYTES: Final = 4
NAME_MAX_CHARACTERS: Final = 256
NOTE_MAX_BYTES: Final = 262_144
SIGNATURES_MAX: Final = 64
SIGNED: Final = "— "
"""Start of a signature line: an em dash and a space."""
PRIVATE: Final = "PRIVATE+KEY+"

Check: TypeAlias = Callable[[str, bytes, bytes], bool]
"""Return whether a signature over a message is valid for a public key (`ed25519:` and base64). See
ports.signer.Verifier.
"""
Sign: TypeAlias = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """The public half of a log's key, with its name."""

    name: str
    public: bytes
    """The raw 32 bytes."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if len(self.public) != KEY_BYTES:
            raise LogFormatError(f"An Ed25519 key has {KEY_BYTES} bytes.")

    @property
    def key_id(self) -> bytes:
        """Return the four bytes that identify the key beside its name. The id is no trustworthy fingerprint."""
        return sha256(self.name.encode() + b"\n" + ED25519 + self.public).digest()[:KEY_ID_BYTES]

    @property
    def public_text(self) -> str:
        """The public key in the form of `Check`."""
        return "ed25519:" + base64_text(self.public)

    def __str__(self) -> str:
        """Return the verifier key in its exchange form: name, id and key, joined by plus signs."""
        return f"{self.name}+{self.key_id.hex()}+{base64_text(ED25519 + self.public)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line of a note, not yet verified."""

    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        return f"{SIGNED}{self.name} {base64_text(self.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text with a final line break, and its signatures."""

    text: str
    signatures: tuple[Signature, ...]

    def to_bytes(self) -> bytes:
        return (self.text + "\n" + "".join(each.line() for each in self.signatures)).encode()

    def signed_by(self, keys: Sequence[VerifierKey], check: Check) -> tuple[VerifierKey, ...]:
        """Return the keys with a valid signature. Raises LogSignatureError for an invalid signature by a listed key, or
        for none.
        """
        known = {(key.name, key.key_id): key for key in keys}
        signers: list[VerifierKey] = []
        for each in self.signatures:
            key = known.get((each.name, each.key_id))
            if key is None:
                continue
            if not check(key.public_text, self.text.encode(), each.signature):
                raise LogSignatureError(f"The signature by {key.name} is not valid.")
            signers.append(key)
        if not signers:
            asked = ", ".join(f"{key.name}+{key.key_id.hex()}" for key in keys)
            raise LogSignatureError(f"It is not signed by {asked or 'any key'}.")
        return tuple(dict.fromkeys(signers))


def sign_note(text: str, key: VerifierKey, sign: Sign, before: Sequence[Signature] = ()) -> Note:
    """Add one signature to a text. Raises LogFormatError if the format forbids the text."""
    _check_text(text.encode())
    if not text.endswith("\n"):
        raise LogFormatError("The text of a note must end with a line break.")
    signed = Signature(key.name, key.key_id, sign(text.encode()))
    return Note(text, (*before, signed))


def parse_note(data: bytes) -> Note:
    """Parse a note without verifying its signatures. Raises LogFormatError."""
    if len(data) > NOTE_MAX_BYTES:
        raise LogFormatError(f"The note has {len(data)} bytes, over {NOTE_MAX_BYTES}.")
    whole = _check_text(data)
    head, blank, below = whole.rpartition("\n\n")
    if not blank or not below.endswith("\n"):
        raise LogFormatError("The note has no blank line, or no line break after its signatures.")
    lines = below[:-1].split("\n")
    if len(lines) > SIGNATURES_MAX:
        raise LogFormatError(f"The note has more than {SIGNATURES_MAX} signatures.")
    return Note(head + "\n", tuple(_signature(line) for line in lines))


def parse_key(text: str) -> VerifierKey:
    """Parse a verifier key: name, id and key, joined by plus signs. Raises LogFormatError."""
    name, key_id, encoded = _three(text, "verifier key")
    found = VerifierKey(name, _key(encoded, "verifier key"))
    if found.key_id.hex() != key_id:
        raise LogFormatError("The id of the verifier key does not match its name and key.")
    return found


def private_text(key: VerifierKey, seed: bytes) -> str:
    """Encode a private key for a file, in the form of `golang.org/x/mod/sumdb/note`."""
    return f"{PRIVATE}{key.name}+{key.key_id.hex()}+{base64_text(ED25519 + seed)}"


def parse_private(text: str) -> tuple[str, str, bytes]:
    """Return name, id (hex) and seed of a private key. Raises LogFormatError if the id is not the public half's."""
    if not text.startswith(PRIVATE):
        raise LogFormatError("This is no private key of a log.")
    name, key_id, encoded = _three(text.removeprefix(PRIVATE), "private key")
    return name, key_id, _key(encoded, "private key")


def _three(text: str, what: str) -> tuple[str, str, str]:
    parts = text.split("+", 2)  # base64 may hold a plus; a name may not
    if len(parts) != 3:
        raise LogFormatError(f"The {what} does not have the form name+id+key.")
    _check_name(parts[0])
    return parts[0], parts[1], parts[2]


def _key(encoded: str, what: str) -> bytes:
    raw = base64_bytes(encoded, what)
    if raw[:1] != ED25519 or len(raw) != 1 + KEY_BYTES:
        raise LogFormatError(f"The {what} is no Ed25519 key.")
    return raw[1:]


def _signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(SIGNED).partition(" ")
    if not line.startswith(SIGNED) or not space:
        raise LogFormatError("A signature line is malformed.")
    _check_name(name)
    raw = base64_bytes(encoded, "signature")
    if len(raw) <= KEY_ID_BYTES:
        raise LogFormatError("A signature has no bytes.")
    return Signature(name, raw[:KEY_ID_BYTES], raw[KEY_ID_BYTES:])


def _check_name(name: str) -> None:
    if not name or len(name) > NAME_MAX_CHARACTERS or "+" in name or any(c.isspace() or c < " " for c in name):
        raise LogFormatError("A key's name is empty, too long, or holds a space, a plus or a control character.")


def _check_text(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LogFormatError("The note is not UTF-8.") from error
    if any(c < " " and c != "\n" for c in text):
        raise LogFormatError("The note holds a control character.")
    return text
