"""A folder as a system of record: its entries, their sizes and hashes.

Users or contract files construct the source, and reader functions call the source. The source never writes and never
leaves its folder. A path is resolved first. The walk then starts at the open folder and follows no link, so an entry
swapped in between leads nowhere. Absence is believed where the folder's listing is readable.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeAlias

from readback.canon import CanonError, Json, json_value, parse_json, payload_bytes, why_not_json
from readback.canon.frozen import dataclass
from readback.canon.limits import STRING_MAX_BYTES
from readback.canon.unicode_forms import normalized
from readback.domain.normal_form import NormalForm, normal
from readback.domain.verification.change import alike
from readback.domain.verification.reading import Reading
from readback.errors import ReaderFailedError, ReaderTypeError, SandboxEscapeError, UsageError

# Names as the file system compares them: which entry a name means, and the entry's own spelling.

_CASELESS = (NormalForm.CASEFOLD,)


def own_names(root: str, parts: list[str]) -> tuple[list[str], bool]:
    """Return the path from `root` in the entries' own names, and whether the volume ignored a spelling.

    A missing name stays unchanged, because nothing is known about it.
    """
    owned: list[str] = []
    overlooked = False
    for name in parts:
        own = _own_name(os.path.join(root, *owned), name)
        overlooked = overlooked or own != name
        owned.append(own)
    return owned, overlooked


def _own_name(folder: str, name: str) -> str:
    """Return the entry's own name for `name`.

    Another spelling counts only where both lead to the same entry and only the other is listed. Two hard links of one
    file are two entries with their own names.
    """
    seen = _identity(os.path.join(folder, name))
    if seen is None or not any(_identity(os.path.join(folder, each)) == seen for each in _spellings(name)):
        return name
    try:
        listed = os.listdir(folder)
    except OSError:
        return name
    if name in listed:
        return name
    folded = normal(_CASELESS, name)
    alike = [each for each in listed if normal(_CASELESS, each) == folded]
    same = [each for each in alike if _identity(os.path.join(folder, each)) == seen]
    return same[0] if len(same) == 1 else name


def _spellings(name: str) -> Iterator[str]:
    """Yield other spellings of a name, for volumes that ignore the difference."""
    found = {name.swapcase()}
    if not name.isascii():
        found |= {normalized(form, each) for form in ("NFC", "NFD") for each in (name, name.swapcase())}
    yield from found - {name}


def _identity(path: str) -> tuple[int, int] | None:
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):  # missing, or an invalid name
        return None
    return seen.st_dev, seen.st_ino


def equivalent(root: str, path: str) -> str:
    """Replace each missing name of a path below `root` by the only entry with a canonically equivalent name (Unicode).

    Some servers find files named on another system like this. Several equivalent entries count as none.
    """
    if os.path.exists(os.path.join(root, path)):
        return path
    parts = [each for each in path.split("/") if each not in ("", ".")]
    at, meant = os.path.realpath(root), list[str]()
    for index, name in enumerate(parts):
        try:
            listed = os.listdir(at)
        except OSError:
            return "/".join([*meant, *parts[index:]])
        if name in listed:
            entry = name
        else:
            composed = normalized("NFC", name)
            alike = [each for each in listed if not each.isascii() or not name.isascii()]
            alike = [each for each in alike if normalized("NFC", each) == composed]
            if len(alike) != 1:
                return "/".join([*meant, *parts[index:]])
            entry = alike[0]
        meant.append(entry)
        at = os.path.realpath(os.path.join(at, entry))
    return "/".join(meant) or path


HASH_MAX_BYTES: Final = 268_435_456
"""Maximum bytes hashed in one reading. Further files are shown without a hash, so nothing is known about their bytes.
"""
LINES_MAX_BYTES: Final = 67_108_864
ENTRIES_MAX: Final = 10_000
STAMP_ATTRIBUTE: Final = "user.readback.stamp"
"""Extended attribute for the writer's stamp."""

