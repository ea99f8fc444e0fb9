"""The files beside a trace, as the checker needs them: by relative path, complete and bounded.

`decisions.interop.run_folder` implements the protocol over a real folder. An implementation follows no link and never
leaves the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol

SEGMENT_MAX_CHARACTERS: Final = 255
PATH_MAX_CHARACTERS: Final = 1_024


class ArtifactTrouble(Enum):
    """The reasons for an unavailable file of the run."""

    MISSING = "there is no such file"
    ESCAPES = "the path leaves the folder, or is no plain relative path"
    SYMLINK = "it is reached over a symbolic link"
    NOT_A_FILE = "it is no regular file"
    TOO_LARGE = "it is larger than is read"
    UNREADABLE = "it cannot be read"


class Artifacts(Protocol):
    """A run folder. Two readings of one path may differ, so callers compare bytes with their hash."""

    def read(self, path: str, bytes_max: int) -> bytes:
        """Return the whole file. Raises ArtifactError, and no other error for any path."""
        ...

    def digest(self, path: str, bytes_max: int) -> str:
        """Return the SHA-256 of a file of any size in hexadecimal, in little memory. Raises ArtifactError."""
        ...

    def names(self) -> Iterator[str]:
        """Return the relative path of every entry except folders. Raises ArtifactError."""
        ...


def is_plain_path(path: str) -> bool:
    """Whether a path is relative, in POSIX form, and names exactly one place below the folder."""
    if not path or len(path) > PATH_MAX_CHARACTERS or not path.isprintable() or "\\" in path:
        return False
    if len(path) > 1 and path[1] == ":":
        return False
    parts = path.split("/")
    return all(part not in ("", ".", "..") and len(part) <= SEGMENT_MAX_CHARACTERS for part in parts)
