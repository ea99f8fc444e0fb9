"""The bytes of a file that somebody wrote for us: contracts, tables, hooks. Nobody waits for a pipe to be written."""

from __future__ import annotations

import os
from pathlib import Path

from readback.contracts.documents.own_files import keep


def content_of(path: str | Path, bytes_max: int, *, pipes: bool = False) -> bytes:
    """The bytes of the file, and one more than it may have; none of a pipe. Raises OSError, ValueError.

    `pipes`: what somebody has open to write is read to its end. The file is Readback's own from then on.
    """
    keep(path)
    with open(path, "rb", opener=lambda named, flags: os.open(named, flags | os.O_NONBLOCK)) as file:
        if pipes:
            os.set_blocking(file.fileno(), True)
        return file.read(bytes_max + 1) or b""
