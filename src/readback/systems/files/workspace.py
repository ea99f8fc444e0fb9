"""Change a folder in one step: stage beside the folder, verify, then move everything into place, or drop everything.

The executor opens a workspace inside an action, and the action returns it. Nothing is visible in the folder until
`commit`. A process that dies before the manifest is written leaves nothing there. After the manifest, the next
start finishes the moves, because the content was verified.
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
    typed_errors,
    write_all,
)
from readback.systems.files.staging_area import Area, Home, attempt_of, sync

# The planned folder: changes over the present entries. Workspaces use the overlay, and the overlay writes nothing.

ENTRIES_MAX: Final = 10_000
"""Maximum entries of one tree, as in the file source."""
_CHUNK_BYTES: Final = 1_048_576

Parts = tuple[str, ...]


@dataclass(slots=True)
class Change:
    """The planned state of a path. `blob`: the file with the new content, empty for a removal.

    `folder`: a folder is made or removed. `was`: the entry at the first change.
    """

    was: Stood | None
    blob: str = ""
    sha256: str = ""
    mode: int = 0
    folder: bool = False
    gone: bool = False
    stamp: str | None = None


class Overlay:
    """Changes by resolved path, over one folder."""

    def __init__(self, folder: Confined) -> None:
        self.folder = folder
        self.changes: dict[Parts, Change] = {}

    def stood(self, parts: Parts) -> Stood | None:
        """Return the real entry."""
        try:
            with self.folder.folder(parts) as (folder, name):
                return stood(folder, name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def kind(self, parts: Parts) -> str:
        """Return the planned kind: file, directory, link, other, or nothing."""
        if not parts:
            return "directory"
        change = self.changes.get(parts)
        if change is not None:
            return "" if change.gone else "directory" if change.folder else "file"
        found = self.stood(parts)
        return "" if found is None else _KINDS.get(found[1], "other")

    def set(self, parts: Parts, change: Change) -> None:
        """Plan a change. A plan back to the present state is no change."""
        known = self.changes.get(parts)
        if known is not None:
            change.was = known.was
        if change.was is not None and not change.gone and (change.was[1] == modes.S_IFDIR) is not change.folder:
            raise UsageError(
                f"{'/'.join(parts)!r} is removed and created as another kind.", remedy="Use two workspaces, one by one."
            )
        back = change.was is None if change.gone else change.folder and change.was is not None
        if back:
            self.changes.pop(parts, None)
        else:
            self.changes[parts] = change

    def content(self, parts: Parts) -> bytes:
        """Return the planned content of the file."""
        return b"".join(self._chunks(parts))

    def mode(self, parts: Parts) -> int:
        """Return the present or planned permissions."""
        change = self.changes.get(parts)
        if change is not None:
            return change.mode
        with self.folder.folder(parts) as (folder, name):
            return modes.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)

    def below(self, parts: Parts) -> Iterator[Parts]:
        """Yield all planned entries below a folder, each folder before its content."""
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
        """Return one planned entry without times, or None."""
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
        """Return all planned entries below, by path. Raises UsageError for too many entries."""
        entries: dict[str, Json] = {}
        for each in self.below(parts):
            entries["/".join(each[len(parts) :])] = self.shown(each)
            if len(entries) > ENTRIES_MAX:
                raise UsageError(f"The tree has over {ENTRIES_MAX} entries.", remedy="Read a smaller folder.")
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
"""Maximum changes of one workspace."""
NAMED_MAX: Final = 100
"""Maximum changed paths in the answer. Further changes are counted."""


class FileWorkspace:
    """Invisible changes, an implementation of `ports.acting.Staged`. Paths are as in the executor.

    Use it in a `with` block: an error in the block drops the changes, a normal end leaves the workspace open. `look`,
    `look_text` or `look_tree` name the content of `read`. `answer` names the changes, unless the action sets
    another.
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
        with typed_errors(folder.name):
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
        """Call `write_bytes` with the text in UTF-8."""
        self.write_bytes(path, text.encode(), parents=parents)

    def write_bytes(self, path: str, data: bytes, *, parents: bool = False) -> None:
        """Plan `data` as the file's content. `parents`: create missing parent folders."""
        with self._changing():
            parts = self._parts(path)
            kind = self._plan.kind(parts)
            self._above(parts, parents)
            self._put(parts, data, self._plan.mode(parts) if kind == "file" else NEW_FILE_MODE)

    def append(self, path: str, data: bytes | str) -> None:
        """Plan an addition to the end of the file. A missing file is created."""
        more = data.encode() if isinstance(data, str) else data
        with self._changing():
            parts = self._parts(path)
            there = self._plan.kind(parts) == "file"
            self._above(parts, False)
            old = self._plan.content(parts) if there else b""
            self._put(parts, old + more, self._plan.mode(parts) if there else NEW_FILE_MODE)

    def read_bytes(self, path: str) -> bytes:
        """Return the file's content including the changes of this workspace. Raises ToolError."""
        with self._changing():
            return self._plan.content(self._file(path))

    def delete(self, path: str) -> None:
        """Plan the removal of a file, or of a link without its target."""
        with self._changing():
            parts = tuple(self._folder.inside(path, follow=False))
            self._gone(parts, self._plan.kind(parts))

    def move(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """Plan another name for the file. Raises ToolError where the name exists, unless `overwrite` is set."""
        with self._changing():
            parts, new = self._file(path), self._parts(to)
            if self._plan.kind(new) and not overwrite:
                raise FileExistsError(f"{to} is there already")
            self._above(new, False)
            self._put(new, self._plan.content(parts), self._plan.mode(parts))
            self._gone(parts, "file")

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """Plan a folder. `parents`: also the missing folders above."""
        with self._changing():
            parts = self._parts(path)
            self._above(parts, parents)
            self._make(parts)

    def delete_folder(self, path: str) -> None:
        """Plan the removal of the folder with its content."""
        with self._changing():
            parts = tuple(self._folder.inside(path, follow=False))
            if self._plan.kind(parts) != "directory":
                raise NotADirectoryError(f"{path} is no folder")
            for each in [*reversed(list(self._plan.below(parts))), parts]:
                self._gone(each, self._plan.kind(each))

    # --- what is verified ---------------------------------------------------------------------------------------

    def look(self, path: str) -> None:
        """Let `read` show one file or folder, in the form of the file source's `stat` without times."""
        self._look = ("stat", path, "")

    def look_text(self, path: str, *, encoding: str = "utf-8") -> None:
        """Let `read` show one file with its text."""
        self._look = ("text", path, encoding)

    def look_tree(self, path: str = ".") -> None:
        """Let `read` show a folder with everything below, in the form of the file source's `tree`."""
        self._look = ("tree", path, "")

    def read(self) -> Reading:
        """Read the planned folder back from the disk."""
        self._still_open()
        if self._look is None:
            raise UsageError(
                "The workspace has nothing to show. Call its `look`, `look_text` or `look_tree` in the action."
            )
        how, path, encoding = self._look
        with typed_errors(self._folder.name):
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
        """Move everything into place, or nothing.

        Raises:
            NotDispatchedError: Nothing is in place: a foreign change conflicts, the attempt was given up, or a
                failed move was undone.
            ToolError: The state is open.
        """
        self._still_open()
        with typed_errors(self._folder.name), self._area.locked() as area:
            self._check(area)
            try:
                journal = self._journal()
            except OSError as error:
                self._refuse(area, f"it could not be prepared: {error}", error)
            # Durable from here on: after a crash, the next start finishes the moves.
            journal.write()
            self._move(journal, area)
        self._settled = "committed"
        return {"transaction": "committed", "changes": len(journal.moves)}

    def abandon(self) -> object:
        """Drop everything. Raises ToolError where a leftover is possible."""
        self._still_open()
        self._settled = "abandoned"
        with typed_errors(self._folder.name), self._area.locked() as area:
            self._area.drop(self._home, area)
        return {"transaction": "abandoned"}

    def _check(self, area: str) -> None:
        """Refuse an outdated workspace."""
        known = self._area.record(area, *attempt_of(self._ctx))
        if known is not None:
            self._refuse(area, f"this attempt is recorded as {known.get('state')}, and ends with that")
        for parts, change in self._plan.changes.items():
            path = "/".join(parts)
            if self._plan.stood(parts) != change.was:
                self._refuse(area, f"{path!r} was changed by another process")
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
            self._home.close()  # Keep place and manifest. The next start tries again.
            raise ToolError(
                f"A workspace of {self._folder.name!r} was moved in part, neither finished nor undone: {error}",
                remedy="The manifest is kept. Remove the obstacle, then open the folder again.",
                code="tool.file",
            ) from error
        self._area.remember(area, state, *attempt_of(self._ctx))
        if state == "undone":
            self._refuse(area, "a move failed, and all moves were undone")
        self._area.drop(self._home, area)

    def _journal(self) -> Journal:
        """Return every step with the replaced entry. Replaced entries stay until the end."""
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
            except OSError:  # A file system without hard links.
                shutil.copy2(f"/proc/self/fd/{folder}/{name}", back, follow_symlinks=False)
        return stood(None, back)

    # --- parts --------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._still_open()
        if len(self._plan.changes) > CHANGES_MAX:
            raise UsageError(f"A workspace has at most {CHANGES_MAX} changes.")
        with typed_errors(self._folder.name):
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
            raise FileExistsError(f"{'/'.join(parts)} exists and is not a folder")
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
        """Raises OwnFileError. A missing folder holds no files."""
        with suppress(FileNotFoundError, NotADirectoryError), self._folder.folder(parts) as (folder, name):
            refuse_change(folder, name)

    def _stamp(self, parts: Parts) -> str | None:
        """Return the stamp of the shown entry: ours where this workspace writes the entry, else the present stamp."""
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
    """Order the steps: new folders from above, then files, then removals from below."""
    depth = len(move.parts)
    return {"folder": (0, depth), "put": (1, depth), "gone": (2, depth), "rmdir": (3, -depth)}[move.do]


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        digest = sha256()
        while chunk := file.read(1_048_576):
            digest.update(chunk)
    return digest.hexdigest()
