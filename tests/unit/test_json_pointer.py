"""One value out of a JSON document, by its pointer."""

from __future__ import annotations

import pytest

from readback.canon import Json
from readback.domain.json_pointer import pointed
from readback.errors import ReaderTypeError

DOCUMENT: Json = {"a": [10, {"b": None}], "": "empty", "x/y": 1, "x~y": 2, "~1": 3, "0": "text"}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/", "empty"),
        ("/a", [10, {"b": None}]),
        ("/a/0", 10),
        ("/a/1/b", None),
        ("/x~1y", 1),
        ("/x~0y", 2),
        ("/~01", 3),
        ("/0", "text"),
    ],
)
def test_a_pointer_leads_to_one_value(pointer: str, value: Json) -> None:
    assert pointed(DOCUMENT, pointer, "nothing there") == value


@pytest.mark.parametrize("pointer", ["/b", "/a/2", "/a/-1", "/a/-", "/a/x", "/a/0/0", "/a/1/b/c", "/0/0"])
def test_where_nothing_is_the_source_says_so_in_its_own_words(pointer: str) -> None:
    with pytest.raises(ReaderTypeError, match=r"^nothing there") as refused:
        pointed(DOCUMENT, pointer, "nothing there")
    assert refused.value.message == "nothing there"


@pytest.mark.parametrize("pointer", ["a", "a/0"])
def test_a_pointer_begins_with_a_slash(pointer: str) -> None:
    with pytest.raises(ReaderTypeError, match="is not a JSON pointer"):
        pointed(DOCUMENT, pointer, "nothing there")
