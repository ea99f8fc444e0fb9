"""The log's Ed25519 key for checkpoints, in a file that only the owner may read.

Chosen by bootstrap. The file holds the key in the form of signed notes, with its name and without a passphrase, because
a service signs unattended. Only the file's mode protects the key, and every read checks the mode. `cryptography` is
imported when a key is made or opened. The module signs nothing by itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readback.adapters.log.file_locks import held_file
from readback.contracts.documents.own_files import keep
from readback.errors import SettingsError
from readback.log.fault import LogFormatError
from readback.log.note import VerifierKey, parse_private, private_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FILE_MAX_BYTES: Final = 4_096
OWNER_ONLY: Final = 0o600
NEXT_SUFFIX: Final = ".next"
"""Suffix of the file with the next key."""
MADE_SUFFIX: Final = ".being-written"
"""Suffix of an unfinished file of the next key."""
ROTATIONS_SUFFIX: Final = ".rotations"
"""Suffix of the file with the earlier keys. Nothing in the file is secret."""
OWN_NAME: Final = "readback.local/"
"""Start of the default name of a log. Eight digits of the key's hash make the name unique."""


class LogKey:
    """Implements `ports.signer.LogSigner`."""

    __slots__ = ("_key", "name", "raw_key")

    def __init__(self, name: str, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.name = name
        self.raw_key = key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def create_log_key(path: Path, name: str) -> LogKey:
    """Create a key in a new file. Raises SettingsError for an existing file or an invalid name."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    try:
        verifier = VerifierKey(name or OWN_NAME + sha256(public).hexdigest()[:8], public)
    except LogFormatError as error:
        raise _fault(error.message, "Name the log as a URL without its scheme, such as example.com/ledger.") from error
    written = private_text(verifier, key.private_bytes_raw()) + "\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "xb", opener=lambda place, flags: os.open(place, flags, OWNER_ONLY)) as file:
            try:
                os.fchmod(file.fileno(), OWNER_ONLY)  # independent of the umask
                file.write(written.encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                path.unlink(missing_ok=True)  # a partial key would block the name
                raise
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise _fault(f"The key file {path} cannot be made: {why}.", "Look at its folder, or name another.") from error
    return LogKey(verifier.name, key)


def open_log_key(path: Path) -> LogKey:
    """Open the key in a file. Raises SettingsError for a file readable by others, or no key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        name, key_id, seed = parse_private(_owners_text(path))
        key = LogKey(name, Ed25519PrivateKey.from_private_bytes(seed))
    except (LogFormatError, ValueError) as error:
        raise _fault(f"The key file {path} holds no key of a log.", "Make one with `ledger keys create`.") from error
    if VerifierKey(name, key.raw_key).key_id.hex() != key_id:
        raise _fault(f"The key file {path} was changed: its id is not that of its key.", "Take it from your backup.")
    return key


@contextmanager
def in_use(path: Path, *, alone: bool) -> Iterator[None]:
    """Lock the key against rotation while the key signs. `alone`: lock for a rotation.

    Raises SettingsError where the file cannot be opened or another process holds the lock. A lock that is not `alone`
    fails at once, also after an interrupted rotation: signatures of the old key after the rotation statement count for
    no reader.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held_file(path, alone=alone))
        except BlockingIOError as error:
            said = f"The key file {path} is in use: another process signs with it, or lets another key follow it."
            raise _fault(said, "Run this again; if it stays so, look for a process that was stopped.") from error
        except OSError as error:
            raise _unread(path, error) from error
        if not alone and _beside(path).exists():
            said = "The log's key is being followed by another one, and nothing is signed meanwhile."
            raise _fault(said, "If that was broken off, run `readback ledger keys rotate` again.")
        yield


def _beside(path: Path) -> Path:
    """Return the place of the next key."""
    return path.with_name(path.name + NEXT_SUFFIX)


def next_key(path: Path, name: str) -> tuple[LogKey, Path]:
    """Return the next key, from a file beside the present key, or create the key there.

    The file is complete before it gets its name. From then on, nothing is signed and no other next key is made.
    """
    beside = _beside(path)
    if beside.exists():
        return open_log_key(beside), beside
    part = beside.with_name(beside.name + MADE_SUFFIX)
    try:
        part.unlink(missing_ok=True)  # left by an interrupted rotation; the lock excludes another
        made = create_log_key(part, name)
        os.replace(part, beside)
    except OSError as error:
        raise _fault(f"The key file {beside} cannot be made: {error.strerror}.", "Look at its folder.") from error
    return made, beside


def take_over(path: Path, beside: Path) -> None:
    """Replace the old key by the next key. The old key is deleted. Raises SettingsError."""
    try:
        os.replace(beside, path)
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _fault(f"The key file {path} cannot be replaced: {error.strerror}.", "Look at its folder.") from error


def _owners_text(path: Path) -> str:
    """Return the single line of a plain file that only the owner may read or write."""
    keep(path, ("", NEXT_SUFFIX, MADE_SUFFIX, ROTATIONS_SUFFIX))
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.geteuid():
                said = f"The key file {path} is not a plain file of yours with mode 0600."
                raise _fault(said, f"Run: chmod 600 {path}; if others could read it, make a new key.")
            return file.read(FILE_MAX_BYTES).decode("utf-8").removesuffix("\n")
    except OSError as error:
        raise _unread(path, error) from error


def _unread(path: Path, error: OSError) -> SettingsError:
    return _fault(f"The key file {path} cannot be read: {error.strerror}.", "Name it with --key-file.")


def _fault(message: str, remedy: str) -> SettingsError:
    return SettingsError(message, remedy=remedy, code="settings.signing-key")
