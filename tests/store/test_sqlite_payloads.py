"""Evidence that was kept once for a tenant comes to the actions that have it, as a newer release opens the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from readback.audit.checks.ledger import audit
from readback.audit.maintenance.erase import erase
from readback.domain.action.erasure import ErasureOrder, payloads
from readback.domain.events import open_envelope
from readback.ports.storage.store import LedgerStore
from readback.stores.sqlite import SqliteStore, open_sqlite_store
from tests.store.old_ledger import IDS, KEPT, write_old_ledger

pytestmark = pytest.mark.requirement("FLEET-upgrade")
NOW_US = 2_000_000_000_000_000


def digests_of(store: LedgerStore, name: str) -> list[str]:
    opened = [open_envelope(each.envelope) for each in store.events(IDS[name])]
    return [*dict.fromkeys(digest for one in opened for digest in payloads(one.event))]


def assert_brought_up(store: LedgerStore) -> None:
    """Each action has what it had, and no more."""
    report = audit(store)
    assert report.faults == []
    assert report.erased == len(digests_of(store, "kept_by_another")) + len(digests_of(store, "gone"))
    for name in ("whole", "odd", "again"):
        assert all(store.evidence("acme", IDS[name], digest) for digest in digests_of(store, name)), name
    assert all(store.evidence("globex", IDS["theirs"], digest) for digest in digests_of(store, "theirs"))
    assert not any(store.evidence("acme", IDS["theirs"], digest) for digest in digests_of(store, "theirs"))
    for name in ("kept_by_another", "gone"):
        for digest in digests_of(store, name):
            assert store.evidence("acme", IDS[name], digest) is None
            assert store.erased("acme", IDS[name], digest)
    shared = {*digests_of(store, "kept_by_another")} & {*digests_of(store, "whole")}
    assert len(shared) == 4, "they had been one row each"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_old_ledger(tmp_path / "readback.db")
    return tmp_path / "readback.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_sqlite_store(path) as opened:
        yield opened


def test_each_action_has_its_own_of_what_was_kept_once(store: SqliteStore) -> None:
    assert_brought_up(store)
    assert store.damage() == []
    kept = [each for each in KEPT["tables"]["evidence"]["rows"] if each[4] is not None]
    assert store.evidence_bytes("acme") >= sum(len(each[4]["hex"]) // 2 for each in kept if each[1] == "acme")


def test_what_is_erased_of_it_is_gone_for_that_action_alone(store: SqliteStore, path: Path) -> None:
    done = erase(store, ErasureOrder("acme", "human:dpo", "x", (IDS["whole"],)), NOW_US)
    assert (done.actions, done.gone) == (1, True)
    assert b"the same words" in path.read_bytes(), "the other tenant's is there"
    assert erase(store, ErasureOrder("globex", "human:dpo", "x"), NOW_US).actions == 1
    assert b"the same words" not in path.read_bytes()
    assert audit(store).faults == []
    assert store.damage() == []


def test_an_entry_that_is_none_any_more_keeps_nobody_from_opening_the_ledger(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER event_is_never_changed")
    connection.execute("UPDATE event SET envelope = x'ff7b' WHERE action_id = ? AND version = 2", (IDS["odd"],))
    connection.close()
    with open_sqlite_store(path) as store:
        faults = audit(store).faults
        assert {fault.action_id for fault in faults} == {IDS["odd"]}
        assert all(store.evidence("acme", IDS["whole"], digest) for digest in digests_of(store, "whole"))
