"""Which messages an entry amounts to, and their form: CloudEvents 1.0, with nothing in it that is not ours."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from readback import bootstrap
from readback.canon import envelope_bytes
from readback.domain.events import EventKind
from readback.domain.records.message import TEXTS, URGENT, EventName, Message, Naming
from readback.engine.outbox import BY_KIND, BY_STATE, SILENT, TELLING, log_of, messages_at, messages_of
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from tests.cli.conftest import CONTRACTS, Desk

ATTRIBUTE = re.compile(r"[a-z0-9]{1,20}")
NOT_OURS = ("Because.", "Refunded by hand.", "break the reader", "1234")
"""What people and systems of record said in the ledger below."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every message of a ledger in which actions ended in several ways, with the entries that they follow from."""
    from tests.cli import test_tampering as ways

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("ledger")
        patch.chdir(folder)
        patch.setenv("SHOP_FILE", str(folder / "shop.json"))
        runtime = VirtualRuntime()
        patch.setattr(bootstrap, "runtime", lambda: runtime)
        desk = Desk(folder, runtime)
        desk.ship("verified", code=0, pin="1234")
        desk.ship("missing", order_id="o-99", how="lie", code=3)
        desk.run("wipe", "--operation", "held", order_id="o-17", code=4)
        desk.run("annotate", "--operation", "n", order_id="o-17", note="break the reader", code=5)
        runtime.advance(3600)
        desk("resume", "--contracts", CONTRACTS, "--json")
        ways._decide(desk)
        ways._sagas(desk)
        store = bootstrap.store(f"sqlite:///{desk.ledger}", read_only=True)
        yield store, [(entry, message) for entry in store.scan() for message in all_of(store, entry)]
        store.close()


def all_of(store: LedgerStore, entry: Any) -> tuple[Message, ...]:
    return messages_at(store, log_of(store), entry)


def named(told: Any, name: EventName) -> list[Message]:
    return [message for _, message in told[1] if message.name is name]


@pytest.mark.requirement("CLAIM-events")
@pytest.mark.slow
def test_what_happened_is_told_under_its_name(told: Any) -> None:
    counted = Counter(message.name for _, message in told[1])
    for name in (
        EventName.ACTION_RECONCILED,
        EventName.ACTION_UNKNOWN,
        EventName.ACTION_FAILED,
        EventName.ACTION_COMPENSATED,
        EventName.VERIFICATION_FAILED,
        EventName.CLAIM_CONTESTED,
        EventName.CLAIM_RETRACTED,
        EventName.REVIEW_REQUIRED,
        EventName.REVIEW_RESOLVED,
        EventName.APPROVAL_REQUESTED,
        EventName.INCIDENT_OPENED,
        EventName.INCIDENT_CLOSED,
        EventName.RESOURCE_FROZEN,
        EventName.FREEZE_LIFTED,
    ):
        assert counted[name], name
    assert counted[EventName.INCIDENT_OPENED] == len(told[0].incidents(open_only=False)), "once a cause"


@pytest.mark.slow
def test_a_saga_is_told_of_as_its_steps_are(told: Any) -> None:
    kinds = {message.data["kind"] for message in named(told, EventName.ACTION_RECONCILED)}
    assert {"saga", "set"} <= kinds
    assert any(message.data["saga"] for _, message in told[1])


@pytest.mark.slow
def test_each_entry_tells_the_same_for_ever_and_numbers_its_messages(told: Any) -> None:
    store, found = told
    for entry, message in found:
        assert message in all_of(store, entry)
        assert (message.seq, message.subject, message.at_us) == (entry.seq, entry.action_id, entry.at_us)
    for entry in store.scan():
        assert [message.number for message in all_of(store, entry)] == list(range(len(all_of(store, entry))))


@pytest.mark.slow
def test_only_entries_of_telling_kinds_tell(told: Any) -> None:
    assert {entry.kind for entry, _ in told[1]} <= set(TELLING)
    assert {kind.value for kind in SILENT} | set(TELLING) == {kind.value for kind in EventKind}


