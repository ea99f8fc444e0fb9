"""Envelopes: what is hashed is on record for good, and what is not one of ours is refused."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from readback.canon import envelope_bytes
from readback.domain.events import ENVELOPE_FORMAT, Event, EventKind, ParsedEnvelope, open_envelope, open_many, seal
from readback.domain.state import State
from readback.errors import StoreCorruptError

EVENT = Event(
    EventKind.OBSERVED, 1_700, (State.EXECUTING, State.ACCEPTED), {"ended": 1_600, "ok": True}, {"observation": "ab12"}
)
SEALED = (
    b'{"action":"act-1","at":1700,"data":{"ended":1600,"ok":true},"format":1,"kind":"observed",'
    b'"path":["executing","accepted"],"prev":"ff","refs":{"observation":"ab12"},"tenant":"acme","version":3}'
)


def raw(**changed: Any) -> bytes:
    """An envelope with some keys changed; one that is changed to `...` is left out."""
    whole = {
        "action": "act-1",
        "at": 1_700,
        "data": {},
        "format": ENVELOPE_FORMAT,
        "kind": "observed",
        "path": ["executing"],
        "prev": "",
        "refs": {},
        "tenant": "acme",
        "version": 1,
    }
    return envelope_bytes({key: value for key, value in {**whole, **changed}.items() if value is not ...})


def test_an_envelope_has_one_form_for_good() -> None:
    envelope, leaf = seal(EVENT, "act-1", "acme", 3, "ff")
    assert envelope == SEALED
    assert leaf == hashlib.sha256(b"\x00" + SEALED).digest()


def test_what_was_sealed_is_read_back_in_its_place() -> None:
    assert open_envelope(SEALED) == ParsedEnvelope(EVENT, "act-1", "acme", 3, "ff")
    bare = Event(EventKind.HELD, 5)
    assert open_envelope(seal(bare, "a", "t", 1, "")[0]) == ParsedEnvelope(bare, "a", "t", 1, "")


ODD = [
    raw(format=2),
    raw(more=1),
    raw(format=0),
    raw(format=...),
    b"[]",
    raw(kind="invented"),
    raw(kind=7),
    raw(kind=...),
    raw(at="1700"),
    raw(at=True),
    raw(path="executing"),
    raw(path={"executing": 1}),
    raw(path=["flying"]),
    raw(path=[7]),
    raw(data=[]),
    raw(refs=[]),
    raw(refs={"observation": 7}),
    raw(action=7),
    raw(tenant=None),
    raw(version="1"),
    raw(version=False),
    raw(prev=0),
    *(raw(**{key: ...}) for key in ("action", "at", "data", "path", "prev", "refs", "tenant", "version")),
]


@pytest.mark.parametrize("envelope", ODD)
def test_what_is_not_an_envelope_of_ours_is_corrupt(envelope: bytes) -> None:
    with pytest.raises(StoreCorruptError):
        open_envelope(envelope)


@pytest.mark.parametrize(
    ("envelope", "said"),
    [
        (b"[]", "a format unknown to this version"),
        (raw(format=2), "a format unknown to this version"),
        (raw(format=True), "'format' is bool, and has to be int"),
        (raw(more=1), "missing or unknown fields: more"),
        (raw(prev=...), "missing or unknown fields: prev"),
        (raw(at="1700"), "'at' is str, and has to be int"),
        (raw(version=False), "'version' is bool, and has to be int"),
        (raw(path="executing"), "'path' is str, and has to be list"),
        (raw(refs={"observation": 7}), "unknown values in kind, path or refs"),
        (raw(kind="invented"), "unknown values in kind, path or refs"),
    ],
)
def test_what_is_wrong_with_an_envelope_is_said(envelope: bytes, said: str) -> None:
    with pytest.raises(StoreCorruptError) as caught:
        open_envelope(envelope)
    assert said in caught.value.message


def test_the_control_is_an_envelope_of_ours() -> None:
    assert open_envelope(raw()).event.path == (State.EXECUTING,)


@pytest.mark.parametrize("envelope", [*ODD, raw(format=True), raw(path=[["executing"]]), raw()[:-1], raw() + b" "])
def test_many_are_opened_together_only_where_each_is_an_envelope_of_ours(envelope: bytes) -> None:
    sound = [raw(), raw(kind="read", version=2, refs={"reading": "ab12"}, path=["validated", "executing"])]
    assert open_many(sound) == [open_envelope(each) for each in sound]
    assert open_many([sound[0], envelope, sound[1]]) is None


@pytest.mark.parametrize("kind", list(EventKind))
@pytest.mark.parametrize("state", list(State))
def test_of_each_kind_and_path_the_same_is_opened_together_and_alone(kind: EventKind, state: State) -> None:
    envelope = raw(kind=kind.value, path=[state.value], data={"a": [{"b": ["c"]}], "d": None, "e": -1, "f": False})
    assert open_many([envelope]) == [opened := open_envelope(envelope)]
    assert (opened.event.kind, opened.event.path) == (kind, (state,))


def test_of_none_none_are_opened() -> None:
    assert open_many([]) == []
