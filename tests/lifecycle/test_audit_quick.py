"""What the audit does not look at twice: what it passes over is what a close look finds nothing in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.audit.checks.control import Controls
from readback.audit.checks.prefetch import MEDIA, EvidenceCache
from readback.canon import Json, sha256_hex
from readback.domain.events import Event, EventKind, ParsedEnvelope
from readback.engine.entries.side_records import FreezeAndIncidentChanges
from readback.ports.storage.store import Kept, StoredEvent

MARKED = st.sampled_from(["freeze", "frozen_for", "lift", "incident", "severity", "closes", "other"])
VALUES = st.sampled_from(["", "a cause", None, [], ["resource:a"], 0])


def _entry(at: int, data: dict[str, Json]) -> tuple[StoredEvent, ParsedEnvelope]:
    opened = ParsedEnvelope(Event(EventKind.JUDGED, at, (), data), f"a{at}", "acme", 1, "")
    return StoredEvent(at, opened.action_id, 1, "judged", at, b"", b""), opened


@given(st.lists(st.dictionaries(MARKED, VALUES, max_size=4), max_size=6))
def test_an_entry_that_is_passed_over_does_nothing_beside_its_action(datas: list[dict[str, Json]]) -> None:
    entries = [_entry(at, data) for at, data in enumerate(datas, 1)]
    taken, each = Controls(), Controls()
    taken.take([stored for stored, _ in entries], [opened for _, opened in entries])
    for _, opened in entries:
        each.heard(opened)
    for _, opened in sorted(taken._marked, key=lambda marked: marked[0]):
        taken.heard(opened)
    assert (taken.freezes, taken.incidents) == (each.freezes, each.incidents)


def test_entries_that_freeze_lift_open_and_close_are_kept_with_their_places() -> None:
    datas: list[dict[str, Json]] = [
        {"freeze": ["resource:a"]},
        {"incident": ""},
        {"lift": ["resource:a"]},
        {"incident": "stale", "severity": "high"},
        {"closes": ["inc-1"]},
    ]
    entries = [_entry(at, data) for at, data in enumerate(datas, 1)]
    controls = Controls()
    controls.take([stored for stored, _ in entries], [opened for _, opened in entries])
    assert [at for at, _ in controls._marked] == [1, 3, 4, 5]
    for _, opened in entries:
        control = FreezeAndIncidentChanges()
        control.take("acme", opened.action_id, 1, 0, opened.event.data)
        does = any((control.freezes, control.lifts, control.incidents, control.closes))
        assert does == (opened.event.data != {"incident": ""})


class _Held:
    """A store of evidence alone."""

    def __init__(self, bodies: dict[Kept, tuple[str, bytes]]) -> None:
        self._bodies = bodies

    def bodies(self, tenant: str, asked: set[Kept]) -> dict[Kept, tuple[str, bytes]]:
        return {name: self._bodies[name] for name in asked if name in self._bodies}

    def keys(self, tenant: str, key_hashes: list[str]) -> dict[str, Any]:
        return {}


SOUND = {("", sha256_hex(body)): (MEDIA, body) for body in (b"1", b"2", b"3")}
FIRST = ("", sha256_hex(b"1"))


@pytest.mark.parametrize(
    "held",
    [
        {name: one for name, one in SOUND.items() if name != FIRST},
        SOUND | {FIRST: (MEDIA, b"one")},
        SOUND | {FIRST: ("text/plain", b"1")},
        {},
    ],
    ids=["gone", "other bytes", "of another kind", "all gone"],
)
def test_evidence_is_whole_only_where_each_piece_is_there_and_sound(held: dict[Kept, tuple[str, bytes]]) -> None:
    shelf = EvidenceCache(_Held(SOUND | held if len(held) == len(SOUND) else held))  # type: ignore[arg-type]
    assert shelf.fill({"acme": {*SOUND}}, {}) == 0
    assert not shelf.is_whole("acme")
    assert FIRST in shelf.unseen("acme", {FIRST})


def test_evidence_that_is_whole_is_so_for_its_tenant_and_until_more_is_fetched() -> None:
    shelf = EvidenceCache(_Held(SOUND))  # type: ignore[arg-type]
    assert shelf.fill({"acme": {*SOUND}}, {}) == len(SOUND)
    assert (shelf.is_whole("acme"), shelf.is_whole("other")) == (True, False)
    assert shelf.fill({"acme": {FIRST}}, {}) == 0  # it was seen
    assert shelf.is_whole("acme")
    assert shelf.fill({"acme": {("", "0" * 64)}}, {}) == 0
    assert not shelf.is_whole("acme")
