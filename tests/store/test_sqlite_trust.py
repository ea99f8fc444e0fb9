"""A new action is written as new without a look; one that only says so is found out, and takes nobody with it."""

from __future__ import annotations

from pathlib import Path

from readback.ports.storage.store import Appended, KeyConflict, VersionConflict
from readback.stores.sqlite import open_sqlite_store
from readback.testing.store_samples import TENANT, sample_creation


def test_what_is_not_new_is_refused_and_what_is_new_beside_it_is_kept(tmp_path: Path) -> None:
    key = "ab" * 32
    with open_sqlite_store(tmp_path / "l.db") as other, open_sqlite_store(tmp_path / "l.db") as store:
        other.append([sample_creation("there"), sample_creation("holder", key_hash=key)])
        batch = [
            sample_creation("one"),
            sample_creation("there"),
            sample_creation("late", key_hash=key),
            sample_creation("two", key_hash="cd" * 32),
            sample_creation("twin", key_hash="cd" * 32),
        ]
        one, there, late, two, twin = store.append(batch)
        assert isinstance(one, Appended)
        assert isinstance(two, Appended)
        assert there == VersionConflict(version=1, fence=0)
        assert isinstance(late, KeyConflict)
        assert late.record.action_id == "holder"
        assert isinstance(twin, KeyConflict)
        assert twin.record.action_id == "two"
        assert [bool(store.events(name)) for name in ("one", "two", "late", "twin")] == [True, True, False, False]
        held = store.key(TENANT, key)
        assert held is not None
        assert held.action_id == "holder"
        # And nothing wrong is remembered of the ones that were refused.
        assert store.append([sample_creation("there")]) == [VersionConflict(version=1, fence=0)]
        assert isinstance(store.append([sample_creation("late")])[0], Appended)
        assert store.damage() == []
