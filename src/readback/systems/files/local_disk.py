"""Files that are at hand: regular ones on a disk of this machine, where a look cannot hang as it can on a network's.

Constructed by `sdk.fittings` for a source of a contract file. Which device a path lies on is found out where waiting
harms nobody; from then on a path on the same device is known by a single call of the system.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

OWN_DISKS: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
"""Kinds of file systems, as Linux names them, behind which there is no other machine and no other program."""
MOUNTS: Final = "/proc/self/mountinfo"
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class LocalDiskCheck:
    """The devices that are known to be at hand. Safe from any thread. Where there is no list of mounts as Linux has it,
    nothing ever is.
    """

    def __init__(self, mounts: str | Path = MOUNTS) -> None:
        self._mounts = mounts
        self._devices: set[int] = set()

    def learn(self, path: str) -> None:
        """Finds out about the device that a path lies on. Waits as long as the path's own file system does."""
        try:
            device = _looked(path)[0].st_dev
            if device not in self._devices and _kind(os.path.realpath(path), self._mounts) in OWN_DISKS:
                self._devices.add(device)
        except (OSError, ValueError, IndexError):
            return  # the last: a list of mounts that is none

    def hold(self, path: str, most_bytes: int | None = None, beside: tuple[str, ...] = ()) -> bool:
        """Whether what lies at a path is at hand: a regular file of no more than so many bytes, or nothing, in a folder
        that is. `beside`: endings of the file's name under which other files are opened with it: these are too, and it
        is no link, as they lie beside what that leads to.
        """
        if not self._devices:
            return False
        try:
            found, is_there = _looked(path)
        except (OSError, ValueError):
            return False
        if found.st_dev not in self._devices:
            return False
        if beside and not self._hold_beside(path, beside):
            return False
        return not is_there or (stat.S_ISREG(found.st_mode) and (most_bytes is None or found.st_size <= most_bytes))

    def _hold_beside(self, path: str, endings: tuple[str, ...]) -> bool:
        """Whether it is no link, and each of those beside it is a regular file at hand, or none."""
        if os.path.islink(path):
            return False
        for ending in endings:
            try:
                found = os.lstat(path + ending)
            except FileNotFoundError:
                continue
            except OSError:
                return False
            if not stat.S_ISREG(found.st_mode) or found.st_dev not in self._devices:
                return False
        return True


def _looked(path: str) -> tuple[os.stat_result, bool]:
    """The file, or else the folder where it would be; and whether it is the file."""
    try:
        return os.stat(path), True
    except FileNotFoundError:
        return os.stat(os.path.dirname(path) or "."), False


def _kind(path: str, mounts: str | Path) -> str:
    """The kind of file system that a real path lies on: of the mounts above it the nearest, and of these the last."""
    nearest, kind = "", ""
    with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            at = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
            if len(at) >= len(nearest) and (path == at or path.startswith(at.rstrip("/") + "/")):
                nearest, kind = at, after.split(" ")[0]
    return kind
