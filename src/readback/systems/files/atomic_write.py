"""One file written whole: beside everything, without a name, and then in its place in one step.

Used by the executor for writes that are not staged. A reader sees the old content or the new; a process that dies
leaves nothing in the folder, and what it may leave in the staging area is cleared with the next start.
"""

from __future__ import annotations

import os
from contextlib import suppress

from readback.domain.context import Context
from readback.systems.files.sandboxed_paths import only_files, put_stamp, write_all
from readback.systems.files.staging_area import Area


def write_whole(ctx: Context, area: Area, folder: int, name: str, data: bytes) -> None:
    """Lets the file hold the data, durably. Raises OSError; before the last step everything is as it was."""
    mode = only_files(folder, name)
    with area.locked() as path:
        file, hidden = _made(area, path, folder)
        try:
            write_all(file, data)
            os.fchmod(file, mode)
            put_stamp(file, ctx)
            os.fsync(file)
            hidden = hidden or area.temporary(path, file)
            os.replace(hidden, name, dst_dir_fd=folder)
            hidden = ""
            os.fsync(folder)
        finally:
            if hidden:
                os.unlink(hidden)
            os.close(file)


def _made(area: Area, path: str, folder: int) -> tuple[int, str]:
    """A new file, and the name that it had to be given, if any."""
    without_name = getattr(os, "O_TMPFILE", None)
    if without_name is not None and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # A file system without such files; the other way says so if it is more than that.
            return os.open(".", without_name | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder), ""
    return area.named(path)
