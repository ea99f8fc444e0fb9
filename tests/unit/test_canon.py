"""Canonical bytes against RFC 8785's own corpus and a reference library; what is refused, and when."""

from __future__ import annotations

import contextlib
import datetime
import enum
import json
import math
import pathlib
import re
import sqlite3
import sys
import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pydantic
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from readback.canon import (
    EnvelopeProfileError,
    Json,
    MalformedJsonError,
    NumberTooLargeError,
    UnsupportedValueError,
    ValueTooLargeError,
    envelope_bytes,
    is_envelope,
    json_value,
    limits,
    parse_json,
    payload_bytes,
    sha256_bytes,
    sha256_hex,
)
from readback.canon.values import short_copied

pytestmark = pytest.mark.slow

CORPUS = pathlib.Path(__file__).parents[3] / "shared" / "corpus" / "rfc8785"
SAFE = limits.INTEGER_SAFE_MAX
LEAVES = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | st.text(max_size=12)


def _named(value: object) -> str:
    """A test's name that is the same in every process: without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _nested(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda parts: st.lists(parts, max_size=5) | st.dictionaries(keys, parts, max_size=5),
        max_leaves=20,
    )


ENVELOPES = _nested(LEAVES, st.text(st.characters(max_codepoint=127), max_size=8))
PAYLOADS = _nested(LEAVES | st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8))


# --- canonical bytes ----------------------------------------------------------------------------------------


@given(ENVELOPES)
def test_the_fast_path_equals_the_reference(value: Any) -> None:
    assert envelope_bytes(value) == rfc8785.dumps(value)
    assert payload_bytes(value) == rfc8785.dumps(value)


@given(PAYLOADS)
def test_the_slow_path_equals_the_reference(value: Any) -> None:
    assert payload_bytes(value) == rfc8785.dumps(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(5e-324)
@example(1e21)
@example(999999999999999900000.0)
@example(1e-7)
@example(0.000001)
@example(333333333.33333329)
def test_each_double_is_written_as_the_reference_writes_it(value: float) -> None:
    assert payload_bytes(value) == rfc8785.dumps(value)


@given(PAYLOADS)
def test_canonical_bytes_read_back_as_the_same_value(value: Json) -> None:
    again = parse_json(payload_bytes(value))
    assert _as_doubles(again) == _as_doubles(value)
    assert payload_bytes(again) == payload_bytes(value)


def _as_doubles(value: Json) -> Json:
    """The RFC writes a double from 2^53 to 1e21 as an integer of the same double, not of the same digits."""
    if isinstance(value, dict):
        return {key: _as_doubles(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_doubles(part) for part in value]
    return float(value) if isinstance(value, float | int) and not isinstance(value, bool) else value


@pytest.mark.skipif(not CORPUS.is_dir(), reason="RFC 8785's corpus is not beside this checkout")
def test_the_corpus_of_the_rfc_is_met() -> None:
    cases = sorted((CORPUS / "input").glob("*.json"))
    assert len(cases) >= 6
    for case in cases:
        known = (CORPUS / "output" / case.name).read_bytes()
        assert payload_bytes(json.loads(case.read_bytes())) == known, case.name


def test_keys_are_sorted_by_utf_16_where_they_are_not_ascii() -> None:
    # U+1F600 sorts before U+FB33 in UTF-16, and after it in UTF-8.
    assert payload_bytes({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


def test_large_integers_keep_all_their_digits() -> None:
    neighbours = [2**60, 2**60 + 1]
    assert payload_bytes(neighbours) == b"[1152921504606846976,1152921504606846977]"
    assert parse_json(payload_bytes([2**64 - 1, -(2**63)])) == [2**64 - 1, -(2**63)]


@pytest.mark.parametrize("value", [math.nan, math.inf, (1,), {1: 2}, {1}, "\ud800"])
def test_a_payload_that_is_not_plain_json_is_refused(value: Any) -> None:
    with pytest.raises(UnsupportedValueError):
        payload_bytes(value)


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        {"a": {"b": [1.5]}},
        math.nan,
        SAFE + 1,
        -SAFE - 1,
        {"é": 1},
        {"a": [{"é": 1}]},
        (1, 2),
        {"a": (1,)},
        Colour.RED,
        {"a": Colour.RED},
        {Colour.RED: 1},
        uuid.UUID(int=0),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        b"x",
        "\ud800",
        {"a": "x" * limits.ENVELOPE_MAX_BYTES},
        OrderedDict(a=1),
    ],
    ids=_named,
)
def test_an_envelope_outside_the_profile_is_refused(value: Any) -> None:
    with pytest.raises(EnvelopeProfileError) as caught:
        envelope_bytes(value)
    assert caught.value.code == "value.envelope-profile"


def _compared(data: bytes) -> bool | str:
    """Whether bytes are an envelope in canonical form, by writing it again; the code where it is none."""
    parsed = parse_json(data)
    try:
        return envelope_bytes(parsed) == data
    except EnvelopeProfileError as error:
        return error.code


def _asked(data: bytes) -> bool | str:
    parsed: Any = parse_json(data)
    try:
        return is_envelope(data, parsed, parsed["data"])
    except EnvelopeProfileError as error:
        return error.code


@given(st.dictionaries(st.text(max_size=3), PAYLOADS, max_size=4), st.booleans(), st.booleans())
def test_bytes_are_an_envelope_exactly_where_they_are_what_is_written_for_it(
    filled: dict[str, Any], spaced: bool, turned: bool
) -> None:
    value = {"zeta": 1, "data": filled, "kind": "read"} if turned else {"data": filled, "kind": "read", "zeta": 1}
    data = json.dumps(value, ensure_ascii=False, separators=None if spaced else (",", ":")).encode()
    assert _asked(data) == _compared(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"data":{},"z":1}', True),
        (b'{"data":{"a":[],"b":{}},"z":1}', True),
        (b'{"data":{"a":[1,{"b":"c"}]},"z":1}', True),
        (b'{"z":1,"data":{}}', False),
        (b'{"data":{"a": 1},"z":1}', False),
        (b'{"data":{"b":{"y":1,"x":2}},"z":1}', False),
        (b'{"data":{"a":1.5},"z":1}', "value.envelope-profile"),
        (b'{"data":{"a":[{"b":1.5}]},"z":1}', "value.envelope-profile"),
        (b'{"data":{"a":9007199254740993},"z":1}', "value.envelope-profile"),
        ('{"data":{"a":"\u00e9"},"z":1}'.encode(), True),
        ('{"data":{"\u00e9":1},"z":1}'.encode(), "value.envelope-profile"),
        (b'{"data":{"a":"' + b"x" * limits.ENVELOPE_MAX_BYTES + b'"},"z":1}', "value.envelope-profile"),
    ],
)
def test_bytes_that_are_no_envelope_are_told_from_those_that_are(data: bytes, said: bool | str) -> None:
    assert _asked(data) == said


def test_a_refused_envelope_names_the_place() -> None:
    with pytest.raises(EnvelopeProfileError, match=r"a float at \$\.a\[1\]\.b"):
        envelope_bytes({"a": [1, {"b": 1.5}]})


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(EnvelopeProfileError):
        envelope_bytes(loop)
    with pytest.raises(ValueTooLargeError):
        payload_bytes(loop)
    with pytest.raises(ValueTooLargeError):
        json_value(loop)


def test_a_payload_over_the_limit_is_refused() -> None:
    with pytest.raises(ValueTooLargeError):
        payload_bytes(["x" * limits.STRING_MAX_BYTES] * 5)
    with pytest.raises(ValueTooLargeError):
        payload_bytes(_deep(limits.DEPTH_MAX_LEVELS + 1, 1.5))


def _deep(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = [leaf]
    return leaf


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":NaN}', b"[1,]", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedJsonError):
        parse_json(text)


def test_a_long_number_in_too_deep_a_nest_is_refused_in_order() -> None:
    text = "[" * 100_000 + "1234567890123456789012" + "]" * 100_000
    with pytest.raises(MalformedJsonError):
        parse_json(text)


def test_json_over_the_limit_is_not_parsed() -> None:
    with pytest.raises(ValueTooLargeError):
        parse_json(b"[1]", bytes_max=2)


def test_digests_are_sha_256() -> None:
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_hex(b"abc") == known == sha256_bytes(b"abc").hex()


# --- values -------------------------------------------------------------------------------------------------


@dataclass
class Point:
    x: int
    y: Decimal


class Model(pydantic.BaseModel):
    when: datetime.date
    name: str


class Text(str):
    __slots__ = ()


class Number(int):
    pass


TWO_HOURS = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Decimal("10.10"), "10.10"),
        (datetime.datetime(2024, 1, 1, 12, tzinfo=TWO_HOURS), "2024-01-01T10:00:00Z"),
        (datetime.datetime(2024, 1, 1, 12, 0, 0, 5, tzinfo=datetime.UTC), "2024-01-01T12:00:00.000005Z"),
        (datetime.datetime(2024, 1, 1, 12), "2024-01-01T12:00:00"),  # noqa: DTZ001 -- the case
        (datetime.date(2024, 1, 1), "2024-01-01"),
        (datetime.timedelta(seconds=1.5), "1.5s"),
        (datetime.timedelta(seconds=-61), "-61s"),
        (b"abc", {"$bytes": "YWJj"}),
        (bytearray(b"abc"), {"$bytes": "YWJj"}),
        (memoryview(b"abc"), {"$bytes": "YWJj"}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (Colour.RED, "red"),
        ({Colour.RED: 1, 2: 3}, {"red": 1, "2": 3}),
        (Point(1, Decimal("2.50")), {"x": 1, "y": "2.50"}),
        (Model(when=datetime.date(2024, 1, 1), name="n"), {"when": "2024-01-01", "name": "n"}),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Text("t"), "t"),
        (Number(7), 7),
        (2**60, 2**60),
        ("é", "é"),
        (True, True),
        (None, None),
        (1.5, 1.5),
    ],
    ids=_named,
)
def test_a_python_value_has_one_exact_json_form(value: object, plain: Json) -> None:
    taken = json_value(value)
    assert taken == plain
    assert type(taken) is type(plain)
    assert json_value({"v": [value]}) == {"v": [plain]}


@given(st.dictionaries(st.text(max_size=8), PAYLOADS, max_size=4))
def test_a_short_copy_is_what_the_long_way_makes_of_an_object(value: dict[str, Json]) -> None:
    copied = short_copied(value)
    if copied is not None:
        taken, plain = json_value(copied), json_value(value)
        assert type(taken) is dict
        assert (taken, payload_bytes(taken)) == (plain, payload_bytes(plain))


@pytest.mark.parametrize(
    "value", [{"n": math.nan}, {"n": [math.inf]}, {"n": 2**60}, {"t": "\ud800"}, {"t": "x" * limits.KEY_MAX_BYTES}]
)
def test_no_short_copy_is_made_of_what_only_the_long_way_can_judge(value: dict[str, Any]) -> None:
    assert short_copied(value) is None


def test_a_row_of_a_database_is_an_object() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    row = connection.execute("select 1 as id, 'x' as name, null as gone, x'00' as raw").fetchone()
    connection.close()
    assert json_value(row) == {"id": 1, "name": "x", "gone": None, "raw": {"$bytes": "AA=="}}


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        Decimal("NaN"),
        {1, 2},
        object(),
        Point,
        lambda: None,
        "\ud800",
        {"\ud800": 1},
        {None: 1},
        {1.5: 1},
        {True: 1},
        {1: "a", "1": "b"},
        1j,
        range(3),
    ],
    ids=_named,
)
def test_a_value_without_an_exact_form_is_refused(value: object) -> None:
    with pytest.raises(UnsupportedValueError) as caught:
        json_value({"deep": [value]})
    assert "$.deep[0]" in caught.value.message


@pytest.mark.parametrize(
    "value",
    [
        "x" * (limits.STRING_MAX_BYTES + 1),
        "é" * (limits.STRING_MAX_BYTES // 2 + 1),
        b"x" * (limits.STRING_MAX_BYTES + 1),
        {"k" * (limits.KEY_MAX_BYTES + 1): 1},
        _deep(limits.DEPTH_MAX_LEVELS + 1, 1),
        [0] * limits.VALUE_MAX_NODES,
    ],
    ids=["text", "wide text", "bytes", "key", "depth", "parts"],
)
def test_a_value_over_a_limit_is_refused(value: object) -> None:
    with pytest.raises(ValueTooLargeError):
        json_value(value)


def test_shared_parts_cannot_blow_a_value_up() -> None:
    bomb: list[Any] = [0] * 10
    for _ in range(30):
        bomb = [bomb] * 10
    with pytest.raises(ValueTooLargeError):
        json_value(bomb)


def test_a_snapshot_does_not_follow_later_changes() -> None:
    given_value: dict[str, Any] = {"a": [1, {"b": 2}]}
    taken = json_value(given_value)
    given_value["a"][1]["b"] = 3
    assert taken == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"a": [1.0, float("nan")]}, UnsupportedValueError),
        ([float("inf")], UnsupportedValueError),
        ({"a": 10**401}, NumberTooLargeError),
        ({"a": "\ud800"}, UnsupportedValueError),
        ({"k" * (limits.KEY_MAX_BYTES + 1): 1}, ValueTooLargeError),
        ({'"' * (limits.KEY_MAX_BYTES + 1): 1}, ValueTooLargeError),
        ({("k" * 700 + '"') * 2: 1}, ValueTooLargeError),
        ({"\u00e9" * (limits.KEY_MAX_BYTES // 2 + 1): 1}, ValueTooLargeError),
        ({"a": "x" * (limits.STRING_MAX_BYTES + 1)}, ValueTooLargeError),
        ([0] * limits.VALUE_MAX_NODES, ValueTooLargeError),
        ([dict.fromkeys(map(str, range(50)), 0)] * (limits.VALUE_MAX_NODES // 50), ValueTooLargeError),
    ],
    ids=lambda value: _named(value)[:24],
)
def test_what_is_not_plain_or_too_large_is_refused_however_it_is_copied(value: Any, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        json_value(value)


def test_the_deepest_value_that_there_may_be_is_taken_and_one_deeper_is_not() -> None:
    value: Any = []
    for _ in range(limits.DEPTH_MAX_LEVELS - 1):
        value = [value]
    assert json_value(value) == value
    with pytest.raises(ValueTooLargeError):
        json_value([value])


@given(PAYLOADS)
def test_a_plain_value_is_taken_as_it_is(value: Any) -> None:
    """By value: a double beyond 2^53 comes out as the int that it means."""
    taken: Any = json_value(value)
    assert payload_bytes(taken) == payload_bytes(value) == rfc8785.dumps(value)
    assert json_value(taken) == taken


def test_what_is_looked_through_is_what_is_kept_also_while_another_thread_changes_the_value() -> None:
    given: dict[str, object] = {f"k{number}": "v" for number in range(40)}
    strange = [object()]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            given["k0"] = strange if given["k0"] == "v" else "v"

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    changing = threading.Thread(target=change)
    changing.start()
    kept: list[Json] = []
    try:
        for _ in range(20_000):
            with contextlib.suppress(UnsupportedValueError):
                kept.append(json_value(given))
    finally:
        stop.set()
        changing.join()
        sys.setswitchinterval(before)
    assert all(isinstance(value, dict) and value["k0"] == "v" for value in kept)


def test_a_time_of_day_in_a_zone_whose_offset_depends_on_the_day_is_refused() -> None:
    """Its text would drop the zone."""
    with pytest.raises(UnsupportedValueError, match="Europe/Berlin"):
        json_value(datetime.time(2, 3, tzinfo=ZoneInfo("Europe/Berlin")))
    assert json_value([datetime.time(2, 3), datetime.time(2, 3, tzinfo=datetime.UTC)]) == ["02:03:00", "02:03:00+00:00"]
