"""Acts on a folder: writes, appends, deletes and moves files, durably, and never outside it.

Constructed by users and called inside actions. It must not verify. Whole files are written beside their target,
without a name, and take its place in one step: a reader sees the old content or the new, and a process that dies
leaves nothing lying about. Confinement is decided here by its own code; nothing is shared with the file source.
"""

from __future__ import annotations

import json
import os
import stat as modes
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from readback.canon import Json
from readback.domain.context import Context
from readback.domain.errors import SandboxEscapeError, ToolError, UsageError
from readback.domain.reading import Reading

STAMP_ATTRIBUTE: Final = "user.readback.stamp"
"""The extended attribute that carries the stamp inside the artefact, where the file system has such."""
DIRTY_MARKER: Final = ".readback-dirty"
NEW_FILE_MODE: Final = 0o644
_CHUNK_BYTES: Final = 1_048_576
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileExecutor:
    """Writes below `root`. Safe from any thread. Paths are relative to `root`, with slashes.

    Links inside the folder are followed to what they mean; a path that leads out raises SandboxEscapeError before
    anything is done. What the system refuses is a ToolError. The marks of the attempt need no care of the caller:
    a file that is written bears the stamp where the file system can hold it.
    """

    def __init__(self, root: str | Path, *, name: str = "files") -> None:
        self.name = name
        self._root = os.fspath(root)

    def write_text(self, ctx: Context, path: str, text: str, *, parents: bool = False) -> dict[str, Json]:
        """`write_bytes` of the text in UTF-8."""
        return self.write_bytes(ctx, path, text.encode(), parents=parents)

    def write_bytes(self, ctx: Context, path: str, data: bytes, *, parents: bool = False) -> dict[str, Json]:
        """Lets the file hold `data`, in one step. `parents`: makes the folders above it where they are missing."""
        staged = self.stage(ctx, path, data, parents=parents)
        staged.commit()
        return {"path": path, "size": len(data)}

    def stage(self, ctx: Context, path: str, data: bytes | str, *, parents: bool = False) -> FileStaged:
        """Writes beside the target: return it from the action, to be verified before it takes the place."""
        content = data.encode() if isinstance(data, str) else data
        with _told(self.name), self._place(path, parents=parents) as (folder, name):
            return FileStaged(ctx, self.name, path, os.dup(folder), name, content)

    def append(self, ctx: Context, path: str, data: bytes | str) -> dict[str, Json]:
        """Adds to the end of the file, which is made where it is missing. A part may land if the system fails."""
        content = data.encode() if isinstance(data, str) else data
        with _told(self.name), self._place(path) as (folder, name):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            _only_files(folder, name)
            file = os.open(name, flags, NEW_FILE_MODE, dir_fd=folder)
            try:
                _write(file, content)
                _stamp(file, ctx)
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(folder)
        return {"path": path, "appended": len(content)}

    def delete(self, ctx: Context, path: str) -> dict[str, Json]:
        """Removes a file, or a link and not what it means."""
        with _told(self.name), self._place(path, follow=False) as (folder, name):
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        return {"path": path, "deleted": True}

    def move(self, ctx: Context, path: str, to: str, *, overwrite: bool = False) -> dict[str, Json]:
        """Gives a file another name. Raises ToolError where that is taken, unless it may be overwritten."""
        with (
            _told(self.name),
            self._place(path, follow=False) as (folder, name),
            self._place(to, follow=False) as (other, new),
        ):
            if overwrite:
                os.replace(name, new, src_dir_fd=folder, dst_dir_fd=other)
            else:  # A second name first: that fails where the name is taken, which a rename would not.
                os.link(name, new, src_dir_fd=folder, dst_dir_fd=other, follow_symlinks=False)
                os.unlink(name, dir_fd=folder)
            os.fsync(other)
            os.fsync(folder)
        return {"path": path, "to": to, "moved": True}

    # --- the mark of a workspace that can no longer be trusted -----------------------------------------------------

    def mark_dirty(self, ctx: Context, reason: str) -> dict[str, Json]:
        """Notes that the folder's state is not what any plan says, and why. The note stays until it is cleared."""
        note = json.dumps({"action": ctx.action_id, "target": ctx.target, "reason": reason})
        self.append(ctx, DIRTY_MARKER, note + "\n")
        return {"dirty": True}

    @property
    def dirty(self) -> bool:
        """Whether the folder was marked."""
        return os.path.lexists(os.path.join(self._root, DIRTY_MARKER))

    def clear_dirty(self, ctx: Context) -> dict[str, Json]:
        """Takes the mark off, once somebody has looked."""
        if self.dirty:
            self.delete(ctx, DIRTY_MARKER)
        return {"dirty": False}

    # --- confinement -----------------------------------------------------------------------------------------------

    @contextmanager
    def _place(self, path: str, *, parents: bool = False, follow: bool = True) -> Iterator[tuple[int, str]]:
        """The folder that holds the path's last name, open, and that name; reached without following a link."""
        parts = self._inside(path, follow)
        folder = os.open(os.path.realpath(self._root), _FOLDER)
        try:
            for name in parts[:-1]:
                if parents:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                        os.fsync(folder)
                inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, parts[-1]
        finally:
            os.close(folder)

    def _inside(self, path: str, follow: bool) -> list[str]:
        steps = path.split("/")
        try:
            encoded = os.fsencode(path)
        except UnicodeEncodeError as error:
            raise SandboxEscapeError(f"{path!r} cannot be the name of a file.") from error
        if b"\0" in encoded or path.startswith("/") or ".." in steps or steps[-1] in ("", "."):
            raise SandboxEscapeError(f"The path {path!r} leaves the folder of {self.name!r}, or names no file.")
        root = os.path.realpath(self._root)
        wanted = os.path.join(root, path)
        if follow:
            real = os.path.realpath(wanted)
        else:
            real = os.path.join(os.path.realpath(os.path.dirname(wanted)), steps[-1])
        below = os.path.relpath(real, root).split("/")
        if below[0] in ("..", "."):
            raise SandboxEscapeError(f"The path {path!r} leads out of the folder of {self.name!r}.")
        return below


