"""Envelopes that are read together: only where each of them, by itself, is the canonical form of what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.canon import EnvelopeProfileError, envelope_bytes, limits, parse_json
from readback.canon.envelopes import EnvelopeReader, Filled, Whole
from readback.canon.frozen import dataclass

SAFE = limits.INTEGER_SAFE_MAX
ASCII = st.text(st.characters(max_codepoint=127), max_size=6)
PLAIN = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | ASCII
ODD = st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(max_size=4)


def _nested(leaves: st.SearchStrategy[Any], levels: int) -> st.SearchStrategy[Any]:
    found = leaves
    for _ in range(levels):
        found = leaves | st.lists(found, max_size=3) | st.dictionaries(ASCII, found, max_size=3)
    return found


@dataclass(slots=True)
class Kept:
    """What is read, in the order of its names."""

    data: Filled
    z: Whole


READER = EnvelopeReader(Kept)


def _written(value: Any, *, spaced: bool = False) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=None if spaced else (",", ":")).encode()


def _sound(envelope: bytes) -> bool:
    """As one by itself is looked at."""
    try:
        return envelope_bytes(parse_json(envelope)) == envelope
    except EnvelopeProfileError:
        return False


def _told(found: list[Kept]) -> list[Any]:
    return [{"data": each.data, "z": each.z} for each in found]


ENVELOPE = b'{"data":{"a":[]},"z":1}'


@pytest.mark.parametrize(
    "envelopes",
    [[], [ENVELOPE], [ENVELOPE, b'{"data":{},"z":2}', ENVELOPE], [b'{"data":{"a":"\\u001f\\n\x7f"},"z":1}']],
)
def test_sound_ones_are_read(envelopes: list[bytes]) -> None:
    found = READER.read(envelopes)
    assert found is not None
    assert _told(found) == [parse_json(each) for each in envelopes]


@pytest.mark.parametrize(
    "odd",
    [
        [b'{"data":{"a":[{}', b'{}]},"z":1}'],
        [b'{"data":{"a":[{}', b'{}]},"z":1},{"data":{},"z":2}'],
        [ENVELOPE + b"," + ENVELOPE, b""],
        [ENVELOPE + b"\n" + ENVELOPE],
        [ENVELOPE + b"\n" + ENVELOPE, b""],
        [ENVELOPE + b"\n"],
        [b""],
        [b"\n"],
        [b"]"],
        [b"null"],
        [b'{"z":1,"data":{}}'],
        [b'{"data":{"b":1,"a":2},"z":1}'],
        [b'{"data":{"a":{"d":1,"c":2}},"z":1}'],
        [b'{"data":{},"data":{},"z":1}'],
        [b'{"data":{"a":1,"a":1},"z":1}'],
        [b'{"data":{},"z":1,"zz":1}'],
        [b'{"data":{}}'],
        [b'{"data": {},"z":1}'],
        [b'{"data":{},"z":true}'],
        [b'{"data":{},"z":1.0}'],
        [b'{"data":{},"z":-0}'],
        [b'{"data":{"a":1.5},"z":1}'],
        [b'{"data":{"a":1e2},"z":1}'],
        [b'{"data":{"a":[{"b":1.5}]},"z":1}'],
        [b'{"data":{"a":9007199254740992},"z":1}'],
        [b'{"data":{"a":-9007199254740992},"z":1}'],
        [b'{"data":{"a":18446744073709551616},"z":1}'],
        [b'{"data":{"a":"\\u001F"},"z":1}'],
        [b'{"data":{"a":"\\/"},"z":1}'],
        [b'{"data":{"a":"\\u0041"},"z":1}'],
        [b'{"data":{"a":"\\u00e9"},"z":1}'],
        ['{"data":{"a":"\u00e9"},"z":1}'.encode()],
        ['{"data":{"\u00e9":1},"z":1}'.encode()],
        [b'{"data":{"a":"\xff"},"z":1}'],
        [b'{"data":{"a":"' + b"x" * limits.ENVELOPE_MAX_BYTES + b'"},"z":1}'],
    ],
)
def test_one_that_is_odd_is_not_read_nor_are_those_beside_it(odd: list[bytes]) -> None:
    assert READER.read(odd) is None
    assert READER.read([ENVELOPE, *odd]) is None
    assert READER.read([*odd, ENVELOPE]) is None


@given(st.lists(st.dictionaries(ASCII, _nested(PLAIN, 2), max_size=4), min_size=1, max_size=4))
def test_whatever_is_plain_is_read(filled: list[dict[str, Any]]) -> None:
    envelopes = [envelope_bytes({"data": each, "z": at}) for at, each in enumerate(filled)]
    found = READER.read(envelopes)
    assert found is not None
    assert _told(found) == [parse_json(each) for each in envelopes]


@given(st.lists(st.dictionaries(st.text(max_size=2), _nested(PLAIN | ODD, 4), max_size=3), max_size=4), st.data())
def test_what_is_read_together_is_sound_one_by_one(filled: list[dict[str, Any]], data: st.DataObject) -> None:
    spaced = data.draw(st.booleans())
    written = [_written({"data": each, "z": 1}, spaced=spaced) for each in filled]
    joined = data.draw(st.sampled_from([b",", b"\n", b""])).join(written)
    cuts = data.draw(st.lists(st.integers(0, len(joined)), max_size=3).map(sorted))
    moved = [joined[at:to] for at, to in zip([0, *cuts], [*cuts, len(joined)], strict=True)]
    for envelopes in (written, moved):
        found = READER.read(envelopes)
        if found is not None:
            assert all(_sound(each) for each in envelopes)
            assert _told(found) == [parse_json(each) for each in envelopes]


@given(st.integers(0, 127), st.booleans())
def test_every_character_has_the_form_that_it_is_written_in(point: int, key: bool) -> None:
    filled = {chr(point): 1} if key else {"a": chr(point)}
    envelope = envelope_bytes({"data": filled, "z": 1})
    found = READER.read([envelope])
    assert found is not None
    assert found[0].data == filled
    escaped = _written({"data": filled, "z": 1}).replace(chr(point).encode(), b"\\u%04x" % point, 1)
    assert READER.read([escaped]) is None or _sound(escaped)
