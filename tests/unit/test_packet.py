"""The packet that a person decides by: what is too long is cut and named, what is over all bounds is refused."""

from __future__ import annotations

import pytest

from readback.canon import payload_bytes
from readback.domain.errors import OversizeError
from readback.domain.packet import CUT, PACKET_MAX_BYTES, ReviewPacket, packet_of


def _packet(head: int = 0, section: int = 0, sections: int = 1) -> ReviewPacket:
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
