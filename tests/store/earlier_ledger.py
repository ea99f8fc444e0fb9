"""Makes the ledger of `test_earlier_ledger`: `python -m tests.store.earlier_ledger PATH`.

It runs three of the examples on one ledger: sagas, a review with a freeze and an incident, and claims that fall. The
ledger that is checked in was made by an earlier release, and is never made again: the test holds what later releases
read out of it.
"""

from __future__ import annotations

import gzip
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PARTS = ("09-saga", "11-review", "14-claims")


@contextmanager
def _folder_of(folder: Path) -> Iterator[str]:
    yield str(folder)


def make(path: Path) -> None:
    """Run the examples on one ledger and write it to `path`, compressed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in PARTS:
            spec = importlib.util.spec_from_file_location(part.partition("-")[2], EXAMPLES / f"{part}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            ledger = folder / "readback.db"
            if ledger.exists():
                ledger.rename(folder / "ledger.db")
            with mock.patch.object(tempfile, "TemporaryDirectory", side_effect=lambda: _folder_of(folder)):
                module.main()
        path.write_bytes(gzip.compress((folder / "ledger.db").read_bytes(), mtime=0))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
