"""Write or check `docs/reference/openapi.json`, the description of the HTTP API.

Run `python scripts/openapi.py --write` after a change. Without `--write`, a difference is exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from readback.server.openapi import document_bytes
from readback.server.serving import whole_table

PLACE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "openapi.json"


def run(arguments: Sequence[str]) -> int:
    wanted = document_bytes(whole_table())
    if "--write" in arguments:
        PLACE.write_bytes(wanted)
        return 0
    return 0 if PLACE.exists() and PLACE.read_bytes() == wanted else 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
