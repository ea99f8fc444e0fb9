"""How often a log is sealed: what a table may say, what it means where it says nothing, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from readback.domain.records.seal_schedule import (
    ANCHORS_MAX,
    ENTRIES_DEFAULT,
    ENTRIES_MAX,
    SEAL_DEFAULT,
    SECONDS_DEFAULT,
    SECONDS_MAX,
    SealSchedule,
    seal_schedule_of,
)
from readback.errors import SettingsError


def test_an_empty_table_is_the_default() -> None:
    assert seal_schedule_of({}, "seal") == SEAL_DEFAULT == SealSchedule(4_096, 10.0, (), "", False)
    assert (ENTRIES_DEFAULT, SECONDS_DEFAULT) == (4_096, 10.0)
    assert (ENTRIES_MAX, SECONDS_MAX, ANCHORS_MAX) == (1_000_000, 86_400.0, 16)


def test_every_key_is_taken() -> None:
    given = {"entries": 5, "seconds": 2, "anchors": ["https://a.example", "b"], "secret": "env:TOKEN", "off": True}
    found = seal_schedule_of(given, "seal")
    assert found == SealSchedule(5, 2.0, ("https://a.example", "b"), "env:TOKEN", True)
    assert isinstance(found.seconds, float)
    assert seal_schedule_of({"anchors": ("b",)}, "seal").anchors == ("b",)


@pytest.mark.parametrize(
    "given",
    [
        {"entries": 1},
        {"entries": 1_000_000},
        {"seconds": 0},
        {"seconds": 0.5},
        {"seconds": 86_400},
        {"anchors": [f"https://{number}.example" for number in range(16)]},
    ],
)
def test_a_bound_itself_is_taken(given: dict[str, Any]) -> None:
    ((key, value),) = given.items()
    found = getattr(seal_schedule_of(given, "seal"), key)
    assert found == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("entries", 0, "entries must be a whole number"),
        ("entries", -1, "entries must be a whole number"),
        ("entries", 1_000_001, "entries must be a whole number"),
        ("entries", 5.0, "entries must be a whole number"),
        ("entries", True, "entries must be a whole number"),
        ("entries", "5", "entries must be a whole number"),
        ("entries", None, "entries must be a whole number"),
        ("seconds", -0.001, "seconds must be a number"),
        ("seconds", 86_400.001, "seconds must be a number"),
        ("seconds", True, "seconds must be a number"),
        ("seconds", False, "seconds must be a number"),
        ("seconds", "10", "seconds must be a number"),
        ("seconds", None, "seconds must be a number"),
        ("seconds", math.nan, "seconds must be a number"),
        ("seconds", math.inf, "seconds must be a number"),
        ("anchors", "https://a.example", "anchors must be a list"),
        ("anchors", None, "anchors must be a list"),
        ("anchors", {"https://a.example": 1}, "anchors must be a list"),
        ("anchors", ["https://a.example", 1], "anchors must be a list"),
        ("anchors", ["https://a.example", ""], "anchors must be a list"),
        ("anchors", [f"https://{number}.example" for number in range(17)], "anchors are at most 16"),
        ("anchors", ["https://a.example", "b", "https://a.example"], "each named once"),
        ("secret", 1, "secret must be a text"),
        ("secret", None, "secret must be a text"),
        ("off", 1, "off true or false"),
        ("off", "no", "off true or false"),
        ("off", None, "off true or false"),
        ("key_file", "log.key", "unknown key 'key_file'"),
        ("entry", 5, "unknown key 'entry'"),
    ],
)
def test_anything_else_is_refused_with_the_place_where_it_stands(key: str, value: object, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        seal_schedule_of({"entries": 5, key: value}, "The table [seal] in settings.toml")
    assert "The table [seal] in settings.toml" in str(caught.value)


def test_the_first_unknown_key_is_named_and_the_known_ones_with_it() -> None:
    with pytest.raises(SettingsError, match="unknown key 'a'") as caught:
        seal_schedule_of({"z": 1, "a": 2}, "seal")
    assert "anchors, entries, off, secret, seconds" in caught.value.remedy
