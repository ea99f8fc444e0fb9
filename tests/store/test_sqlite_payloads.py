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
from readback.ports.storage.store import Erasure, LedgerStore
from readback.stores.sqlite import SqliteStore, open_sqlite_store
from readback.testing.store_samples import sample_append, sample_evidence, sample_projection
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


@pytest.mark.requirement("TENANT-evidence")
def test_the_weight_is_exact_for_a_group_of_new_present_repeated_and_restored_payloads(tmp_path: Path) -> None:
    new, present, erased, twice = (sample_evidence(word) for word in (b"new", b"present", b"erased", b"of two appends"))
    with open_sqlite_store(tmp_path / "readback.db") as store:
        store.append([sample_append("a1", evidence=(present, erased, sample_evidence(b"stays erased")))])
        gone = Erasure((erased.digest, sample_evidence(b"stays erased").digest))
        store.append([sample_append("a1", 1, erases=gone), sample_append("a2", evidence=(present,))])
        assert store.evidence_bytes("acme") == 2 * len(b"present")

        batch = [
            sample_append("a1", 2, evidence=(new, present, erased, twice, new)),
            sample_append("a1", 3, evidence=(twice,)),
            sample_append("a2", 1, evidence=(new, present)),
            sample_append("b1", evidence=(new,), projection=sample_projection("b1", tenant="globex")),
        ]
        store.append(batch)

        mine = 2 * len(b"present") + 2 * len(b"new") + len(b"erased") + len(b"of two appends")
        assert store.evidence_bytes("acme") == mine
        assert store.evidence_bytes("globex") == len(b"new")
        store.append([sample_append("a1", 4, evidence=(erased, present)), sample_append("a2", 2, evidence=(present,))])
        assert store.evidence_bytes("acme") == mine, "everything was present"
        assert store.evidence("acme", "a1", erased.digest) == erased
        assert store.erased("acme", "a1", sample_evidence(b"stays erased").digest)
    weigh = "SELECT tenant, sum(length(body)) FROM payload GROUP BY tenant"
    connection = apsw.Connection(str(tmp_path / "readback.db"))
    assert dict(connection.execute(weigh)) == {"acme": mine, "globex": len(b"new")}
    connection.close()
