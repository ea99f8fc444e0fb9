"""The folder as a workspace would leave it: what is planned, over what is there. Used by workspaces; it writes nothing.

Kept apart from what moves things into place: this is what a contract's postconditions are judged on before anything is
visible, in the form in which a file source shows it afterwards.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.errors import UsageError
from readback.systems.files.journal import Stood, stood
from readback.systems.files.sandboxed_paths import Confined

ENTRIES_MAX: Final = 10_000
"""Entries of one tree that a workspace shows: as many as the file source does."""
_CHUNK_BYTES: Final = 1_048_576

Parts = tuple[str, ...]


@dataclass(slots=True)
class Change:
    """What a path is to be. `blob`: the file that holds the new content; none for what goes away.

    `folder`: it is one that is made or removed. `was`: what stood there when it was first touched.
    """

    was: Stood | None
    blob: str = ""
    sha256: str = ""
    mode: int = 0
    folder: bool = False
    gone: bool = False
    stamp: str | None = None


class Overlay:
    """Changes by their resolved path, over one folder."""

    def __init__(self, folder: Confined) -> None:
        self.folder = folder
        self.changes: dict[Parts, Change] = {}

    def stood(self, parts: Parts) -> Stood | None:
        """What really stands there."""
        try:
            with self.folder.folder(parts) as (folder, name):
                return stood(folder, name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def kind(self, parts: Parts) -> str:
        """What would stand there: file, directory, link, other, or nothing."""
        if not parts:
            return "directory"
        change = self.changes.get(parts)
        if change is not None:
            return "" if change.gone else "directory" if change.folder else "file"
        found = self.stood(parts)
        return "" if found is None else _KINDS.get(found[1], "other")

    def set(self, parts: Parts, change: Change) -> None:
        """Plans it; a plan that leads back to what is there is none."""
        known = self.changes.get(parts)
        if known is not None:
            change.was = known.was
        if change.was is not None and not change.gone and (change.was[1] == modes.S_IFDIR) is not change.folder:
            raise UsageError(
                f"{'/'.join(parts)!r} is removed and made as something else.", remedy="Use two workspaces, one by one."
            )
        back = change.was is None if change.gone else change.folder and change.was is not None
        if back:
            self.changes.pop(parts, None)
        else:
            self.changes[parts] = change

    def content(self, parts: Parts) -> bytes:
        """What the file would hold."""
        return b"".join(self._chunks(parts))

    def mode(self, parts: Parts) -> int:
        """The permissions that stand there, or would."""
        change = self.changes.get(parts)
        if change is not None:
            return change.mode
        with self.folder.folder(parts) as (folder, name):
            return modes.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)

    def below(self, parts: Parts) -> Iterator[Parts]:
        """Everything that would stand below a folder, each folder before what is in it."""
        names = {
            each[len(parts)] for each in self.changes if len(each) == len(parts) + 1 and each[: len(parts)] == parts
        }
        if self.stood(parts) is not None or not parts:
            with self.folder.folder((*parts, ".")) as (folder, _):
                names.update(os.listdir(folder))
        for name in sorted(names):
            inner = (*parts, name)
            kind = self.kind(inner)
            if kind:
                yield inner
            if kind == "directory":
                yield from self.below(inner)

    # --- as the file source shows it ----------------------------------------------------------------------------

    def shown(self, parts: Parts) -> dict[str, Json] | None:
        """One entry, less its times; None where nothing would stand."""
        kind = self.kind(parts)
        match kind:
            case "":
                return None
            case "directory":
                return {"kind": kind, "mode": f"{self.mode(parts):04o}"}
            case "file":
                digest, size = sha256(), 0
                for chunk in self._chunks(parts):
                    digest.update(chunk)
                    size += len(chunk)
                mode = f"{self.mode(parts):04o}"
                return {"kind": kind, "size": size, "mode": mode, "sha256": digest.hexdigest()}
            case "link":
                with self.folder.folder(parts) as (folder, name):
                    return {"kind": kind, "to": os.readlink(name, dir_fd=folder)}
            case _:
                return {"kind": "other"}

    def tree(self, parts: Parts) -> dict[str, Json]:
        """Everything below, by path. Raises UsageError where that is too much to be shown whole."""
        entries: dict[str, Json] = {}
        for each in self.below(parts):
            entries["/".join(each[len(parts) :])] = self.shown(each)
            if len(entries) > ENTRIES_MAX:
                raise UsageError(f"The tree has over {ENTRIES_MAX} entries.", remedy="Look at a smaller folder.")
        return entries

    def _chunks(self, parts: Parts) -> Iterator[bytes]:
        change = self.changes.get(parts)
        if change is not None and change.blob:
            with open(change.blob, "rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk
            return
        with self.folder.folder(parts) as (folder, name):
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(handle, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk


_KINDS: Final = {modes.S_IFREG: "file", modes.S_IFDIR: "directory", modes.S_IFLNK: "link"}
