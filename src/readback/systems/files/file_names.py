"""Names in a folder as the system that holds them means them: which entry a name stands for, and how that is written.

Called by the file source, and by nothing that acts. It asks the file system, and changes nothing: a volume may overlook
case, or in which Unicode form a name is written, and only the volume knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from unicodedata import normalize

from readback.domain.normal_form import NormalForm, normal

_CASELESS = (NormalForm.CASEFOLD,)


def own_names(root: str, parts: list[str]) -> tuple[list[str], bool]:
    """The way from `root` in the entries' own names, and whether the volume overlooked how one of them was written.

    A name that is not there stays as it is: nothing is known of it.
    """
    owned: list[str] = []
    overlooked = False
    for name in parts:
        own = _own_name(os.path.join(root, *owned), name)
        overlooked = overlooked or own != name
        owned.append(own)
    return owned, overlooked


def _own_name(folder: str, name: str) -> str:
    """What the entry is called that `name` stands for: another spelling only where both lead to it, and one alone is
    listed. Two entries may be one file by a hard link: then each has its own name.
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
    """Other ways to write a name, that some volumes overlook."""
    found = {name.swapcase()}
    if not name.isascii():
        found |= {normalize(form, each) for form in ("NFC", "NFD") for each in (name, name.swapcase())}
    yield from found - {name}


def _identity(path: str) -> tuple[int, int] | None:
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):  # not there, or no name at all
        return None
    return seen.st_dev, seen.st_ino


def equivalent(root: str, path: str) -> str:
    """The path below `root` with every name that is not there taken for the one entry that Unicode calls canonically
    equivalent to it: as some servers find files that were named on another system. Several such entries are none.
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
            composed = normalize("NFC", name)
            alike = [each for each in listed if not each.isascii() or not name.isascii()]
            alike = [each for each in alike if normalize("NFC", each) == composed]
            if len(alike) != 1:
                return "/".join([*meant, *parts[index:]])
            entry = alike[0]
        meant.append(entry)
        at = os.path.realpath(os.path.join(at, entry))
    return "/".join(meant) or path
