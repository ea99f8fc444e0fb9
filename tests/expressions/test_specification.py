"""The conformance cases of the CEL specification, as far as they are of the subset that is spoken here.

What is answered otherwise is in `data/cel_spec_differences.toml`, each with its reason; nothing else is.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from readback.canon import sha256_hex
from tests.expressions.spoken import answer, is_as_told

DATA = Path(__file__).parent / "data"
ROWS: list[list[Any]] = [json.loads(line) for line in (DATA / "cel_spec.jsonl").read_text().splitlines()]
DIFFERENCES: dict[str, list[str]] = tomllib.loads((DATA / "cel_spec_differences.toml").read_text())["differences"]
BY_FILE = sorted({row[0] for row in ROWS})


def name_of(row: list[Any]) -> str:
    return "/".join(row[:3])


def agrees(row: list[Any]) -> bool:
    kind, value = answer(row[3])
    if row[4] is None:
        return kind != "value"
    return kind == "value" and is_as_told(row[4], value)


@pytest.mark.requirement("EXPR-conformance")
@pytest.mark.parametrize("file", BY_FILE)
def test_the_specifications_cases_are_answered_as_it_says_or_otherwise_for_a_reason(file: str) -> None:
    explained = {name for names in DIFFERENCES.values() for name in names}
    rows = [row for row in ROWS if row[0] == file]
    otherwise = {name_of(row) for row in rows if not agrees(row)}
    assert otherwise == {name for name in explained if name.startswith(f"{file}/")}


def test_the_rows_are_those_that_were_taken_over() -> None:
    digest, _, _ = (DATA / "cel_spec.jsonl.sha256").read_text().partition(" ")
    assert sha256_hex((DATA / "cel_spec.jsonl").read_bytes()) == digest
    assert len(ROWS) > 1_000
