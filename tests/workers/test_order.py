"""Whole files go to the processes that share the tests, those that take longest first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.workers.order import longest, longest_first

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_that_is_named_is_there_and_once() -> None:
    named = longest()
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert len(set(named)) == len(named)


def test_what_is_named_comes_first_then_what_has_most_tests() -> None:
    first, second = longest()[:2]
    names = ["tests/b.py::x", "tests/c.py::x", f"{second}::x", "tests/c.py::y", f"{first}::x", f"{second}::y"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    longest_first(cast("list[pytest.Item]", items))
    assert [item.nodeid for item in items] == [
        f"{first}::x",
        f"{second}::x",
        f"{second}::y",
        "tests/c.py::x",
        "tests/c.py::y",
        "tests/b.py::x",
    ]
