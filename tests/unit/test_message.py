"""Messages: their names, which others hold on to, their ids, their times, and the envelope that is told."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest

from readback.canon import envelope_bytes
from readback.domain.records.message import (
    DATA_FORMAT,
    ENTRY_CHARACTERS,
    LOG_CHARACTERS,
    MEDIA,
    PREFIX,
    SOURCE,
    SPEC_VERSION,
    TEXTS,
    URGENT,
    EventName,
    Message,
    Naming,
)

NAMES = {
    "action.reconciled": "action_reconciled",
    "action.failed": "action_failed",
    "action.unknown": "action_unknown",
    "action.compensated": "action_compensated",
    "action.compensation_failed": "action_compensation_failed",
    "action.rolled_back": "action_rolled_back",
    "action.abandoned": "action_abandoned",
    "verification.failed": "verification_failed",
    "claim.contested": "claim_contested",
    "claim.retracted": "claim_retracted",
    "claim.reinstated": "claim_reinstated",
    "approval.requested": "approval_requested",
    "approval.given": "approval_given",
    "approval.denied": "approval_denied",
    "review.required": "review_required",
    "review.resolved": "review_resolved",
    "incident.opened": "incident_opened",
    "incident.closed": "incident_closed",
    "resource.frozen": "resource_frozen",
    "freeze.lifted": "freeze_lifted",
}
"""What receivers filter by: a name that is told once keeps its spelling."""
TOLD_BY_WORD = {
    "verified": {"action.reconciled", "action.compensated"},
    "failed": {"action.failed"},
    "attempted": {"verification.failed"},
    "Do not repeat": {"action.unknown"},
    "could not be reversed": {"action.compensation_failed"},
    "rolled back": {"action.rolled_back"},
    "given up": {"action.abandoned"},
    "contested": {"claim.contested"},
    "withdrawn": {"claim.retracted"},
    "do not rely": {"claim.contested", "claim.retracted"},
    "stands again": {"claim.reinstated"},
    "waits for an approver": {"approval.requested"},
    "signed": {"approval.given"},
    "denied": {"approval.denied"},
    "has to look": {"review.required"},
    "person decided": {"review.resolved"},
    "called": {"incident.opened"},
    "incident is closed": {"incident.closed"},
    "No new action may run": {"resource.frozen"},
    "was lifted": {"freeze.lifted"},
}
ONE = Message("cafe", 7, 2, EventName.ACTION_ROLLED_BACK, "acme", "a1", 1_767_225_600_123_456, {"format": 1, "x": [2]})


@pytest.mark.requirement("CLAIM-events")
def test_every_event_has_its_two_names() -> None:
    assert {name.value: name.underscored for name in EventName} == NAMES


def test_every_event_has_a_sentence_of_its_own_that_says_what_happened() -> None:
    assert list(TEXTS) == list(EventName)
    assert len(set(TEXTS.values())) == len(TEXTS)
    for word, names in TOLD_BY_WORD.items():
        assert {name.value for name, text in TEXTS.items() if word in text} == names, word


@pytest.mark.requirement("CLAIM-fallback")
def test_what_cannot_wait_is_told_to_the_operator_at_once() -> None:
    assert {name.value for name in URGENT} == {"verification.failed", "claim.retracted", "incident.opened"}


def test_the_form_on_the_wire_is_fixed() -> None:
    assert (SPEC_VERSION, MEDIA, PREFIX) == ("1.0", "application/cloudevents+json", "readback")
    assert (SOURCE, DATA_FORMAT, LOG_CHARACTERS, ENTRY_CHARACTERS) == ("urn:readback:log:", 1, 32, 16)
    assert [naming.value for naming in Naming] == ["dotted", "underscore", "both"]


@pytest.mark.requirement("CLAIM-events")
def test_a_message_is_told_as_an_envelope() -> None:
    assert ONE.as_json() == {
        "specversion": "1.0",
        "id": "cafe-7-2",
        "source": "urn:readback:log:cafe",
        "type": "readback.action.rolled_back",
        "subject": "a1",
        "time": "2026-01-01T00:00:00.123456Z",
        "datacontenttype": "application/json",
        "tenant": "acme",
        "data": {"format": 1, "x": [2]},
    }
    assert json.loads(envelope_bytes(ONE.as_json())) == ONE.as_json()


def test_a_fallback_hears_whom_it_stands_in_for() -> None:
    said = replace(ONE, undelivered_to="pager").as_json()
    assert said.pop("undeliveredto") == "pager"
    assert said == ONE.as_json()


@pytest.mark.requirement("CLAIM-events")
def test_under_its_other_name_it_is_another_event() -> None:
    other = replace(ONE, underscored=True)
    assert other.type == "readback_action_rolled_back"
    assert other.id == "cafe-7-2u"
    assert other.source == ONE.source
    assert replace(other, entry="ab12").id == "cafe-7-ab12-2u"
    assert not ONE.underscored
    assert ONE.named(Naming.DOTTED) == (ONE,)
    assert ONE.named(Naming.UNDERSCORE) == (other,)
    assert ONE.named(Naming.BOTH) == (ONE, other)


@pytest.mark.parametrize(
    ("at_us", "time"),
    [
        (-1, "1970-01-01T00:00:00.000000Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_767_225_600_123_456, "2026-01-01T00:00:00.123456Z"),
        (253_402_300_799_999_998, "9999-12-31T23:59:59.999998Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        (2**62, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_time_is_written_to_the_microsecond_and_is_always_one(at_us: int, time: str) -> None:
    message = replace(ONE, at_us=at_us)
    assert message.time == time
    assert datetime.fromisoformat(message.time).tzinfo is not None
    assert json.loads(envelope_bytes(message.as_json()))["time"] == time
