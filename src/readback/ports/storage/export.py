"""Where an exported log lies, and what its check remembers: files by path, and the last entry of each action.

Called where a log is exported, checked and proved from. Nothing that they bring is trusted: it is hashed.
"""

from __future__ import annotations

from typing import Protocol


class Tiles(Protocol):
    """The files of one exported log, by their path within it (`tile/0/000`, `checkpoint`). Trusted with nothing."""

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whole or not at all. Raises StoreError where it cannot be written."""
        ...

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """What the file holds, or None where there is none. Raises LogFormatError for one that is larger, and
        StoreError where it cannot be read."""
        ...


class Links(Protocol):
    """The number and leaf hash of the last entry that was met of each action, in flat memory however many there are."""

    def last(self, action_id: str) -> tuple[int, bytes] | None:
        """Of the last entry of this action; None where none was met."""
        ...

    def met(self, action_id: str, version: int, leaf: bytes) -> None:
        """One more entry of this action."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...