@pytest.mark.requirement("CLAIM-events")
@pytest.mark.slow
def test_each_message_is_a_cloud_event(told: Any) -> None:
    """The context attributes of CloudEvents 1.0.2, "Required attributes" and "Optional attributes"."""
    seen = set()
    for _, plain in told[1]:
        for message in plain.named(Naming.BOTH):
            event = json.loads(envelope_bytes(message.as_json()))
            assert event["specversion"] == "1.0"
            for required in ("id", "source", "type"):
                assert isinstance(event[required], str)
                assert event[required]
            parts = urlsplit(event["source"])
            assert parts.scheme == "urn"
            assert " " not in event["source"]
            assert datetime.fromisoformat(event["time"]).tzinfo is not None
            assert event["time"].endswith("Z")
            assert event["subject"]
            assert event["datacontenttype"] == "application/json"
            assert isinstance(event["data"], dict)
            assert all(ATTRIBUTE.fullmatch(name) for name in event)
            assert len(envelope_bytes(message.as_json())) < 64_000, "the size that every intermediary has to forward"
            seen.add((event["source"], event["id"]))
    assert len(seen) == 2 * len(told[1]), "source and id are unique for each event"


@pytest.mark.requirement("CLAIM-events")
@pytest.mark.slow
def test_both_names_are_in_every_message(told: Any) -> None:
    for _, message in told[1]:
        dotted, underscored = message.named(Naming.BOTH)
        assert dotted.type == f"readback.{message.data['event']}"
        assert underscored.type == f"readback_{message.data['alias']}"
        assert "." not in underscored.type
        assert message.named(Naming.DOTTED) == (dotted,)
        assert message.named(Naming.UNDERSCORE) == (underscored,)


@pytest.mark.slow
def test_nothing_that_people_or_systems_said_goes_out(told: Any) -> None:
    store, found = told
    said = json.dumps([message.as_json() for _, message in found])
    entries = b"".join(entry.envelope for entry in store.scan()).decode()
    assert any(text in entries for text in NOT_OURS), "there is something to leak"
    assert not [text for text in NOT_OURS if text in said]
    texts = {message.data["text"] for _, message in found}
    assert texts <= set(TEXTS.values())


@pytest.mark.slow
def test_a_claim_is_told_as_the_source_shows_it(told: Any) -> None:
    for name in (EventName.CLAIM_CONTESTED, EventName.CLAIM_RETRACTED):
        for message in named(told, name):
            data = message.data
            assert str(data["claim"]).startswith(message.subject)
            assert 0 < float(str(data["confidence"])) <= 1
            assert data["reason"]
            assert data["recommended_action"]
            assert data["verdict"] == name.value.partition(".")[2]
            assert isinstance(data["dependants"], list)


@pytest.mark.slow
def test_an_incident_of_a_cause_that_is_open_is_told_once(told: Any) -> None:
    store = told[0]
    entry, message = next((e, m) for e, m in told[1] if m.name is EventName.INCIDENT_OPENED)
    history = [each for each in store.events(entry.action_id) if each.version <= entry.version]
    again = messages_of("log", history, opens_incident=False)
    assert EventName.INCIDENT_OPENED not in {one.name for one in again}
    assert len(again) == len(all_of(store, entry)) - 1
    assert message.data["severity"] in ("high", "critical")
    assert message.data["next"] == f"readback review show {message.subject}"


def test_the_tables_are_total() -> None:
    assert set(TEXTS) == set(EventName)
    assert set(URGENT) < set(EventName)
    assert len({name.underscored for name in EventName}) == len(EventName)
    assert set(BY_STATE.values()) | set(BY_KIND.values()) < set(EventName)


def test_a_log_without_entries_has_no_name(tmp_path: Path) -> None:
    store = bootstrap.store(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert log_of(store) == ""
    store.close()
