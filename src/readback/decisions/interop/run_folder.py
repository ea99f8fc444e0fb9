"""A run folder on disk. Reading never leaves the folder, follows no link, and opens regular files only.

`readback trace verify` passes the folder to `traces` as the files beside a trace.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final

from readback.traces.artifacts import ArtifactTrouble, is_plain_path
from readback.traces.format.fault import DEPTH_MAX_LEVELS, FILES_MAX, ArtifactError, TraceInputError

_CHUNK_BYTES: Final = 1_048_576
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TROUBLES: Final = {
    errno.ENOENT: ArtifactTrouble.MISSING,
    errno.ELOOP: ArtifactTrouble.SYMLINK,
    errno.ENOTDIR: ArtifactTrouble.MISSING,
    errno.ENXIO: ArtifactTrouble.NOT_A_FILE,
    errno.ENAMETOOLONG: ArtifactTrouble.ESCAPES,
}
_CODES: Final = {
    ArtifactTrouble.MISSING: "missing",
    ArtifactTrouble.SYMLINK: "symlink",
    ArtifactTrouble.NOT_A_FILE: "not-a-file",
    ArtifactTrouble.TOO_LARGE: "too-large",
}


class RunFolder:
    """The files of one run. A descriptor holds the folder, so no process can exchange the folder during a reading."""

    def __init__(self, root: Path) -> None:
        try:
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise _input_error(str(root), _trouble(error, None, str(root)), "folder") from error

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder."""
        os.close(self._root)

    def read(self, path: str, bytes_max: int) -> bytes:
        """Return the whole file. Raises ArtifactError."""
        descriptor = self._open(path)
        try:
            return _whole(descriptor, path, bytes_max)
        finally:
            os.close(descriptor)

    def digest(self, path: str, bytes_max: int) -> str:
        """Return the SHA-256 of a file in hexadecimal. Raises ArtifactError."""
        made = sha256()
        descriptor = self._open(path)
        try:
            for part in _contents(descriptor, path, bytes_max):
                made.update(part)
        finally:
            os.close(descriptor)
        return made.hexdigest()

    def names(self) -> Iterator[str]:
        """Return the relative path of every entry except folders. Raises ArtifactError."""
        pending, found = [""], 0
        while pending:
            folder = pending.pop()
            for name, is_folder in self._entries(folder):
                found += 1
                path = f"{folder}/{name}" if folder else name
                if found > FILES_MAX or path.count("/") > DEPTH_MAX_LEVELS:
                    raise ArtifactError.of(ArtifactTrouble.TOO_LARGE, path)
                if is_folder:
                    pending.append(path)
                else:
                    yield path

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        descriptor = self._descend(folder.split("/") if folder else [], folder)
        try:
            with os.scandir(descriptor) as entries:
                return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError as error:
            raise ArtifactError.of(_trouble(error, None, folder), folder) from error
        finally:
            os.close(descriptor)

    def _open(self, path: str) -> int:
        if not is_plain_path(path):
            raise ArtifactError.of(ArtifactTrouble.ESCAPES, path)
        *folders, name = path.split("/")
        folder = self._descend(folders, path)
        try:
            return os.open(name, _FILE_FLAGS, dir_fd=folder)
        except (OSError, ValueError) as error:
            raise ArtifactError.of(_trouble(error, folder, name), path) from error
        finally:
            os.close(folder)

    def _descend(self, folders: list[str], path: str) -> int:
        """Open folder by folder, so no part of the path can be a link. The caller closes the last folder."""
        at = os.dup(self._root)
        for name in folders:
            try:
                deeper = os.open(name, _FOLDER_FLAGS, dir_fd=at)
            except (OSError, ValueError) as error:
                raise ArtifactError.of(_trouble(error, at, name), path) from error
            finally:
                os.close(at)
            at = deeper
        return at


def read_given(path: Path, bytes_max: int, what: str) -> bytes:
    """Read a file named by the caller: regular, and no link itself. Raises TraceInputError."""
    try:
        descriptor = os.open(path, _FILE_FLAGS)
    except (OSError, ValueError) as error:
        raise _input_error(str(path), _trouble(error, None, str(path)), what) from error
    try:
        return _whole(descriptor, str(path), bytes_max)
    except ArtifactError as error:
        raise _input_error(str(path), error.trouble, what) from error
    finally:
        os.close(descriptor)


def _size(descriptor: int, path: str, bytes_max: int) -> int:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        raise ArtifactError.of(ArtifactTrouble.NOT_A_FILE, path)
    if about.st_size > bytes_max:
        raise ArtifactError.of(ArtifactTrouble.TOO_LARGE, path)
    return about.st_size


def _whole(descriptor: int, path: str, bytes_max: int) -> bytes:
    """Return the file in one piece of memory. A growing file is refused."""
    try:
        size = _size(descriptor, path, bytes_max)
        data = os.read(descriptor, size + 1)
        while len(data) < size and (part := os.read(descriptor, size + 1 - len(data))):
            data += part
    except OSError as error:
        raise ArtifactError.of(ArtifactTrouble.UNREADABLE, path) from error
    if len(data) != size:
        raise ArtifactError.of(ArtifactTrouble.UNREADABLE, path)
    return data


def _contents(descriptor: int, path: str, bytes_max: int) -> Iterator[bytes]:
    """Yield the file's bytes in pieces, never beyond the limit."""
    try:
        _size(descriptor, path, bytes_max)
        left = bytes_max
        while part := os.read(descriptor, _CHUNK_BYTES):
            left -= len(part)
            if left < 0:
                raise ArtifactError.of(ArtifactTrouble.TOO_LARGE, path)
            yield part
    except OSError as error:
        raise ArtifactError.of(ArtifactTrouble.UNREADABLE, path) from error


def _trouble(error: Exception, folder: int | None, name: str) -> ArtifactTrouble:
    """Return the reason of a failed opening. A link at the place of a folder differs from a file there."""
    if not isinstance(error, OSError):
        return ArtifactTrouble.ESCAPES
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError:
            return ArtifactTrouble.UNREADABLE
        return ArtifactTrouble.SYMLINK if stat.S_ISLNK(mode) else ArtifactTrouble.NOT_A_FILE
    return _TROUBLES.get(error.errno or 0, ArtifactTrouble.UNREADABLE)


def _input_error(path: str, trouble: ArtifactTrouble, what: str) -> TraceInputError:
    code = _CODES.get(trouble, "unreadable")
    return TraceInputError(
        f"The {what} {path!r} cannot be used: {trouble.value}.",
        code=f"trace.input.{code}",
        details={"path": path, "what": what},
    )
