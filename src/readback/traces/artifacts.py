"""The files beside a trace, as this room asks for them: by relative path, whole, and bounded.

`interop.run_folder` keeps the promise over a real folder. It must not follow a link, nor leave the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol

SEGMENT_MAX_CHARACTERS: Final = 255
PATH_MAX_CHARACTERS: Final = 1_024


class ArtifactTrouble(Enum):
    """Why a file of the run cannot be had."""

    MISSING = "there is no such file"
    ESCAPES = "the path leaves the folder, or is no plain relative path"
    SYMLINK = "it is reached over a symbolic link"
    NOT_A_FILE = "it is no regular file"
    TOO_LARGE = "it is larger than is read"
    UNREADABLE = "it cannot be read"


class Artifacts(Protocol):
    """A run folder. Two readings of one path may differ: whoever relies on bytes compares them with their hash."""

    def read(self, path: str, bytes_max: int) -> bytes:
        """The whole file. Raises ArtifactError; nothing else for any path, however hostile."""
        ...

    def digest(self, path: str, bytes_max: int) -> str:
        """The SHA-256 of a file in hexadecimal, however large, in little memory. Raises ArtifactError."""
        ...

    def names(self) -> Iterator[str]:
        """The relative path of everything in the folder that is no folder. Raises ArtifactError."""
        ...


def is_plain_path(path: str) -> bool:
    """Whether it is relative, in POSIX form, and names one place below the folder and no other."""
    if not path or len(path) > PATH_MAX_CHARACTERS or not path.isprintable() or "\\" in path:
        return False
    if len(path) > 1 and path[1] == ":":
        return False
    parts = path.split("/")
    return all(part not in ("", ".", "..") and len(part) <= SEGMENT_MAX_CHARACTERS for part in parts)
