"""An anchor in a file: the last checkpoint, whole or as it was, wherever whoever writes the ledger may not rewrite it.

Chosen by bootstrap for `file:` URLs. It keeps `readback.ports.anchor`; it must not look into what it keeps.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import get_ident
from urllib.parse import unquote, urlsplit

from readback.domain.errors import SettingsError
from readback.domain.errors.anchor import AnchorError
from readback.ledger.note import NOTE_MAX_BYTES
from readback.ports.anchor import Proof


def file_anchor(url: str) -> FileAnchor:
    """The anchor that a `file:///absolute/path` URL names. Raises SettingsError."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if (
        parts.scheme != "file"
        or parts.netloc
        or parts.query
        or parts.fragment
        or not path.name
        or not path.is_absolute()
    ):
        raise SettingsError(f"The anchor {url!r} names no file.", remedy="Write file:///absolute/path/to/checkpoint.")
    return FileAnchor(url, path)


class FileAnchor:
    """Keeps `Anchor`."""

    __slots__ = ("_place", "name")

    def __init__(self, name: str, place: Path) -> None:
        self.name = name
        self._place = place

    @property
    def shows(self) -> bool:
        return True

    def last(self) -> bytes | None:
        try:
            with open(self._place, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise AnchorError(f"{self._place} is no plain file.")
                return file.read(NOTE_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AnchorError(f"{self._place} cannot be read: {error.strerror}.") from error

    def take(self, note: bytes, size: int, proof: Proof) -> bytes:
        # Of this call alone: several clients of one process may hand over at once.
        own = f"{self._place.name}.{os.getpid()}.{get_ident()}.being-written"
        beside = self._place.with_name(own)
        try:
            with open(beside, "wb") as file:
                file.write(note)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._place)
            folder = os.open(self._place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise AnchorError(f"{self._place} cannot be written: {error.strerror}.") from error
        return b""
