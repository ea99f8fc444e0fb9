"""An anchor in a file: the last checkpoint, replaced whole or not at all, on a disk outside the ledger writer's reach.

Chosen by bootstrap for `file:` URLs. Implements `readback.ports.anchor` and never parses the checkpoint.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from readback.adapters.log.file_locks import held_folder
from readback.contracts.documents.own_files import keep
from readback.errors import AnchorError, AnchorRefusedError, SettingsError
from readback.log.note import NOTE_MAX_BYTES
from readback.ports.anchor import Proof


def file_anchor(url: str) -> FileAnchor:
    """Return the anchor of a `file:///absolute/path` URL. Raises SettingsError."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if (
        parts.scheme != "file"
        or parts.netloc
        or parts.query
        or parts.fragment
        or not path.name
        or not path.is_absolute()
        or "\0" in str(path)
    ):
        raise SettingsError(f"The anchor {url!r} names no file.", remedy="Write file:///absolute/path/to/checkpoint.")
    return FileAnchor(url, path)


class FileAnchor:
    """Implements `Anchor`."""

    __slots__ = ("_place", "_seen", "name")

    def __init__(self, name: str, place: Path) -> None:
        self.name = name
        self._place = place
        keep(place)
        self._seen: tuple[bytes | None] | None = None
        """The last content read, until the next write."""

    @property
    def shows(self) -> bool:
        return True

    def last(self) -> bytes | None:
        note = self._kept()
        self._seen = (note,)
        return note

    def _kept(self) -> bytes | None:
        try:
            with open(self._place, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise AnchorError(f"{self._place} is not a plain file.")
                return file.read(NOTE_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AnchorError(f"{self._place} cannot be read: {error.strerror}.") from error

    def take(self, note: bytes, size: int, proof: Proof) -> bytes:
        # Unique to this call: several clients of one process may write at once.
        own = f"{self._place.name}.{os.getpid()}.{threading.get_ident()}.being-written"
        beside = self._place.with_name(own)
        try:
            with open(beside, "wb") as file:
                file.write(note)
                file.flush()
                os.fsync(file.fileno())
            with held_folder(self._place.parent) as folder:
                if self._seen is not None and self._kept() != self._seen[0]:
                    raise AnchorRefusedError(f"{self._place} was written by another process since it was looked at.")
                os.replace(beside, self._place)
                os.fsync(folder)
        except BlockingIOError as error:
            said = f"{self._place.parent} is held by another process, which may be stopped."
            raise AnchorError(said) from error
        except OSError as error:
            raise AnchorError(f"{self._place} cannot be written: {error.strerror}.") from error
        finally:
            with suppress(OSError):  # gone after a successful rename
                beside.unlink()
        self._seen = None
        return b""
