"""What a person is shown before he signs: one line for each value, and no value that looks like another line."""

from __future__ import annotations

import pytest

from readback.canon import Json
from readback.cli.prompt import facts, visible


@pytest.mark.requirement("L18")
def test_each_value_is_one_line_whatever_its_names_hold() -> None:
    given: Json = {
        "cents": 900_000,
        "notes": {"a.b": 1, "x = 1\n  requested.cents": 5, 'q"': [True, {}], "plain-name_2": "7", "": None},
    }
    lines = [*facts(given, "requested")]
    assert lines == [
        "requested.cents = 900000",
        'requested.notes[""] = null',
        'requested.notes["a.b"] = 1',
        'requested.notes.plain-name_2 = "7"',
        'requested.notes["q\\""][0] = true',
        'requested.notes["q\\""][1] = {}',
        'requested.notes["x = 1\\n  requested.cents"] = 5',
    ]
    assert all(visible(line) == line for line in lines)
