"""The folder of `readback bench`: inside the working folder, on the tested disk, removed afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from readback.errors import UsageError


@contextmanager
def room() -> Iterator[Path]:
    """The folder, as an absolute path. Raises UsageError on failure."""
    try:
        made = tempfile.TemporaryDirectory(prefix="readback-bench-", dir=".")
    except OSError as error:
        raise UsageError(
            f"Nothing can be measured in the working folder: {error.strerror}.",
            remedy="Run it in a folder that you may write to, on the disk that is to be measured.",
        ) from error
    with made as name:
        yield Path(name).absolute()
