"""Many changes of one folder as one: staged beside it, verified, then moved into place as a whole, or dropped.

Opened by the executor inside an action, and returned from it. Nothing of it is visible in the folder until `commit`.
A process that dies before the manifest is written leaves nothing there; one that dies after it is finished by the next
start, since what it was moving had been verified.
"""

from __future__ import annotations

import os
import shutil
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from types import TracebackType
from typing import Final, NoReturn, Self

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.documents.own_files import refuse_change
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.errors import NotDispatchedError, SandboxEscapeError, ToolError, UsageError
from readback.systems.files.journal import ForeignError, Journal, Move, Stood, stood
from readback.systems.files.sandboxed_paths import (
    NEW_FILE_MODE,
    NEW_FOLDER_MODE,
    STAMP_ATTRIBUTE,
    Confined,
    put_stamp,
    told,
    write_all,
)
from readback.systems.files.staging_area import Area, Home, attempt_of, sync

# The folder as a workspace would leave it: what is planned, over what is there. Used by workspaces; it writes nothing.

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


CHANGES_MAX: Final = 10_000
"""Changes of one workspace."""
NAMED_MAX: Final = 100
"""Changed paths that its answer names; the rest is counted."""


class FileWorkspace:
    """Changes that nobody sees yet, as `ports.acting.Staged` wants them. Paths are as the executor's.

    Use it in a `with` block: an error in the block drops it, a normal end leaves it open. `look`, `look_text` or
    `look_tree` name what `read` shows. `answer` names the changes, unless the action sets its own.
    """

    def __init__(self, ctx: Context, folder: Confined, area: Area) -> None:
        self.answer: object = None
        self._ctx = ctx
        self._folder = folder
        self._area = area
        self._plan = Overlay(folder)
        self._look: tuple[str, str, str] | None = None
        self._settled = ""
        self._blobs = 0
        with told(folder.name):
            self._home: Home = area.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._settled:
            self.abandon()

    # --- changes ------------------------------------------------------------------------------------------------

    def write_text(self, path: str, text: str, *, parents: bool = False) -> None:
        """`write_bytes` of the text in UTF-8."""
        self.write_bytes(path, text.encode(), parents=parents)

    def write_bytes(self, path: str, data: bytes, *, parents: bool = False) -> None:
        """The file is to hold `data`. `parents`: makes the folders above it where they are missing."""
        with self._changing():
            parts = self._parts(path)
            kind = self._plan.kind(parts)
            self._above(parts, parents)
            self._put(parts, data, self._plan.mode(parts) if kind == "file" else NEW_FILE_MODE)

    def append(self, path: str, data: bytes | str) -> None:
        """The file is to hold this at its end; it is made where it is missing."""
        more = data.encode() if isinstance(data, str) else data
        with self._changing():
            parts = self._parts(path)
            there = self._plan.kind(parts) == "file"
            self._above(parts, False)
            old = self._plan.content(parts) if there else b""
            self._put(parts, old + more, self._plan.mode(parts) if there else NEW_FILE_MODE)

    def read_bytes(self, path: str) -> bytes:
        """What the file holds by now, this workspace's own changes included. Raises ToolError."""
        with self._changing():
            return self._plan.content(self._file(path))

    def delete(self, path: str) -> None:
        """The file, or the link and not what it means, is to be gone."""
        with self._changing():
            parts = tuple(self._folder.inside(path, follow=False))
            self._gone(parts, self._plan.kind(parts))

    def move(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """The file is to bear another name. Raises ToolError where that is taken, unless it may be overwritten."""
        with self._changing():
            parts, new = self._file(path), self._parts(to)
            if self._plan.kind(new) and not overwrite:
                raise FileExistsError(f"{to} is there already")
            self._above(new, False)
            self._put(new, self._plan.content(parts), self._plan.mode(parts))
            self._gone(parts, "file")

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """The folder is to be there. `parents`: those above it too."""
        with self._changing():
            parts = self._parts(path)
            self._above(parts, parents)
            self._make(parts)

    def delete_folder(self, path: str) -> None:
        """The folder is to be gone, with all that is in it."""
        with self._changing():
            parts = tuple(self._folder.inside(path, follow=False))
            if self._plan.kind(parts) != "directory":
                raise NotADirectoryError(f"{path} is no folder")
            for each in [*reversed(list(self._plan.below(parts))), parts]:
                self._gone(each, self._plan.kind(each))

    # --- what is verified ---------------------------------------------------------------------------------------

    def look(self, path: str) -> None:
        """What `read` shows: one file or folder, as the file source's `stat` does, less its times."""
        self._look = ("stat", path, "")

    def look_text(self, path: str, *, encoding: str = "utf-8") -> None:
        """What `read` shows: one file with its text."""
        self._look = ("text", path, encoding)

    def look_tree(self, path: str = ".") -> None:
        """What `read` shows: a folder with all that is below it, as the file source's `tree` does."""
        self._look = ("tree", path, "")

    def read(self) -> Reading:
        """The folder as it would be, read back from the disk."""
        self._still_open()
        if self._look is None:
            raise UsageError("The workspace does not know what to show: call its `look` in the action.")
        how, path, encoding = self._look
        with told(self._folder.name):
            parts = () if path == "." else self._parts(path)
            shown = self._plan.shown(parts) if parts else {"kind": "directory"}
            if shown is None:
                return Reading.absent()
            if how == "tree":
                entries = self._plan.tree(parts)
                return Reading.of({"path": path, "entries": entries, "count": len(entries)}, stamp=self._stamp(parts))
            value: dict[str, Json] = {"path": "/".join(parts) or ".", **shown}
            if how == "text":
                value["text"] = self._plan.content(parts).decode(encoding)
            return Reading.of(value, stamp=self._stamp(parts))

    # --- the end ------------------------------------------------------------------------------------------------

    def commit(self) -> object:
        """Moves everything into place, or nothing.

        Raises NotDispatchedError where nothing of it is there (somebody else changed what it would have changed, the
        attempt was given up, a move failed and was undone), ToolError where that is open.
        """
        self._still_open()
        with told(self._folder.name), self._area.locked() as area:
            self._check(area)
            try:
                journal = self._journal()
            except OSError as error:
                self._refuse(area, f"it could not be prepared: {error}", error)
            # Durable from here on: a process that dies now is finished by the next start.
            journal.write()
            self._move(journal, area)
        self._settled = "committed"
        return {"transaction": "committed", "changes": len(journal.moves)}

    def abandon(self) -> object:
        """Drops everything. Raises ToolError where something of it may be left."""
        self._still_open()
        self._settled = "abandoned"
        with told(self._folder.name), self._area.locked() as area:
            self._area.drop(self._home, area)
        return {"transaction": "abandoned"}

    def _check(self, area: str) -> None:
        """Refuses what must not be moved any more."""
        known = self._area.record(area, *attempt_of(self._ctx))
        if known is not None:
            self._refuse(area, f"this attempt is recorded as {known.get('state')}, and ends with that")
        for parts, change in self._plan.changes.items():
            path = "/".join(parts)
            if self._plan.stood(parts) != change.was:
                self._refuse(area, f"{path!r} was changed by somebody else meanwhile")
            if change.blob and _digest(change.blob) != change.sha256:
                self._refuse(area, f"the staged content of {path!r} is no longer what was written")

    def _refuse(self, area: str, why: str, cause: BaseException | None = None) -> NoReturn:
        self._settled = "abandoned"
        self._area.drop(self._home, area)
        raise NotDispatchedError(f"Nothing was moved into {self._folder.name!r}: {why}.") from cause

    def _move(self, journal: Journal, area: str) -> None:
        self._settled = "broken off"
        try:
            state = journal.settle()
        except (OSError, ForeignError) as error:
            self._home.close()  # It is left with its manifest, and tried again with the next start.
            raise ToolError(
                f"A workspace of {self._folder.name!r} is moved in part, and neither finished nor undone: {error}",
                remedy="Its manifest is kept; put right what stands in the way, and open the folder again.",
                code="tool.file",
            ) from error
        self._area.remember(area, state, *attempt_of(self._ctx))
        if state == "undone":
            self._refuse(area, "a move failed, and what had been moved was taken back")
        self._area.drop(self._home, area)

    def _journal(self) -> Journal:
        """Every step with what it replaces, which is kept until the end."""
        moves = [self._step(parts, change, str(n)) for n, (parts, change) in enumerate(self._plan.changes.items())]
        for folder in ("new", "old", ""):
            sync(os.path.join(self._home.path, folder))
        return Journal(self._home.path, self._folder, *attempt_of(self._ctx), tuple(sorted(moves, key=_order)))

    def _step(self, parts: Parts, change: Change, number: str) -> Move:
        if change.folder:
            return Move("rmdir" if change.gone else "folder", parts, change.mode, was=change.was)
        back, kept = "", None
        if change.was is not None:
            back = os.path.join("old", number)
            kept = self._keep(parts, os.path.join(self._home.path, back))
        if change.gone:
            return Move("gone", parts, was=change.was, back=back, kept=kept)
        blob = os.path.relpath(change.blob, self._home.path)
        return Move("put", parts, change.mode, blob, stood(None, change.blob), change.was, back, kept)

    def _keep(self, parts: Parts, back: str) -> tuple[int, int, int, int] | None:
        with self._folder.folder(parts) as (folder, name):
            try:
                os.link(name, back, src_dir_fd=folder, follow_symlinks=False)
            except OSError:  # A file system without second names.
                shutil.copy2(f"/proc/self/fd/{folder}/{name}", back, follow_symlinks=False)
        return stood(None, back)

    # --- parts --------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._still_open()
        if len(self._plan.changes) > CHANGES_MAX:
            raise UsageError(f"A workspace has at most {CHANGES_MAX} changes.")
        with told(self._folder.name):
            yield
        named: list[Json] = ["/".join(parts) for parts in list(self._plan.changes)[:NAMED_MAX]]
        self.answer = {"changes": len(self._plan.changes), "paths": named}

    def _parts(self, path: str) -> Parts:
        return tuple(self._folder.inside(path))

    def _file(self, path: str) -> Parts:
        parts = self._parts(path)
        if self._plan.kind(parts) != "file":
            raise FileNotFoundError(f"{path} is no file")
        return parts

    def _above(self, parts: Parts, make: bool) -> None:
        for depth in range(1, len(parts)):
            above = parts[:depth]
            kind = self._plan.kind(above)
            if kind == "" and make:
                self._make(above)
            elif kind != "directory":
                raise FileNotFoundError(f"{'/'.join(above)} is no folder")

    def _make(self, parts: Parts) -> None:
        kind = self._plan.kind(parts)
        if kind not in ("", "directory"):
            raise FileExistsError(f"{'/'.join(parts)} is there, and no folder")
        if kind == "":
            self._plan.set(parts, Change(self._plan.stood(parts), folder=True, mode=NEW_FOLDER_MODE))

    def _put(self, parts: Parts, data: bytes, mode: int) -> None:
        kind = self._plan.kind(parts)
        if kind == "directory":
            raise IsADirectoryError(f"{'/'.join(parts)} is a folder")
        if kind not in ("", "file"):
            raise SandboxEscapeError(f"{'/'.join(parts)!r} is neither a file nor a folder.")
        self._refuse_own(parts)
        self._blobs += 1
        blob = os.path.join(self._home.path, "new", str(self._blobs))
        file = os.open(blob, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(file, data)
            os.fchmod(file, mode)
            put_stamp(file, self._ctx)
            os.fsync(file)
        finally:
            os.close(file)
        digest = sha256(data).hexdigest()
        change = Change(self._plan.stood(parts), blob, digest, mode, stamp=self._ctx.stamp)
        self._plan.set(parts, change)

    def _gone(self, parts: Parts, kind: str) -> None:
        if kind == "":
            raise FileNotFoundError(f"{'/'.join(parts)} is not there")
        if kind == "other":
            raise SandboxEscapeError(f"{'/'.join(parts)!r} is neither a file nor a folder.")
        self._refuse_own(parts)
        mode = self._plan.mode(parts)
        self._plan.set(parts, Change(self._plan.stood(parts), mode=mode, folder=kind == "directory", gone=True))

    def _refuse_own(self, parts: Parts) -> None:
        """Raises OwnFileError. A folder that is not there yet holds nothing of anybody's."""
        with suppress(FileNotFoundError, NotADirectoryError), self._folder.folder(parts) as (folder, name):
            refuse_change(folder, name)

    def _stamp(self, parts: Parts) -> str | None:
        """The stamp inside what is shown: ours where we write it, else what is there."""
        change = self._plan.changes.get(parts)
        if change is not None:
            return change.stamp
        try:
            with self._folder.folder(parts) as (folder, name):
                return os.getxattr(f"/proc/self/fd/{folder}/{name}", STAMP_ATTRIBUTE).decode()
        except (OSError, AttributeError, UnicodeDecodeError):
            return None

    def _still_open(self) -> None:
        if self._settled:
            raise UsageError(f"The workspace of {self._folder.name!r} is {self._settled} already.")


def _order(move: Move) -> tuple[int, int]:
    """What is new appears before what is old goes: folders from above, files, then what goes, from below."""
    depth = len(move.parts)
    return {"folder": (0, depth), "put": (1, depth), "gone": (2, depth), "rmdir": (3, -depth)}[move.do]


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        digest = sha256()
        while chunk := file.read(1_048_576):
            digest.update(chunk)
    return digest.hexdigest()
