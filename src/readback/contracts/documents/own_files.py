"""Readback's own files: contracts, settings, the ledger, keys, verifiers and hooks. No executor may change one.

Code that opens such a file registers the file here (`keep`). Executors and start-ups check before acting. A file is
recognised by device and inode, and by its present or future place. So a link, a hard link, another spelling and a
missing file are all found. Safe from any thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from readback.canon.frozen import dataclass
from readback.canon.unicode_forms import normalized
from readback.errors import OwnFileError, SettingsError

KEPT_MAX: Final = 4_096
"""The number of registered files; the oldest are dropped first."""
LINKS_MAX: Final = 40
"""The system's own limit of links on one path."""
LEDGER_ENDINGS: Final = ("", "-wal", "-shm", "-journal", ".unrecorded.jsonl", ".refused.jsonl")
Identity = tuple[int, int]
Place = tuple[Identity, str]
"""A folder, and a name in the folder."""
# No lock: one that another thread held while this process was forked would never be released in the child. Each step on
# these is a single call of the interpreter's own, so threads do not see a half of it.
_FILES: Final[dict[str, None]] = {}
_FOLDERS: Final[dict[str, None]] = {}


def keep(path: str | Path, endings: Iterable[str] = ("",)) -> None:
    """Register a file, existing or not. `endings`: the suffixes of companion files."""
    for ending in endings:
        _note(_FILES, os.fspath(path) + ending)


def keep_folder(path: str | Path) -> None:
    """Register a folder; its whole content is Readback's own."""
    _note(_FOLDERS, os.fspath(path))


def _note(kept: dict[str, None], path: str) -> None:
    try:
        named = os.path.abspath(path)
        os.fsencode(named)
    except (UnicodeEncodeError, FileNotFoundError):
        return  # no file has such a name, or the working folder was deleted and a name in it leads to no file
    if "\0" in named:
        return
    kept.pop(named, None)
    kept[named] = None
    while len(kept) > KEPT_MAX:
        kept.pop(next(iter(tuple(kept))), None)


def refuse_change(folder: int, name: str) -> None:
    """Raises OwnFileError where a name in an open folder is an own file, or holds or leads to one."""
    own = _look()
    here = _identity(os.fstat(folder))
    if (here, _folded(name)) in own.places or _at(name, folder) in own.files:
        raise _error(name)
    if own.folders and any(each in own.folders for each in _above(folder)):
        raise _error(name)


def refuse_opened(file: int, name: str) -> None:
    """Raises OwnFileError where an open file is an own one, under any name."""
    if _identity(os.fstat(file)) in _look().files:
        raise _error(name)


def refuse_path(path: str) -> None:
    """Raises OwnFileError where the path is an own file, or would be."""
    own = _look()
    whole = os.path.abspath(path)
    if any(place in own.places for place in list(_places(whole))[-1:]) or _at(whole) in own.files:
        raise _error(path)


def refuse_folder(folder: str, who: str) -> None:
    """Raises OwnFileError where own files lie in the working folder of a program."""
    found = held_below(folder)
    if found:
        raise OwnFileError(
            f"The program of {who!r} would run in {folder!r:.200}, where {found!r:.200} of Readback's own lies.",
            remedy="Name a folder under `cwd` without contracts, settings, ledger or keys.",
        )


def held_below(folder: str) -> str:
    """Return an own file or folder inside this folder, above this folder, or equal to this file; "" where there is
    none.
    """
    sought = _at(folder)
    if sought is None:
        return ""
    for named in (*tuple(_FILES), *tuple(_FOLDERS)):
        if not os.path.lexists(named):
            continue
        if sought == _at(named) or any(place[0] == sought for place in _places(named)):
            return named
    above = {place[0] for place in _places(os.path.realpath(folder))}
    return next((named for named in tuple(_FOLDERS) if _at(named) in above), "")


def refuse_reach(who: str, words: Iterable[str], folder: str | None = None) -> None:
    """Raises SettingsError where a separate program receives an own file, or a folder with own files.

    Single files cannot be protected from such a program. `words`: its arguments, and values of its environment.
    """
    for word in words:
        for named in (word, word.partition("=")[2]):
            path = os.path.join(folder or os.curdir, os.path.expanduser(named))
            found = held_below(path) if named else ""
            if found:
                raise SettingsError(
                    f"{who} is given {named!r:.200}, and {found!r:.200} of Readback's own lies there: it could change "
                    "contracts, settings, the ledger or keys.",
                    remedy="Pass a folder without such files, or move the files out of that folder.",
                    code="settings.own-files",
                )


@dataclass(frozen=True, slots=True)
class _Own:
    places: frozenset[Place]
    """Return the places of own files, and every folder and link on the way."""
    files: frozenset[Identity]
    folders: frozenset[Identity]


def _look() -> _Own:
    """Find the own files in the present file system, on every call: files and links change."""
    files, folders = tuple(_FILES), tuple(_FOLDERS)
    places, found = set[Place](), set[Identity]()
    for named in (*files, *folders):
        places.update(_places(named))
    for named in files:
        for seen in (_at(named), _at(named, follow=False)):
            if seen is not None:
                found.add(seen)
    return _Own(frozenset(places), frozenset(found), frozenset(filter(None, map(_at, folders))))


def _places(path: str) -> Iterator[Place]:
    """Return the place of each folder, link and file on the way, up to the first missing one."""
    left = path.split("/")[::-1]
    here, links = "/", 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        try:
            yield _identity(os.stat(here)), _folded(name)
            seen = os.lstat(os.path.join(here, name))
        except OSError:
            return
        if not stat.S_ISLNK(seen.st_mode):
            here = os.path.join(here, name)
            continue
        links += 1
        if links > LINKS_MAX:
            return
        target = os.readlink(os.path.join(here, name))
        here = "/" if target.startswith("/") else here
        left += target.split("/")[::-1]


def _above(folder: int) -> Iterator[Identity]:
    """Yield the open folder and every folder above."""
    handle = os.dup(folder)
    try:
        last: Identity | None = None
        while (here := _identity(os.fstat(handle))) != last:
            yield here
            last = here
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=handle)
            os.close(handle)
            handle = above
    except PermissionError:  # what may not be entered cannot be an own folder of this process
        return
    finally:
        os.close(handle)


def _at(path: str, folder: int | None = None, *, follow: bool | None = None) -> Identity | None:
    """Return the file's status: in an open folder the entry itself, otherwise the entry's target."""
    try:
        return _identity(os.stat(path, dir_fd=folder, follow_symlinks=folder is None if follow is None else follow))
    except (OSError, ValueError):
        return None


def _identity(seen: os.stat_result) -> Identity:
    return seen.st_dev, seen.st_ino


def _folded(name: str) -> str:
    """Return one form for names equal on some file system. One refused name too many is safe."""
    return normalized("NFC", normalized("NFD", name).casefold())


def _error(name: str) -> OwnFileError:
    return OwnFileError(f"{name!r:.200} is one of Readback's own files, or leads to one. No action may change it.")


# Reads a file written for Readback: contracts, tables, hooks. A pipe is not read, since a read could block.


def content_of(path: str | Path, bytes_max: int, *, pipes: bool = False) -> bytes:
    """Return the bytes of the file, at most one more than the limit; none of a pipe. Raises OSError, ValueError.

    `pipes`: read a pipe with a writer to the end. The file is Readback's own from then on.
    """
    keep(path)
    with open(path, "rb", opener=lambda named, flags: os.open(named, flags | os.O_NONBLOCK)) as file:
        if pipes:
            os.set_blocking(file.fileno(), True)
        return file.read(bytes_max + 1) or b""
