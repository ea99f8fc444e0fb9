"""Renders the coverage table of docs/coverage.md from the requirements manifest and the tests' claims.

Run by whoever changes either: prints the table between its markers; ``--write FILE`` puts it into a
document, ``--check FILE`` exits with 1 when the document's table is not the present one.
It must not run tests: what passes is the test suite's to say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that the tests' manifest can be read without installing it

from tests.requirements.claims import read_claims  # noqa: E402
from tests.requirements.manifest import Requirement, requirements  # noqa: E402

BEGIN = "<!-- coverage:begin (made by scripts/coverage_table.py) -->"
END = "<!-- coverage:end -->"


def render(entries: Sequence[Requirement], tested: frozenset[str]) -> str:
    """The markdown block, markers included, one row an area in the manifest's order."""
    areas = list(dict.fromkeys(each.area for each in entries))
    rows = [_row(area, [each for each in entries if each.area == area], tested) for area in areas]
    head = ["| Area | Specification | Required | Tested | Deferred |", "|---|---|--:|--:|--:|"]
    required, covered, deferred = _count(entries, tested)
    total = f"| **Total** | | **{required}** | **{covered}** | **{deferred}** |"
    return "\n".join([BEGIN, *head, *rows, total, END])


def _row(area: str, entries: Sequence[Requirement], tested: frozenset[str]) -> str:
    specs = ", ".join(dict.fromkeys(each.spec for each in entries))
    required, covered, deferred = _count(entries, tested)
    return f"| {area} | {specs} | {required} | {covered} | {deferred} |"


def _count(entries: Sequence[Requirement], tested: frozenset[str]) -> tuple[int, int, int]:
    required = [each for each in entries if each.required]
    return len(required), sum(each.id in tested for each in required), len(entries) - len(required)


def replace(document: str, block: str) -> str:
    """The document with its block replaced. Raises ValueError where the markers are missing or doubled."""
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise ValueError(f"the document needs one line {BEGIN} and one line {END}")
    before, rest = document.split(BEGIN)
    _, separator, after = rest.partition(END)
    if not separator:
        raise ValueError(f"{END} stands before {BEGIN}")
    return before + block + after


def main(argv: Sequence[str] | None = None) -> int:
    """0 when done or equal, 1 when the document differs, 2 when it has no place for the table."""
    parser = argparse.ArgumentParser(description="The coverage table.")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", type=Path, metavar="FILE", help="exit with 1 if FILE's table is old")
    group.add_argument("--write", type=Path, metavar="FILE", help="put the table into FILE")
    options = parser.parse_args(argv)
    block = render(requirements(), read_claims().ids)
    path: Path | None = options.check or options.write
    if path is None:
        print(block)
        return 0
    document = path.read_text(encoding="utf-8")
    try:
        renewed = replace(document, block)
    except ValueError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    if options.write:
        path.write_text(renewed, encoding="utf-8")
    elif renewed != document:
        print(f"{path}: the coverage table is out of date; run with --write {path}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
