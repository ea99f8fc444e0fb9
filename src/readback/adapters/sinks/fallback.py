"""The last resort for a record without any other destination: a file beside the ledger, else in the temporary folder.

Called through bootstrap after a failed append behind an effect. The write never raises or waits, and the file is never
read back as truth: the attempt is in the ledger, and the next start finds the attempt there. Every user of the machine
may write to the temporary folder. A foreign file with our name is left alone, and a fresh name is chosen.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from readback.canon import Json

SUFFIX = ".unrecorded.jsonl"
MODE = 0o600
OTHERS_MAY_WRITE = 0o022


def write_fallback(ledger: object, record: dict[str, Json], suffix: str = SUFFIX) -> str:
    """Append the record as one synced line. Returns the file's path, or a text for no file."""
    line = json.dumps(record, sort_keys=True).encode() + b"\n"
    places = _places(ledger, suffix)
    while True:
        try:
            place = next(places, None)
            if place is None:
                return "nowhere: no file could be written"
            _append(place, line)
        except OSError:
            continue
        return str(place)


def _places(ledger: object, suffix: str) -> Iterator[Path]:
    if ledger:
        yield Path(str(ledger) + suffix)
    try:
        folder = Path(tempfile.gettempdir())
    except OSError:  # none is usable on a full disk
        return
    yield folder / f"readback{suffix}"
    yield folder / f"readback-{os.getpid()}-{os.urandom(8).hex()}{suffix}"


def _append(place: Path, line: bytes) -> None:
    # Never through a link and never waiting: a pipe without a reader would block forever.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(place, flags, MODE)
    try:
        found = os.fstat(descriptor)
        owners = (os.geteuid(), place.parent.stat().st_uid)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & OTHERS_MAY_WRITE or found.st_uid not in owners:
            raise OSError("it is not a plain file of ours alone")
        size = found.st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        whole = b"\n" + line if torn else line
        if os.write(descriptor, whole) != len(whole):
            raise OSError("there is no room for the whole line")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