_CHUNK_BYTES: Final = 1_048_576
Names: TypeAlias = Literal["exact", "equivalent"]
_FORMS: Final = (("path", (NormalForm.PATH,)),)
_OVERLOOKED: Final = (("path", (NormalForm.PATH, NormalForm.CASEFOLD)),)
"""The ignored forms, for a volume that ignored a difference of spelling."""
_Picked: TypeAlias = Callable[[bytes], dict[str, Json]]
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _NotShownError(Exception):
    """Carries the reading with the reason for a hidden object."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.detail)
        self.reading = reading


@dataclass(slots=True)
class _Budget:
    """Bytes left for hashing in this reading."""

    left: int


class FileSource:
    """Read the files below one folder.

    Safe from any thread. Paths are relative to `root`, with slashes. Links inside the folder are followed. A path out
    of the folder, a device, a pipe and a socket raise SandboxEscapeError. Where the volume ignores case or the Unicode
    form of a name, the source does too, and `path` shows the entries' own names.

    Args:
        name: Name in readings and messages.
        root: The folder.
        hash_max_bytes: Maximum bytes hashed in one reading.
        names: "equivalent" lets a missing name mean the only entry with another Unicode form, as on some
            servers.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "index.html").write_text("Hello")
        >>> FileSource("site", folder).stat("index.html").value["size"]
        5
    """

    def __init__(
        self, name: str, root: str | Path, *, hash_max_bytes: int = HASH_MAX_BYTES, names: Names = "exact"
    ) -> None:
        if not name:
            raise UsageError("A source needs a name.")
        self.name = name
        self._root = os.fspath(root)
        self._hash_max_bytes = hash_max_bytes
        self._equivalent = names == "equivalent"

    def stat(self, path: str) -> Reading:
        """Read `path` (resolved), `kind` (file or directory), `size`, `sha256`, `mode` (as `0644`) and `mtime_us`.

        A link also has `link`. The version changes with every write. Too large or unreadable files have no `sha256`.
        """
        return self._shown(path, None)

    def text(self, path: str, *, encoding: str = "utf-8") -> Reading:
        """Read `stat` with the file's `text`. Raises ReaderTypeError for no text, or text over 1 MiB."""
        return self._shown(path, encoding)

    def lines(self, path: str, match: Sequence[Mapping[str, Json]] | None = None, *, by: str = "") -> Reading:
        """Read a file of JSON lines.

        The value holds `lines` (equal to an object of `match` in all its keys; None means all), `by` (the first
        matching line for each value of that field), `count` (all lines) and `others` (a digest of the other lines in
        any order). A repeated line is no change. Raises ReaderTypeError where a line is no JSON object.
        """

        def picked(content: bytes) -> dict[str, Json]:
            return _picked(_decoded(content, "utf-8", path), path, match, by)

        return self._shown(path, None, picked)

    def tree(self, path: str = ".") -> Reading:
        """Read the manifest of a folder: `entries` by path, in the form of `stat` without times, and `count`.

        Links are shown with their text and not followed. Raises ReaderFailedError for a folder of over 10,000 entries:
        a cut manifest would hide changes.
        """
        path = self._meant(path)
        try:
            with self._folder_of(self._parts(path)) as folder:
                entries = dict(self._entries(folder, _Budget(self._hash_max_bytes)))
            return Reading.of({"path": path, "entries": entries, "count": len(entries)})
        except _NotShownError as error:
            return error.reading
        except PermissionError as error:
            return Reading.not_visible(f"{self.name}: a part of the folder cannot be listed: {error}")
        except OSError as error:
            return Reading.unavailable(f"{self.name}: {error}")
        except CanonError as error:
            raise ReaderTypeError(f"{self.name!r} holds a name without a JSON form: {error.message}") from error

    def is_link(self, path: str) -> bool:
        """Return whether the name is a link to anything. Raises SandboxEscapeError, ReaderFailedError."""
        return self.leads(path) is not None

    def leads(self, path: str) -> str | None:
        """Return the text of a link, or None for another entry. Raises SandboxEscapeError, ReaderFailedError."""
        path = self._meant(path)
        self._parts(path)
        named = self._named(path)
        try:
            return os.readlink(named) if modes.S_ISLNK(os.lstat(named).st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ReaderFailedError(f"{self.name!r} cannot be looked at: {error}") from error

    def ping(self) -> None:
        """Check the folder. Raises ReaderFailedError where the folder cannot be listed."""
        try:
            with os.scandir(self._root):
                return
        except OSError as error:
            raise ReaderFailedError(f"The folder of {self.name!r} cannot be listed: {error}") from error

    # --- one object --------------------------------------------------------------------------------------------

    def _shown(self, path: str, encoding: str | None, picked: _Picked | None = None) -> Reading:
        path = self._meant(path)
        parts = self._parts(path)
        try:
            if not parts:
                with self._folder_of([]) as folder:
                    return Reading.of({"path": ".", **_outside(os.fstat(folder))})
            by_link = self._named(path) != os.path.join(os.path.realpath(self._root), *parts)
            parts, overlooked = own_names(os.path.realpath(self._root), parts)
            with self._folder_of(parts[:-1]) as folder:
                shown = self._object(folder, parts, encoding, picked)
            shown = replace(shown, forms=_OVERLOOKED if overlooked else _FORMS)
            if by_link and isinstance(shown.value, dict):
                return replace(shown, value={**shown.value, "link": True})
            return shown
        except _NotShownError as error:
            return error.reading
        except PermissionError as error:
            return Reading.not_visible(f"{self.name}: {error}")
        except OSError as error:
            return Reading.unavailable(f"{self.name}: {error}")
        except CanonError as error:
            raise ReaderTypeError(f"{path!r} has no JSON form: {error.message}") from error

    def _object(self, folder: int, parts: list[str], encoding: str | None, picked: _Picked | None) -> Reading:
        name, path = parts[-1], "/".join(parts)
        try:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise _NotShownError(_absence(folder, name)) from None
        if modes.S_ISDIR(seen.st_mode):
            return Reading.of({"path": path, **_outside(seen)}, version=_version(seen))
        if modes.S_ISLNK(seen.st_mode):
            return Reading.unavailable(f"{path} became a link during the read")
        if not modes.S_ISREG(seen.st_mode):
            raise SandboxEscapeError(f"{path!r} is neither a file nor a folder.")
        try:
            with _opened(name, _FILE, folder) as file:
                return self._file(file, path, encoding) if picked is None else _by_lines(file, path, picked)
        except PermissionError:
            return Reading.of({"path": path, **_outside(seen)}, version=_version(seen), complete=False)

    def _file(self, file: int, path: str, encoding: str | None) -> Reading:
        first = os.fstat(file)
        if not modes.S_ISREG(first.st_mode):
            return Reading.unavailable(f"{path} was replaced during the read")
        value: dict[str, Json] = {"path": path, **_outside(first)}
        content, digest = b"", None
        if encoding is not None:
            content = _content(file, path, STRING_MAX_BYTES)
            digest = sha256(content).hexdigest()
        elif first.st_size <= self._hash_max_bytes:
            digest = _digest(file, first.st_size)
        last = os.fstat(file)
        if _version(first) != _version(last):
            return Reading.unavailable(f"{path} was written during the read")
        if digest is not None:
            value["sha256"] = digest
        if encoding is not None:
            value["text"] = _decoded(content, encoding, path)
        return Reading.of(value, version=_version(last), stamp=_stamp(file), complete=digest is not None)

    # --- a folder ----------------------------------------------------------------------------------------------

    def _entries(self, folder: int, budget: _Budget) -> Iterator[tuple[str, Json]]:
        count = 0
        for where, folders, files, here in os.fwalk(".", onerror=_raise, dir_fd=folder):
            folders.sort()  # A fixed order, so that the same files are within the budget.
            for name in sorted([*folders, *files]):
                count += 1
                if count > ENTRIES_MAX:
                    raise ReaderFailedError(
                        f"A folder of {self.name!r} has over {ENTRIES_MAX} entries.",
                        remedy="Name a smaller folder.",
                    )
                yield "/".join([*where.split("/")[1:], name]), _entry(here, name, budget)

    # --- the way there -----------------------------------------------------------------------------------------

    def _meant(self, path: str) -> str:
        """Return the path with equivalent entries in place of missing names, if this source allows."""
        if not self._equivalent or not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            return path
        return equivalent(self._root, path)

    def _parts(self, path: str) -> list[str]:
        """Return the components of the resolved path inside the folder. Raises SandboxEscapeError."""
        if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise SandboxEscapeError(f"The path {path!r} leads out of the folder of {self.name!r}, or is not a path.")
        root = os.path.realpath(self._root)
        try:
            real = os.path.realpath(os.path.join(root, path))
        except UnicodeEncodeError as error:
            raise SandboxEscapeError(f"{path!r} cannot be the name of a file.") from error
        if real == root:
            return []
        if not real.startswith(root.rstrip("/") + "/"):
            raise SandboxEscapeError(f"The path {path!r} leads out of the folder of {self.name!r}.")
        return real[len(root.rstrip("/")) + 1 :].split("/")

    def _named(self, path: str) -> str:
        """Return the place of the name itself: the folder is resolved, the name is not."""
        folder, name = os.path.split(os.path.normpath(os.path.join(self._root, path)))
        return os.path.join(os.path.realpath(folder), name)

    @contextmanager
    def _folder_of(self, parts: list[str]) -> Iterator[int]:
        """Open a folder from the root without following a link."""
        folder = os.open(os.path.realpath(self._root), _FOLDER)
        try:
            for name in parts:
                try:
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                except (FileNotFoundError, NotADirectoryError):
                    raise _NotShownError(_absence(folder, name, inside=True)) from None
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _absence(folder: int, name: str, *, inside: bool = False) -> Reading:
    """Return whether the name, or the entry `inside`, is absent. The listing proves that an entry would be seen."""
    try:
        with _opened(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, folder) as listing, os.scandir(listing) as found:
            entry = next((each for each in found if each.name == name), None)
            if entry is None or (inside and entry.is_file(follow_symlinks=False)):
                return Reading.absent()
    except PermissionError:
        return Reading.not_visible(f"{name} is not visible, and its folder cannot be listed")
    return Reading.unavailable(f"{name} changed during the read")


@contextmanager
def _opened(name: str, flags: int, folder: int) -> Iterator[int]:
    file = os.open(name, flags, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _outside(seen: os.stat_result) -> dict[str, Json]:
    """Return the facts known without opening."""
    told: dict[str, Json] = {"mode": f"{modes.S_IMODE(seen.st_mode):04o}", "mtime_us": seen.st_mtime_ns // 1_000}
    if modes.S_ISDIR(seen.st_mode):
        return {"kind": "directory", **told}
    return {"kind": "file", "size": seen.st_size, **told}


def _version(seen: os.stat_result) -> str:
    """Return a version without order: the time of a write can be set, so its order proves nothing.

    The time of the last change cannot be set, and detects a write with its time set back.
    """
    return f"{seen.st_ino}-{seen.st_mtime_ns}-{seen.st_size}-{seen.st_ctime_ns}"


def _stamp(file: int) -> str | None:
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(file, STAMP_ATTRIBUTE).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _entry(folder: int, name: str, budget: _Budget) -> Json:
    seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if modes.S_ISLNK(seen.st_mode):
        return {"kind": "link", "to": os.readlink(name, dir_fd=folder)}
    if not modes.S_ISREG(seen.st_mode) and not modes.S_ISDIR(seen.st_mode):
        return {"kind": "other"}
    told = _outside(seen)
    if modes.S_ISREG(seen.st_mode) and seen.st_size <= budget.left:
        budget.left -= seen.st_size
        with _opened(name, _FILE, folder) as file:
            digest = _digest(file, seen.st_size)
        if digest is not None:
            told["sha256"] = digest
            del told["mtime_us"]  # The hash decides: a touched file is unchanged.
    elif modes.S_ISDIR(seen.st_mode):
        del told["mtime_us"]
    return told


def _digest(file: int, size: int) -> str | None:
    """Return the hash of a file of `size` bytes, or None for a file of another length.

    Some system files report size 0. Their size and times then prove nothing about a concurrent write.
    """
    digest, left = sha256(), size
    while left > 0 and (chunk := os.read(file, min(left, _CHUNK_BYTES))):
        digest.update(chunk)
        left -= len(chunk)
    return None if left or os.read(file, 1) else digest.hexdigest()


def _content(file: int, path: str, most: int) -> bytes:
    content = bytearray()
    while chunk := os.read(file, _CHUNK_BYTES):
        content += chunk
        if len(content) > most:
            raise ReaderTypeError(f"{path!r} is over {most} bytes; read its hash in place of its text.")
    return bytes(content)


def _by_lines(file: int, path: str, picked: _Picked) -> Reading:
    """Return a reading without times and version: only the content of the lines is compared."""
    first = os.fstat(file)
    if not modes.S_ISREG(first.st_mode):
        return Reading.unavailable(f"{path} was replaced during the read")
    value = picked(_content(file, path, LINES_MAX_BYTES))
    if _version(first) != _version(os.fstat(file)):
        return Reading.unavailable(f"{path} was written during the read")
    return Reading.of({"path": path, **value})


def _picked(text: str, path: str, match: Sequence[Mapping[str, Json]] | None, by: str) -> dict[str, Json]:
    lines: list[Json] = []
    keyed: dict[str, Json] = {}
    count, others = 0, list[bytes]()
    for number, written in enumerate(text.split("\n"), 1):
        if not written.strip():
            continue
        try:
            line = json_value(parse_json(written))
        except CanonError as error:
            raise ReaderTypeError(f"Line {number} of {path!r} is no JSON: {why_not_json(error)}") from error
        if not isinstance(line, dict):
            raise ReaderTypeError(f"Line {number} of {path!r} is no JSON object.")
        count += 1
        if match is not None and not any(_matches(line, each) for each in match):
            others.append(payload_bytes(line))
            continue
        lines.append(line)
        if isinstance(line.get(by), str):
            keyed.setdefault(str(line[by]), line)
    digest = sha256(b"\n".join(sorted(others))).hexdigest()
    return {"lines": lines, "by": keyed, "count": count, "others": digest}


def _matches(line: dict[str, Json], wanted: Mapping[str, Json]) -> bool:
    return all(key in line and alike(line[key], value) for key, value in wanted.items())


def _decoded(content: bytes, encoding: str, path: str) -> str:
    try:
        return content.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise ReaderTypeError(f"{path!r} is no text in {encoding}: {error}") from error


def _raise(error: OSError) -> None:
    """Raise for a part of the folder that cannot be walked, instead of leaving it out."""
    raise error
