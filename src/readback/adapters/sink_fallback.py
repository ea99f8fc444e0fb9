"""The last resort for a record that nobody took: a file beside the ledger, else the temporary folder.

Called through bootstrap when an append failed after an effect. It must never raise, and never be read back as truth:
the attempt is in the ledger, and the next start finds it there.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from readback.canon import Json

SUFFIX = ".unrecorded.jsonl"


def write_fallback(ledger: object, record: dict[str, Json], suffix: str = SUFFIX) -> str:
    """Appends the record as one line, synced; returns the file's path, or says that there is none."""
    places = [Path(str(ledger) + suffix)] if ledger else []
    places.append(Path(tempfile.gettempdir()) / f"readback{suffix}")
    line = json.dumps(record, sort_keys=True) + "\n"
    for place in places:
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            continue
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        return str(place)
    return "nowhere: no file could be written"
