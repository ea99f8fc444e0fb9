"""`python -m bench.scale`: prints the tables. `--measure` measures first and keeps it, `--write` puts the tables into
docs/scale.md, `--check` exits with 1 where the page has others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.scale.page import PAGE, tables, with_tables
from bench.scale.records import KEPT, kept

SIZES: Final = (1_000, 10_000, 100_000)
WAITING: Final = ((10_000, 1), (100_000, 1), (1_000_000, 1), (10_000, 1_000), (100_000, 1_000), (1_000_000, 1_000))
DATABASES: Final = (1_000, 10_000, 30_000)
BESIDE: Final = ((1, 2, 3, 4), 2_000)
PARTS: Final = ("sizes", "waiting", "database", "beside")


def run(argv: Sequence[str] | None = None) -> int:
    """0, or 1 where the committed page is not what the tables are."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "--measure", nargs="?", const="all", choices=("all", *PARTS), help="measure, and keep the figures"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true", help="put the tables into docs/scale.md")
    group.add_argument("--check", action="store_true", help="exit with 1 where the page has other tables")
    options = parser.parse_args(argv)
    if options.measure:
        _measure(PARTS if options.measure == "all" else (options.measure,))
    made = tables(kept())
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if options.write:
        PAGE.write_text(with_tables(page, made), encoding="utf-8")
    elif options.check:
        if with_tables(page, made) != page:
            print("docs/scale.md is out of date; run: python -m bench.scale --write", file=sys.stderr)
            return 1
    else:
        print("\n\n".join(f"{name}\n\n{table}" for name, table in made.items()))
    return 0


def _measure(parts: Sequence[str]) -> None:
    """Puts these parts in place of what was measured before."""
    from bench.scale.measure import measure
    from bench.side_by_side.machine import described

    with tempfile.TemporaryDirectory(prefix="readback-scale-", dir=".") as name:
        folder = Path(name).absolute()
        folder.chmod(0o755)  # PostgreSQL runs as nobody where this runs as root
        found = measure(
            folder,
            SIZES if "sizes" in parts else (),
            WAITING if "waiting" in parts else (),
            DATABASES if "database" in parts else (),
            described(folder),
            _say,
            BESIDE if "beside" in parts else ((), 0),
        )
    before = kept() if KEPT.exists() else found
    KEPT.write_text(
        replace(
            found,
            machine=found.machine if found.sizes else before.machine,
            sizes=found.sizes or before.sizes,
            waiting=found.waiting or before.waiting,
            database=found.database or before.database,
            beside=found.beside or before.beside,
            beside_machine=found.machine if found.beside else before.beside_machine,
        ).to_json(),
        encoding="utf-8",
    )


def _say(text: str) -> None:
    print(f"measuring: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(run())
