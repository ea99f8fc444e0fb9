"""What changed between two states, and what cannot be told because the record keeps it back."""

from __future__ import annotations

import pytest

from readback.canon import Json
from readback.domain.verification.change import REDACTED, changed, differences, outside, withheld

MARK: Json = {REDACTED: True}


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1}, {"a": "1"}, ["a"]),
        ({"a": 1}, {"b": 1}, ["a", "b"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["a.c"]),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a"]),
        ({"a": {"b": 1}}, {"a": None}, ["a"]),
        (1, 2, [""]),
        (MARK, {"a": 1}, []),
        ({"a": MARK, "b": 1}, {"a": "secret", "b": 2}, ["b"]),
        ({"a": MARK}, {}, ["a"]),
        ({"a": [{"id": 1, "pin": MARK}]}, {"a": [{"id": 1, "pin": "1234"}]}, []),
        ({"a": [{"id": 1, "pin": MARK}]}, {"a": [{"id": 2, "pin": "1234"}]}, ["a"]),
        ({"a": [{"id": 1, "pin": MARK}]}, {"a": []}, ["a"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": [1, {"on": 0}]}, {"a": [1, {"on": False}]}, ["a"]),
        ({"a": [True]}, {"a": [1]}, ["a"]),
        ({"a": [MARK, 1]}, {"a": ["secret", True]}, ["a"]),
    ],
)
def test_a_difference_is_what_both_states_say_differently(old: Json, new: Json, paths: list[str]) -> None:
    assert [".".join(path) for path in differences(old, new)] == paths
    assert changed(old, new) is bool(paths)


def test_equal_numbers_are_no_change_though_their_types_differ() -> None:
    """A database that gives 1.0 for 1 has changed nothing."""
    assert not changed({"a": 1}, {"a": 1.0})
    assert list(differences({"a": 1, "b": [1], "c": 2}, {"a": 1.0, "b": [1.0], "c": 3})) == [("c",)]


def test_what_is_withheld_is_named_where_it_stands() -> None:
    state: Json = {"a": MARK, "b": {"c": MARK, "d": 1}, "e": [{"pin": MARK}], "f": [1]}
    assert list(withheld(state)) == [("a",), ("b", "c"), ("e",)]
    assert list(withheld(MARK)) == [()]
    assert list(withheld({"a": {REDACTED: True, "b": 1}})) == []


def test_a_frame_names_a_path_or_what_is_above_it() -> None:
    paths = [("a",), ("a", "x"), ("ab",), ("b",), ("b", "c"), ("b", "c", "d"), ("b", "cd")]
    assert outside(("a", "b.c"), paths) == ("ab", "b", "b.cd")
    assert outside((), [("a",)]) == ("a",)
    assert outside(("a",), [()]) == ("",)


def test_a_name_with_a_dot_is_not_below_what_stands_before_its_dot() -> None:
    old, new = {"limit": 1, "limit.max": 5, "": {"limit": 1}}, {"limit": 2, "limit.max": 9, "": {"limit": 2}}
    assert outside(("limit",), differences(old, new)) == (".limit", "limit.max")
    assert outside(("limit", "limit.max"), differences(old, new)) == (".limit",)
