"""The packet that a person decides by: what is too long is cut and named, what is over all bounds is refused."""

from __future__ import annotations

import pytest

from readback.canon import Json, payload_bytes, sha256_hex
from readback.domain.people.review import (
    CUT,
    ENTRIES_MAX,
    PACKET_FORMAT,
    PACKET_MAX_BYTES,
    VALUE_MIN_BYTES,
    ReviewCase,
    bounded,
    packet_of,
)
from readback.errors import OversizeError


def _packet(head: int = 0, section: int = 0, sections: int = 1) -> ReviewCase:
    return packet_of(
        {"id": "a-1", "state": "review_required", "target": "x" * head},
        {f"section {n}": {"value": "y" * section} for n in range(sections)},
        (),
        version=3,
        reason="unknown_state",
    )


@pytest.mark.requirement("TRUTH-hold-packet")
def test_a_section_that_is_too_long_is_cut_and_the_packet_stays_within_its_bounds() -> None:
    found = _packet(section=10 * PACKET_MAX_BYTES)
    assert len(payload_bytes(found.as_json())) < PACKET_MAX_BYTES
    assert CUT in payload_bytes(found.as_json()).decode()
    assert (found.id, found.version, found.reason) == ("a-1", 3, "unknown_state")


@pytest.mark.requirement("TRUTH-hold-packet")
@pytest.mark.parametrize("over", [{"head": PACKET_MAX_BYTES}, {"section": 20_000, "sections": 20}])
def test_a_packet_that_is_over_all_bounds_is_refused_and_says_where_to_look(over: dict[str, int]) -> None:
    with pytest.raises(OversizeError) as refused:
        _packet(**over)
    assert refused.value.code == "input.oversize"
    assert "a-1" in refused.value.message
    assert "readback show a-1 --json" in str(refused.value)


def test_a_packet_is_refused_from_its_first_byte_too_many() -> None:
    empty = len(payload_bytes(_packet().as_json()))
    assert _packet(head=PACKET_MAX_BYTES - empty).id == "a-1"
    with pytest.raises(OversizeError):
        _packet(head=PACKET_MAX_BYTES - empty + 1)


# --- how a value is cut ---


def test_what_fits_is_shown_whole_to_the_last_byte() -> None:
    for value in ("x" * 98, ["x" * 96], {"k": "x" * 92}):
        assert len(payload_bytes(value)) == 100
        assert bounded(value, 100) is value
        assert bounded(value, 99) != value


def test_a_text_is_cut_to_its_beginning_with_its_length_and_digest() -> None:
    text = "ab\u00e9" * 200
    body = payload_bytes(text)
    for limit in (100, 101, 102, 103):
        begins = body[: limit // 2].decode(errors="ignore")
        assert bounded(text, limit) == {CUT: begins, "bytes": len(body), "sha256": sha256_hex(body)}
    assert bounded(text, 0) == {CUT: "", "bytes": len(body), "sha256": sha256_hex(body)}


def test_an_object_keeps_its_keys_and_what_is_short_in_it() -> None:
    long = "x" * 5_000
    found = bounded({"short": 1, "long": long, "list": [1, 2]}, 3_000)
    assert isinstance(found, dict)
    assert (found["short"], found["list"]) == (1, [1, 2])
    assert found["long"] == bounded(long, 500)
    assert bounded({"a": long}, 4_000) == {"a": bounded(long, 2_000)}


def test_a_list_keeps_its_two_ends_and_says_how_many_are_left_out() -> None:
    entries: list[Json] = [f"{n:04}" for n in range(ENTRIES_MAX + 100)]
    half = ENTRIES_MAX // 2
    left_out = entries[half:-half]
    mark: Json = {CUT: "100 entries", "sha256": sha256_hex(payload_bytes(left_out))}
    assert bounded(entries, len(payload_bytes(entries)) - 1) == [*entries[:half], mark, *entries[-half:]]


def test_a_list_of_as_many_as_are_shown_keeps_all_and_cuts_what_is_long_in_it() -> None:
    short: list[Json] = [f"{n:04}" for n in range(ENTRIES_MAX - 1)]
    long = "z" * 90_000
    for limit, share in ((9_000, VALUE_MIN_BYTES), (64_000, 64_000 // (2 * ENTRIES_MAX))):
        assert bounded([*short, long], limit) == [*short, bounded(long, share)]


def test_what_stays_too_long_in_its_parts_is_cut_as_a_whole() -> None:
    for value in ({f"k{n}": "x" * 400 for n in range(30)}, ["x" * 400 for _ in range(30)]):
        size, body = len(payload_bytes(value)), payload_bytes(value)
        assert bounded(value, 900) == {CUT: body[:450].decode(), "bytes": size, "sha256": sha256_hex(body)}
    many = {f"k{n:04}": n for n in range(ENTRIES_MAX + 1)}
    body = payload_bytes(many)
    limit = len(body) - 1
    assert bounded(many, limit) == {CUT: body[: limit // 2].decode(), "bytes": len(body), "sha256": sha256_hex(body)}


def test_a_packet_says_this_and_nothing_else() -> None:
    found = packet_of({"id": "a-1", "state": "unknown"}, {"seen": 1}, (), version=3, reason="why")
    assert found.as_json() == {
        "format": PACKET_FORMAT,
        "id": "a-1",
        "state": "unknown",
        "version": 3,
        "review": "why",
        "seen": 1,
        "choices": [],
    }