class FileStaged:
    """A file that was written and has not taken its place, as `ports.acting.Staged` wants it.

    It has no name, so that it is gone with the process; where the file system knows no such files, it has a hidden
    one beside the target.
    """

    def __init__(self, ctx: Context, executor: str, path: str, folder: int, name: str, data: bytes) -> None:
        self.answer: object = {"path": path, "size": len(data)}
        self._ctx = ctx
        self._executor = executor
        self._path = path
        self._folder = folder
        self._name = name
        self._hidden = f".readback-{sha256(f'{ctx.action_id}/{ctx.attempt}/{path}'.encode()).hexdigest()[:20]}.tmp"
        self._digest = sha256(data).hexdigest()
        self._settled = ""
        try:
            mode = _only_files(folder, name)
            self._file, self._has_name = _unnamed(folder, self._hidden)
        except BaseException:
            os.close(folder)
            raise
        try:
            _write(self._file, data)
            os.fchmod(self._file, mode)
            _stamp(self._file, ctx)
            os.fsync(self._file)
        except BaseException:
            self.abandon()
            raise

    def read(self) -> Reading:
        """The file as it would be, read back from the disk: as the file source would show it."""
        self._still_open()
        seen = os.fstat(self._file)
        value: dict[str, Json] = {
            "path": self._path,
            "kind": "file",
            "size": seen.st_size,
            "mode": f"{modes.S_IMODE(seen.st_mode):04o}",
            "sha256": self._hash(),
        }
        return Reading.of(value, stamp=self._ctx.stamp)

    def commit(self) -> object:
        """Takes the place of the target in one step. An exception before that step leaves everything as it was."""
        self._still_open()
        with _told(self._executor), closing(self):
            if self._hash() != self._digest:
                raise ToolError(
                    f"The staged content of {self._path!r} is no longer what was written.", code="tool.file"
                )
            if not self._has_name:
                _give_name(self._file, self._folder, self._hidden)
                self._has_name = True
            os.replace(self._hidden, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._has_name = False
            os.fsync(self._folder)
            self._settled = "committed"
        return {"transaction": "committed", "path": self._path}

    def abandon(self) -> object:
        """Drops the file."""
        self._still_open()
        self._settled = "abandoned"
        self.close()
        return {"transaction": "abandoned", "path": self._path}

    def close(self) -> None:
        """Lets go of everything; called by `commit` and `abandon`."""
        if not self._settled:
            self._settled = "broken off"
        if self._has_name:
            with suppress(FileNotFoundError):
                os.unlink(self._hidden, dir_fd=self._folder)
        os.close(self._file)
        os.close(self._folder)

    def _still_open(self) -> None:
        if self._settled:
            raise UsageError(f"The staged file {self._path!r} is {self._settled} already.")

    def _hash(self) -> str:
        digest, at = sha256(), 0
        while chunk := os.pread(self._file, _CHUNK_BYTES, at):
            digest.update(chunk)
            at += len(chunk)
        return digest.hexdigest()


@contextmanager
def _told(name: str) -> Iterator[None]:
    """What the system refuses, as a typed error. What became of the action is read back."""
    try:
        yield
    except OSError as error:
        raise ToolError(
            f"{name!r} was refused: {type(error).__name__}: {error}",
            remedy="Its effect is being read back.",
            code="tool.file",
        ) from error


def _only_files(folder: int, name: str) -> int:
    """The mode that a file of this name has, or would get. Raises SandboxEscapeError for what is no file."""
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return NEW_FILE_MODE
    if modes.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(f"{name} is a folder")
    if not modes.S_ISREG(seen.st_mode):
        raise SandboxEscapeError(f"{name!r} is neither a file nor a folder.")
    return modes.S_IMODE(seen.st_mode)


def _unnamed(folder: int, hidden: str) -> tuple[int, bool]:
    """A new file in the folder, and whether it had to be given the hidden name."""
    without_name = getattr(os, "O_TMPFILE", None)
    if without_name is not None and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # A file system without such files; the other way says so if it is more than that.
            return os.open(".", without_name | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder), False
    with suppress(FileNotFoundError):
        os.unlink(hidden, dir_fd=folder)  # Of an earlier life of the same attempt, which died.
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(hidden, flags, 0o600, dir_fd=folder), True


def _give_name(file: int, folder: int, hidden: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(hidden, dir_fd=folder)
    os.link(f"/proc/self/fd/{file}", hidden, dst_dir_fd=folder, follow_symlinks=True)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _stamp(file: int, ctx: Context) -> None:
    if hasattr(os, "setxattr"):
        with suppress(OSError):  # Not every file system can hold it; the file source then shows none.
            os.setxattr(file, STAMP_ATTRIBUTE, ctx.stamp.encode())
