"""Group commit of the store on PostgreSQL: transactions that threads share."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from readback.errors import StoreError
from readback.ports.storage.store import Appended, AppendResult
from readback.stores.postgres import open_postgres_store
from readback.stores.postgres.writing import write_cache
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import sample_creation, sample_evidence

THREADS = 32
EACH = 5


@pytest.mark.slow
def test_threads_share_transactions_and_one_bad_value_is_its_own_fault(
    ledger_url: str, ledger_server: PostgresPair
) -> None:
    answers: dict[str, AppendResult | str] = {}
    begin = threading.Barrier(THREADS)

    def work(place: int) -> None:
        begin.wait()
        for number in range(EACH):
            name = f"a{place:02}-{number}"
            item = sample_creation(name)
            if number == 2 and place % 4 == 0:
                item = replace(item, projection=replace(item.projection, target="\ud800"))
            try:
                [answers[name]] = store.append([item])
            except StoreError as error:
                answers[name] = error.code

    with open_postgres_store(ledger_url) as store:
        threads = [threading.Thread(target=work, args=(place,)) for place in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = {name for name, answer in answers.items() if answer == Appended(1, 0)}
        assert {name for name in answers if answers[name] == "store.value"} == answers.keys() - kept
        assert len(kept) == THREADS * EACH - THREADS // 4
        assert {stored.projection.action_id for stored in store.projections()} == kept
    schema = ledger_url.rpartition("schema=")[2]
    (transactions,) = ledger_server.run(f"select count(distinct xid) from {schema}.event")
    assert transactions < len(kept), "some shared one"


def test_what_is_remembered_of_contracts_does_not_grow_with_the_tenants(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_cache, "KNOWN_CONTRACTS_MAX", 4)
    contract = sample_evidence(b"ship_order 1.0.0")
    with open_postgres_store(ledger_url) as store:
        assert store._writer is not None
        for number in range(12):
            item = sample_creation(f"a{number:02}")
            held = replace(item.projection, tenant=f"tenant-{number}")
            reserve = replace(item.reserve, tenant=held.tenant) if item.reserve is not None else None
            new = replace(item, tenant=held.tenant, projection=held, reserve=reserve, evidence=(contract,))
            assert store.append([new]) == [Appended(1, 0)]
            assert len(store._writer._known.contracts) <= 5
            assert store.evidence(held.tenant, item.action_id, contract.digest) == contract
