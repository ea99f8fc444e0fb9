"""Confine the file executor to a folder: resolve paths, and check the entries there.

The executor's other modules use this one. A path is resolved first. The walk then starts at the open folder and follows
no link, so an entry swapped in between leads nowhere. Only requested missing folders are written.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from readback.contracts.documents.own_files import refuse_change
from readback.domain.context import Context
from readback.errors import SandboxEscapeError, ToolError

STAMP_ATTRIBUTE: Final = "user.readback.stamp"
"""Extended attribute for the stamp, where the file system supports attributes."""
NEW_FILE_MODE: Final = 0o644
NEW_FOLDER_MODE: Final = 0o755
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Confined:
    """The folder below `root`. `reserved`: first path components of our own, closed to actions."""

    def __init__(self, name: str, root: str | Path, reserved: Sequence[str] = ()) -> None:
        self.name = name
        self._root = os.fspath(root)
        self._reserved = frozenset(reserved)

    @property
    def real(self) -> str:
        """The folder without links in its path."""
        return os.path.realpath(self._root)

    def inside(self, path: str, follow: bool = True) -> list[str]:
        """Return the components of the resolved path inside the folder. Raises SandboxEscapeError."""
        steps = path.split("/")
        try:
            encoded = os.fsencode(path)
        except UnicodeEncodeError as error:
            raise SandboxEscapeError(f"{path!r} cannot be the name of a file.") from error
        if b"\0" in encoded or path.startswith("/") or ".." in steps or steps[-1] in ("", "."):
            raise SandboxEscapeError(f"The path {path!r} leads out of the folder of {self.name!r}, or names no file.")
        root = self.real
        wanted = os.path.join(root, path)
        if follow:
            real = os.path.realpath(wanted)
        else:
            real = os.path.join(os.path.realpath(os.path.dirname(wanted)), steps[-1])
        below = os.path.relpath(real, root).split("/")
        if below[0] in ("..", ".") or below[0] in self._reserved:
            raise SandboxEscapeError(f"The path {path!r} leads out of the folder of {self.name!r}.")
        return below

    @contextmanager
    def place(self, path: str, *, parents: bool = False, follow: bool = True) -> Iterator[tuple[int, str]]:
        """Open the folder of the path's last name, without following a link, and return it with the name.

        The entry is to be changed, so Readback's own files raise OwnFileError.
        """
        with self.folder(self.inside(path, follow), parents=parents) as found:
            refuse_change(*found)
            yield found

    @contextmanager
    def folder(self, parts: Sequence[str], *, parents: bool = False) -> Iterator[tuple[int, str]]:
        """Do the same for resolved components. An empty list means the folder itself, with the name `.`."""
        folder = os.open(self.real, FOLDER)
        try:
            for name in parts[:-1]:
                if parents:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                        os.fsync(folder)
                inner = os.open(name, FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, parts[-1] if parts else "."
        finally:
            os.close(folder)


@contextmanager
def typed_errors(name: str) -> Iterator[None]:
    """Convert refusals of the system to typed errors. The engine reads back the effect."""
    try:
        yield
    except OSError as error:
        raise ToolError(
            f"{name!r} was refused: {type(error).__name__}: {error}",
            remedy="Its effect is being read back.",
            code="tool.file",
        ) from error


def only_files(folder: int, name: str) -> int:
    """Return the mode of the file at this name, or of a new file. Raises SandboxEscapeError for other entries."""
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return NEW_FILE_MODE
    if modes.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(f"{name} is a folder")
    if not modes.S_ISREG(seen.st_mode):
        raise SandboxEscapeError(f"{name!r} is neither a file nor a folder.")
    return modes.S_IMODE(seen.st_mode)


def write_all(file: int, data: bytes) -> None:
    """Write every byte. The system may accept fewer bytes per call."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def put_stamp(file: int, ctx: Context) -> None:
    """Write the attempt's stamp to the file."""
    if hasattr(os, "setxattr"):
        with suppress(OSError):  # Without attributes, the file source shows no stamp.
            os.setxattr(file, STAMP_ATTRIBUTE, ctx.stamp.encode())
