"""The packet that a person decides by: what was intended, asked for, answered and read, and what may be done.

Made by lifecycle.people from the ledger; shown by `readback review show` and by `Readback.review`. It is bounded: a
value that is too long is cut, and its length and digest stand in its place. It decides nothing, and asks no system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from readback.canon import Json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.errors import OversizeError
from readback.domain.people.review import Choice

PACKET_FORMAT: Final = 1
PACKET_MAX_BYTES: Final = 262_144
SECTION_MAX_BYTES: Final = 24_576
"""One of the states side by side, or one list of the packet."""
VALUE_MIN_BYTES: Final = 256
"""No value is cut shorter than this, however many stand beside it."""
ENTRIES_MAX: Final = 64
"""Entries of a list that are shown: the first and the last ones."""
CUT: Final = "$cut"


@dataclass(frozen=True, slots=True)
class ReviewCase:
    """What there is to decide about one action. `version` is what a resolution has to expect.

    `reason` is why it is in the queue, "" where it no longer is; `choices` every decision, with what it will do or why
    it cannot be taken; `body` the whole packet as bounded JSON.
    """

    id: str
    version: int
    state: str
    reason: str
    choices: tuple[Choice, ...]
    body: Mapping[str, Json] = field(default_factory=dict)

    def as_json(self) -> dict[str, Json]:
        """The packet as plain data."""
        return dict(self.body)


def packet_of(
    head: Mapping[str, Json], sections: Mapping[str, Json], choices: Sequence[Choice], *, version: int, reason: str
) -> ReviewCase:
    """Puts a packet together. `head`: small facts, its id and state among them; `sections`: what may be large.

    Raises OversizeError where it is over PACKET_MAX_BYTES even with everything cut.
    """
    body: dict[str, Json] = {
        "format": PACKET_FORMAT,
        **head,
        "version": version,
        "review": reason,
        **{name: bounded(value) for name, value in sections.items()},
        "choices": [choice.as_json() for choice in choices],
    }
    size = len(payload_bytes(body))
    if size > PACKET_MAX_BYTES:
        raise OversizeError(
            f"The packet of {head['id']} has {size} bytes, over {PACKET_MAX_BYTES}.",
            remedy=f"Look at `readback show {head['id']} --json` for the whole record.",
        )
    return ReviewCase(str(head["id"]), version, str(head["state"]), reason, tuple(choices), body)


def bounded(value: Json, limit: int = SECTION_MAX_BYTES) -> Json:
    """The value, with whatever makes it longer than `limit` bytes of canonical JSON cut: never dropped silently."""
    size = len(payload_bytes(value))
    if size <= limit:
        return value
    if isinstance(value, dict) and len(value) <= ENTRIES_MAX:
        share = max(VALUE_MIN_BYTES, limit // (2 * len(value)))
        shorter: Json = {key: bounded(each, share) for key, each in value.items()}
        if len(payload_bytes(shorter)) <= limit:
            return shorter
    elif isinstance(value, list):
        shown = _ends(value)
        share = max(VALUE_MIN_BYTES, limit // (2 * len(shown)))
        shorter = [bounded(each, share) for each in shown]
        if len(payload_bytes(shorter)) <= limit:
            return shorter
    return _cut(value, size, limit)


def _ends(value: list[Json]) -> list[Json]:
    """The first and the last entries, and between them how many were left out, with their digest."""
    if len(value) <= ENTRIES_MAX:
        return value
    half = ENTRIES_MAX // 2
    left_out = value[half:-half]
    mark: Json = {CUT: f"{len(left_out)} entries", "sha256": sha256_hex(payload_bytes(left_out))}
    return [*value[:half], mark, *value[-half:]]


def _cut(value: Json, size: int, limit: int) -> Json:
    """Its beginning, its length in bytes and its digest."""
    body = payload_bytes(value)
    begins = body[: max(limit // 2, 0)].decode("utf-8", errors="ignore")
    return {CUT: begins, "bytes": size, "sha256": sha256_hex(body)}
