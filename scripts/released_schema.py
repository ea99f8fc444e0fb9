"""Keep the ledger's schema of a release: `python scripts/released_schema.py VERSION`. Run once for each release.

The declared changes are emptied, since the release holds them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from readback.assurance.drills import ledger_schema

FOLDER = Path(ledger_schema.__file__).parent


def main(version: str) -> int:
    """Write both files beside the gate."""
    (FOLDER / ledger_schema.RELEASED).write_bytes(ledger_schema.released(version))
    (FOLDER / ledger_schema.DECLARED).write_text("{}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
