"""What was erased is told to be gone where the server says so, and not where nothing says otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from readback.ports.storage.store import Erasure
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.stores.postgres.writing import vacuum
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import sample_append, sample_evidence
from tests.store_postgres.test_sequencing import place, session_on

pytestmark = pytest.mark.requirement("PRIVACY-bytes-gone")
ERASED, KEPT = sample_evidence(b"to be erased"), sample_evidence(b"kept")
OTHER_LANGUAGE = re.compile(r"(\d+) sind tot aber noch nicht entfernbar")


@pytest.fixture
def store(ledger_url: str) -> Iterator[PostgresStore]:
    with open_postgres_store(ledger_url) as opened:
        opened.append([sample_append("a1", evidence=(ERASED, KEPT))])
        place(opened)
        opened.append([sample_append("a1", 1, erases=Erasure((ERASED.digest,)))])
        yield opened


@pytest.mark.parametrize("language", ["its own", "another"])
def test_a_page_that_somebody_has_in_hand_may_hold_it_still(
    store: PostgresStore,
    ledger_server: PostgresPair,
    ledger_url: str,
    monkeypatch: pytest.MonkeyPatch,
    language: str,
) -> None:
    """A VACUUM does not wait for it, and passes it by."""
    if language == "another":
        monkeypatch.setattr(vacuum, "_LEFT", OTHER_LANGUAGE)
    with session_on(ledger_server, ledger_url) as other:
        other.execute("BEGIN")
        other.execute("DECLARE rows CURSOR FOR SELECT digest FROM payload")
        other.execute("FETCH 1 FROM rows")
        assert not store.purge()
    assert store.purge()


def test_a_report_in_another_language_is_made_up_for_by_what_the_server_counts(
    store: PostgresStore, ledger_server: PostgresPair, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum, "_LEFT", OTHER_LANGUAGE)
    assert store.purge()
    with monkeypatch.context() as patch:
        patch.setattr(vacuum, "COUNTS_AT_ONCE", 10**9)
        assert not store.purge(), "what an older server counts may be of before"
    with session_on(ledger_server, ledger_url) as admin:
        admin.execute("ALTER DATABASE postgres SET track_counts = off")
    try:
        assert not store.purge(), "a server that counts nothing says nothing"
    finally:
        with session_on(ledger_server, ledger_url) as admin:
            admin.execute("ALTER DATABASE postgres RESET track_counts")
