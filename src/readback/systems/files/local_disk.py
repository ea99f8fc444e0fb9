"""Detect regular files on a disk of this machine, where a read cannot hang as on a network file system.

`configured.factory` uses this check for sources of contract files. The device of a path is determined where
waiting is harmless. Afterwards one system call recognizes a path on the same device.
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
"""File system types of Linux without another machine or program behind them."""
MOUNTS: Final = "/proc/self/mountinfo"
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class LocalDiskCheck:
    """The known local devices. Safe from any thread. Without Linux's list of mounts, no device is known."""

    def __init__(self, mounts: str | Path = MOUNTS) -> None:
        self._mounts = mounts
        self._devices: set[int] = set()

    def learn(self, path: str) -> None:
        """Determine the device of a path. Waits as long as the path's file system does."""
        try:
            device = _looked(path)[0].st_dev
            if device not in self._devices and _kind(os.path.realpath(path), self._mounts) in OWN_DISKS:
                self._devices.add(device)
        except (OSError, ValueError, IndexError):
            return  # IndexError: an unreadable list of mounts

    def hold(self, path: str, most_bytes: int | None = None, beside: tuple[str, ...] = ()) -> bool:
        """Return whether a path is local: a regular file up to a size, or no file, in a local folder.

        `beside`: endings of the file's name under which further files are opened. The further files must be local too,
        and the file no link: further files are opened beside the link's target.
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
        """Return whether the file is no link, and each further file is a local regular file or missing."""
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
    """Return the file, or else its folder, and whether the file exists."""
    try:
        return os.stat(path), True
    except FileNotFoundError:
        return os.stat(os.path.dirname(path) or "."), False


def _kind(path: str, mounts: str | Path) -> str:
    """Return the file system type of a real path: the nearest mount above, and of several the last."""
    nearest, kind = "", ""
    with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            before, _, after = line.partition(" - ")
            at = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
            if len(at) >= len(nearest) and (path == at or path.startswith(at.rstrip("/") + "/")):
                nearest, kind = at, after.split(" ")[0]
    return kind
