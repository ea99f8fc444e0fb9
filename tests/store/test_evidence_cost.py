"""What evidence costs does not grow with the ledger: counted in rows and pages, at two sizes, and never in time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from readback.adapters.runtime_system import SystemRuntime
from readback.audit.maintenance.erase import erase
from readback.domain.action.erasure import ErasureOrder
from readback.ports.storage.store import Append
from readback.stores.sqlite import SqliteStore, open_sqlite_store, rows
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_samples import sample_append, sample_evidence
from tests.privacy.conftest import Book, Shelf, write_of

FEW, MANY = 200, 20_000
AT_ONCE = 64
FRAME_BYTES = 4096 + 24
NOW_US = 2_000_000_000_000_000


def _actions(count: int, runtime: SystemRuntime) -> list[Append]:
    """New actions as the engine names them, each with evidence of its own."""
    return [
        sample_append(runtime.new_id(), evidence=tuple(sample_evidence(os.urandom(64)) for _ in range(3)))
        for _ in range(count)
    ]


def _pages_written(path: Path, actions: int) -> int:
    """By one commit of `AT_ONCE` new actions, in a ledger of so many."""
    runtime = SystemRuntime()
    with open_sqlite_store(path) as store:
        for _ in range(0, actions, 1_000):
            store.append(_actions(min(actions, 1_000), runtime))
        assert store.purge(), "the log is empty"
        store.append(_actions(AT_ONCE, runtime))
        return Path(f"{path}-wal").stat().st_size // FRAME_BYTES


def test_the_evidence_of_new_actions_is_written_at_the_end_of_its_tables(tmp_path: Path) -> None:
    few, many = _pages_written(tmp_path / "few.db", FEW), _pages_written(tmp_path / "many.db", MANY)
    assert many <= few + 24, "some levels more of some indexes, and no page for each digest"


def _steps(store: SqliteStore, ask: Callable[[SqliteStore], object]) -> int:
    """Steps of SQLite's machine for what a question asks of the store."""
    asked: list[tuple[str, rows.Row]] = []
    answer = store._rows

    def remember(sql: str, values: rows.Row) -> list[rows.Row]:
        asked.append((sql, values))
        return answer(sql, values)

    store._rows = remember  # type: ignore[method-assign]
    ask(store)
    store._rows = answer  # type: ignore[method-assign]
    assert asked
    assert store._writer is not None
    taken: list[None] = []
    store._writer.set_progress_handler(lambda: bool(taken.append(None)), 1)
    for sql, values in asked:
        store._writer.execute(sql, values).fetchall()
    store._writer.set_progress_handler(None)
    return len(taken)


@pytest.mark.requirement("TENANT-evidence")
def test_weighing_a_tenants_evidence_costs_the_same_however_much_there_is(tmp_path: Path) -> None:
    def steps(actions: int) -> int:
        runtime = SystemRuntime()
        with open_sqlite_store(tmp_path / f"{actions}.db") as store:
            store.append(_actions(actions, runtime))
            assert store.evidence_bytes("acme") == actions * 3 * 64
            return _steps(store, lambda one: one.evidence_bytes("acme"))

    assert steps(2_000) == steps(20)


def _rows_read(shelf: Shelf, others: int, order: Callable[[str], ErasureOrder]) -> int:
    """By an erasure, in a ledger of an action that is named and so many others, which have the same payloads."""
    with shelf.open() as rb:
        made = [
            rb.run(shelf.write(page=f"p{n}", text="the same words"), operation=f"op-{n}") for n in range(others + 1)
        ]
    with open_sqlite_store(shelf.path) as store:
        read: list[int] = []
        for name in ("_rows", "_many_rows"):
            answer = getattr(store, name)

            def counted(
                sql: str, values: rows.Row = (), answer: Callable[..., list[rows.Row]] = answer
            ) -> list[rows.Row]:
                found = answer(sql, values)
                read.append(len(found))
                return found

            setattr(store, name, counted)
        assert erase(store, order(made[0].id), NOW_US).actions > 0
        return sum(read)


@pytest.mark.requirement("PRIVACY-bytes-gone")
def test_to_erase_one_action_reads_the_same_rows_however_many_others_there_are(tmp_path: Path) -> None:
    def read(others: int) -> int:
        return _rows_read(
            _shelf(tmp_path / str(others)), others, lambda name: ErasureOrder("acme", "human:dpo", "x", (name,))
        )

    assert read(60) == read(3)


@pytest.mark.requirement("PRIVACY-bytes-gone")
def test_to_erase_them_all_reads_so_many_rows_for_each(tmp_path: Path) -> None:
    def read(others: int) -> int:
        return _rows_read(_shelf(tmp_path / str(others)), others, lambda _: ErasureOrder("acme", "human:dpo", "x"))

    few, many = read(19), read(79)
    assert many <= 4 * few


def _shelf(folder: Path) -> Shelf:
    folder.mkdir()
    book = Book()
    return Shelf(folder, VirtualRuntime(), book, write_of(book))
