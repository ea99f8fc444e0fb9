"""Deliver messages to a file: one line of JSON each, synced before acceptance.

Chosen by bootstrap for a subscriber with `file`, for the operator where no subscriber receives incidents, and as the
default fallback. Several processes may write one file: each line is one write. A last line torn by a crash or a full
disk is ended before the next line, and spoils no other line.
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
"""Suffix after the ledger's name, for the file beside the ledger."""
MODE: Final = 0o600
OTHERS_MAY_WRITE: Final = 0o022


class FileSink:
    """Append to `path`. A missing file is created, private to the owner."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stopped = False

    def deliver(self, message: Message) -> None:
        """Raises SinkError for a failed write, or a file writable by others."""
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
        # Never through a link and never waiting: a pipe without a reader would block forever.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, MODE)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError("it is not a plain file")
            if found.st_mode & OTHERS_MAY_WRITE:
                raise OSError("others may write it")
            _put(descriptor, line)
        finally:
            os.close(descriptor)
        if new:
            _keep_name(self._path.parent)


def _put(descriptor: int, line: bytes) -> None:
    """Write one line. The next write ends a torn line: cutting could remove another process's line."""
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    whole = b"\n" + line if torn else line
    if os.write(descriptor, whole) != len(whole):
        raise OSError("there is no room for the whole line")
    os.fsync(descriptor)


def _keep_name(folder: Path) -> None:
    """Sync the folder: only then is a new file's name on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
