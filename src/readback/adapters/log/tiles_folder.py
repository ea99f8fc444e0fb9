"""An exported log in a folder, and other exported texts: written beside and renamed into place, whole or not at all.

Chosen by bootstrap. A file that is too large, or not a plain file, is refused before reading. Content is not trusted:
the caller hashes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from readback.adapters.log.file_locks import held_folder
from readback.contracts.documents.own_files import keep_folder, refuse_path
from readback.errors import OwnFileError, StoreError, StoreFullError, StoreLockedError, UsageError
from readback.log.fault import LogFormatError

BEING_WRITTEN: Final = ".being-written"
OWNER_ALONE: Final = 0o600
FULL: Final = frozenset({28, 122})
"""ENOSPC and EDQUOT."""


_DATABASE: Final = b"SQLite format 3\0"
_EMPTY: Final = "Name one that is empty, or not there; what was broken off has no checkpoint, and can be removed."


class TilesFolder:
    """Implements `ports.export.Tiles`."""

    __slots__ = ("_folder", "_made", "_synced")

    def __init__(self, folder: Path, *, synced: bool = False) -> None:
        """Open a folder. `synced`: files reach the disk one by one, in the order of the writes."""
        self._folder, self._synced = folder, synced
        keep_folder(folder)
        self._made: set[Path] = set()

    def write(self, path: str, data: bytes) -> None:
        place = self._folder / path
        if place.parent not in self._made:
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                if self._synced:
                    self._sync_down_to(place.parent)
            except OSError as error:
                raise _unwritten(place, error) from error
            self._made.add(place.parent)
        if not self._synced or not self._holds(path, data):
            put(place, data, synced=self._synced)

    def read(self, path: str, bytes_max: int) -> bytes | None:
        return take(self._folder / path, bytes_max)

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self.read(path, len(data)) == data
        except LogFormatError:
            return False

    def _sync_down_to(self, folder: Path) -> None:
        """Sync the names of new folders, too."""
        while folder != self._folder:
            folder = folder.parent
            _sync_folder(folder)


def new_folder(folder: Path) -> TilesFolder:
    """Return a private folder, new or empty. Raises UsageError for a folder with content."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"The folder {folder} is not empty.", remedy=_EMPTY)
    except OSError as error:
        raise UsageError(f"The folder {folder} cannot be used: {error.strerror}.", remedy="Name another.") from error
    return TilesFolder(folder)


def old_folder(folder: Path) -> TilesFolder:
    """Return an existing folder. Raises UsageError for a missing folder."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", remedy="Name the folder of an exported log.")
    return TilesFolder(folder)


@contextmanager
def alone(folder: Path) -> Iterator[TilesFolder]:
    """Lock the folder of a continued log, and create a missing folder.

    Other callers of `alone` are locked out meanwhile. Written files stay. Raises UsageError, and StoreLockedError where
    another process holds the lock.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(held_folder(folder))
        except BlockingIOError as error:
            said = f"The folder {folder} is held by another process, which may be stopped."
            raise StoreLockedError(said, remedy="Find the process that holds it; then run this again.") from error
        except OSError as error:
            said = f"The folder {folder} cannot be used: {error.strerror}."
            raise UsageError(said, remedy="Name another.") from error
        yield TilesFolder(folder, synced=True)


def put(place: Path, data: bytes, *, synced: bool = True) -> None:
    """Replace a file as a whole. `synced`: on the disk at return. Raises StoreError."""
    beside = place.with_name(place.name + BEING_WRITTEN)
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        os.replace(beside, place)
        if synced:
            _sync_folder(place.parent)
    except OSError as error:
        raise _unwritten(place, error) from error


@contextmanager
def written(place: Path, *, private: bool = False, own: bool = False) -> Iterator[Callable[[bytes], object]]:
    """Write to a path named by the user, piece by piece.

    A file appears whole or not at all, also behind a link, with its old permissions. Devices and pipes are written to
    and stay. `private`: a new file belongs to its owner alone, before the first byte. Raises StoreError, and UsageError
    for a file of Readback's own, such as the ledger, and for a database. `own`: the caller writes such a file.
    """
    there = _there(place)
    if not own:
        _refuse_precious(place, there)
    if there is not None and not stat.S_ISREG(there.st_mode) and not stat.S_ISDIR(there.st_mode):
        with _into(place) as write:
            yield write
        return
    place = Path(os.path.realpath(place))
    beside = place.with_name(place.name + BEING_WRITTEN)
    try:
        with open(beside, "wb") as file:
            if there is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(there.st_mode))
            elif private:
                os.fchmod(file.fileno(), OWNER_ALONE)
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
        _sync_folder(place.parent)
    except OSError as error:
        _forgotten(beside)
        raise _unwritten(place, error) from error
    except BaseException:
        _forgotten(beside)
        raise


def _refuse_precious(place: Path, there: os.stat_result | None) -> None:
    """Raises UsageError where an output would replace the ledger, a key, settings or a contract."""
    try:
        refuse_path(str(place))
        is_database = there is not None and stat.S_ISREG(there.st_mode) and _begins_as_database(place)
    except OwnFileError:
        said = f"{place} is one of Readback's own files, or leads to one, and is not overwritten."
    except OSError:
        return  # not readable: the writing reports the same fault
    else:
        said = f"{place} is a database, and is not overwritten." if is_database else ""
    if said:
        raise UsageError(said, remedy="Name another file.")


def _begins_as_database(place: Path) -> bool:
    with open(place, "rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _there(place: Path) -> os.stat_result | None:
    try:
        return place.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unwritten(place, error) from error


@contextmanager
def _into(place: Path) -> Iterator[Callable[[bytes], object]]:
    """Open without waiting: a pipe without a reader is an error."""
    try:
        with open(place, "wb", opener=lambda name, flags: os.open(name, os.O_WRONLY | os.O_NONBLOCK)) as file:
            os.set_blocking(file.fileno(), True)
            yield file.write
    except OSError as error:
        raise _unwritten(place, error) from error


def _forgotten(beside: Path) -> None:
    with suppress(OSError):
        beside.unlink()


def take(place: Path, bytes_max: int) -> bytes | None:
    """Return a plain file's bytes, or None for a missing file. Raises LogFormatError for a larger file, else
    StoreError.
    """
    try:
        with open(place, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LogFormatError(f"{place} is not a plain file.")
            data = file.read(bytes_max + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError as error:
        raise LogFormatError(f"{place} is a folder.") from error
    except OSError as error:
        raise StoreError(f"{place} cannot be read: {error.strerror}.", remedy="Look at its rights.") from error
    if len(data) > bytes_max:
        raise LogFormatError(f"{place} has more than {bytes_max} bytes.")
    return data


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the name is on the disk too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unwritten(place: Path, error: OSError) -> StoreError:
    kind = StoreFullError if error.errno in FULL else StoreError
    said = "Free space there, or name another place." if kind is StoreFullError else "Name another place."
    return kind(f"{place} cannot be written: {error.strerror}.", remedy=said)
