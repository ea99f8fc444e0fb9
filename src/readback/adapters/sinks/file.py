"""Tells messages to a file: one line of JSON each, on the disk before it counts as taken.

Chosen by bootstrap for a subscriber with `file`, for the operator where nobody else is told of incidents, and as the
default fallback. Several processes may write one file: each line is one write. A last line that a crash or a full disk
tore is ended before the next one, so that it spoils no other.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Final

from readback.canon import envelope_bytes
from readback.domain.records.message import Message
from readback.errors import SinkError

OPERATOR_SUFFIX: Final = ".operator.jsonl"
"""What follows the ledger's own name in that of the file beside it."""
MODE: Final = 0o600
OTHERS_MAY_WRITE: Final = 0o022


class FileSink:
    """Appends to `path`, which is made, for its owner alone, where it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stopped = False

    def deliver(self, message: Message) -> None:
        """Raises SinkError where it could not be written, or others may write the file."""
        line = envelope_bytes(message.as_json()) + b"\n"
        try:
            with self._lock:
                if self._stopped:
                    raise OSError("it is written to no more")
                self._append(line)
        except OSError as error:
            raise SinkError(f"The file {self._path} could not be written: {error.strerror or error}.") from error

    def stop(self) -> None:
        self._stopped = True

    def _append(self, line: bytes) -> None:
        new = not self._path.exists()
        # Not through a link, and never waiting: a pipe with nobody behind it would take for ever.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, MODE)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError("it is no plain file")
            if found.st_mode & OTHERS_MAY_WRITE:
                raise OSError("others may write it")
            _put(descriptor, line)
        finally:
            os.close(descriptor)
        if new:
            _keep_name(self._path.parent)


def _put(descriptor: int, line: bytes) -> None:
    """One line. What is torn is left to the next one to end: cutting it off could cut off another process's line."""
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    whole = b"\n" + line if torn else line
    if os.write(descriptor, whole) != len(whole):
        raise OSError("there is no room for the whole line")
    os.fsync(descriptor)


def _keep_name(folder: Path) -> None:
    """A new file's name is on the disk only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
