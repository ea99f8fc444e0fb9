"""Ed25519 keys of approvers: private keys in a file with a passphrase, and the check of signatures.

Chosen by bootstrap. A key file is PKCS#8 in PEM, encrypted, with mode 0600. A file readable by others is refused.
`cryptography` is imported at the first signature, opening or check. The module neither asks for a passphrase
nor stores the passphrase.
"""

from __future__ import annotations

import os
import stat
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readback.contracts.documents.own_files import keep
from readback.domain.contract.approval import KEY_PREFIX
from readback.errors import ApprovalError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_FILE_MAX_BYTES: Final = 16_384
PASSPHRASE_MIN_CHARACTERS: Final = 8
OWNER_ONLY: Final = 0o600


class Ed25519Signer:
    """An opened key."""

    __slots__ = ("_key", "public_key")

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = KEY_PREFIX + b64encode(key.public_key().public_bytes_raw()).decode("ascii")

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def verify(public_key: str, message: bytes, signature: bytes) -> bool:
    """Return whether the signature is from this key over exactly this message; see ports.signer.Verifier."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = b64decode(public_key.removeprefix(KEY_PREFIX), validate=True)
        if not public_key.startswith(KEY_PREFIX):
            return False
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def create_key(path: Path, passphrase: str) -> Ed25519Signer:
    """Create a key in a new file. Raises ApprovalError for an existing file or a short passphrase."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    if len(passphrase) < PASSPHRASE_MIN_CHARACTERS:
        raise _fault(f"A passphrase has at least {PASSPHRASE_MIN_CHARACTERS} characters.", "Choose a longer one.")
    key = Ed25519PrivateKey.generate()
    try:
        lock = BestAvailableEncryption(passphrase.encode())
        written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
    except ValueError as error:  # half a character, or too many bytes for the file format
        raise _fault("This passphrase cannot be used: it is too long, or no text.", "Choose another one.") from error
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, OWNER_ONLY)) as file:
            try:
                os.fchmod(file.fileno(), OWNER_ONLY)  # independent of the umask
                file.write(written)
                file.flush()
            except OSError:
                path.unlink(missing_ok=True)  # a partial key would block the name
                raise
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise _fault(f"The key file {path} cannot be made: {why}.", "Look at its folder, or name another.") from error
    return Ed25519Signer(key)


def open_key(path: Path, passphrase: str) -> Ed25519Signer:
    """Open the key in a file. Raises ApprovalError for a file readable by others, or a wrong passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    written = _owners_bytes(path)
    if b"ENCRYPTED" not in written:
        raise _fault(f"The key file {path} is not encrypted.", "Make one with `readback keys create`.")
    try:
        key = load_pem_private_key(written, passphrase.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _fault(f"The key file {path} does not open with this passphrase.", "Try again.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _fault(f"The key file {path} holds no Ed25519 key.", "Make one with `readback keys create`.")
    return Ed25519Signer(key)


def _owners_bytes(path: Path) -> bytes:
    """Return the bytes of a plain file that only the owner may read or write."""
    keep(path)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            plain = stat.S_ISREG(found.st_mode)
            if not plain or found.st_mode & 0o077 or found.st_uid != os.geteuid():
                said = f"The key file {path} is not a plain file of yours with mode 0600."
                raise _fault(said, f"Run: chmod 600 {path}; if others could read it, make a new key.")
            return file.read(KEY_FILE_MAX_BYTES)
    except OSError as error:
        raise _fault(f"The key file {path} cannot be read: {error.strerror}.", "Name it with --key.") from error


def _fault(message: str, remedy: str) -> ApprovalError:
    return ApprovalError(message, remedy=remedy, code="approval.key")
