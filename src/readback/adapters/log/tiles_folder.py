"""An exported log in a folder, and texts that are kept elsewhere: written beside and moved into place, whole or not.

Chosen by bootstrap. A file that is too large, or no plain file, is refused before it is read. It must not believe what
it reads: whoever calls hashes it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from readback.adapters.log.file_locks import held_folder
from readback.contracts.documents.own_files import keep_folder
from readback.errors import StoreError, StoreFullError, StoreLockedError, UsageError
from readback.log.fault import LogFormatError

BEING_WRITTEN: Final = ".being-written"
OWNER_ALONE: Final = 0o600
FULL: Final = frozenset({28, 122})
"""ENOSPC and EDQUOT."""


_EMPTY: Final = "Name one that is empty, or not there; what was broken off has no checkpoint, and can be removed."


class TilesFolder:
    """Keeps `ports.export.Tiles`."""

    __slots__ = ("_folder", "_made", "_synced")

    def __init__(self, folder: Path, *, synced: bool = False) -> None:
        """`synced`: what is written is on the disk, file by file, in the order in which it was written."""
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
        """The names of folders that were made, too."""
        while folder != self._folder:
            folder = folder.parent
            _sync_folder(folder)


def new_folder(folder: Path) -> TilesFolder:
    """A folder of its owner's alone, made now or found empty. Raises UsageError where it holds something."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"The folder {folder} is not empty.", remedy=_EMPTY)
    except OSError as error:
        raise UsageError(f"The folder {folder} cannot be used: {error.strerror}.", remedy="Name another.") from error
    return TilesFolder(folder)


def old_folder(folder: Path) -> TilesFolder:
    """A folder that is there. Raises UsageError where it is not."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.", remedy="Name the folder of an exported log.")
    return TilesFolder(folder)


@contextmanager
def alone(folder: Path) -> Iterator[TilesFolder]:
    """A log that is gone on with in this folder, which is made where it is not there: nobody else who asks for it so
    has it meanwhile, and what is written stays. Raises UsageError, and StoreLockedError where somebody else keeps it.
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
    """A whole file in place of what was there. `synced`: on the disk when this returns. Raises StoreError."""
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
def written(place: Path, *, private: bool = False) -> Iterator[Callable[[bytes], object]]:
    """What somebody named is written piece by piece. A file stands there whole or not at all, also behind a link, with
    the rights that it had; a device or a pipe is written to, and stays what it is. Raises StoreError.

    `private`: a new file is its owner's alone, from before anything is in it.
    """
    there = _there(place)
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


def _there(place: Path) -> os.stat_result | None:
    try:
        return place.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unwritten(place, error) from error


@contextmanager
def _into(place: Path) -> Iterator[Callable[[bytes], object]]:
    """Opened without waiting: a pipe that nobody reads is an error, and not waited for."""
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
    """A plain file's bytes, or None where there is none. Raises LogFormatError for a larger one, else StoreError."""
    try:
        with open(place, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LogFormatError(f"{place} is no plain file.")
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
    """So that the name is on the disk too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _unwritten(place: Path, error: OSError) -> StoreError:
    kind = StoreFullError if error.errno in FULL else StoreError
    said = "Free space there, or name another place." if kind is StoreFullError else "Name another place."
    return kind(f"{place} cannot be written: {error.strerror}.", remedy=said)
