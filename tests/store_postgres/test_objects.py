"""Large evidence in object storage: there before the row, checked when it is read, gone when it is erased."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readback.errors import SettingsError, StoreCorruptError, StoreError, UsageError
from readback.ports.storage.store import Appended, Erasure, Evidence
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.stores.postgres.blob_store import Objects
from readback.stores.postgres.connection.connect import address_of
from readback.testing.postgres_server import PostgresPair
from readback.testing.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from readback.testing.store_samples import TENANT, sample_append, sample_evidence
from tests.store_postgres.test_sequencing import place, session_on

pytestmark = pytest.mark.slow
OVER = 1_000
LARGE = sample_evidence(b"ana-" * 1_000)
SMALL = sample_evidence(b"bob")


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with S3Server("evidence") as server:
        yield server


@pytest.fixture(params=["file", "memory", "s3"])
def base(request: pytest.FixtureRequest, tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where objects are kept: on a disk, in memory, on an S3 server."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.access["endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    name = tmp_path.name
    return {"file": f"file://{tmp_path}/evidence", "memory": f"memory://{name}", "s3": f"s3://evidence/{name}"}[
        str(request.param)
    ]


@pytest.fixture
def url(ledger_url: str, base: str) -> str:
    return f"{ledger_url}&objects={base}&objects_over={OVER}"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with open_postgres_store(url) as opened:
        yield opened


def where(store: PostgresStore, item: Evidence) -> str:
    return store._objects.place_of(bytes.fromhex(item.digest), TENANT)


@pytest.mark.requirement("PLACE-objects")
def test_large_evidence_stands_outside_and_is_read_as_it_was(
    store: PostgresStore, ledger_server: PostgresPair, ledger_url: str
) -> None:
    store.append([sample_append("a1", evidence=(LARGE, SMALL))])
    assert store.evidence(TENANT, "a1", LARGE.digest) == LARGE
    assert store.evidence(TENANT, "a1", SMALL.digest) == SMALL
    assert store.evidence("other", "a1", LARGE.digest) is None
    assert store._objects.read(where(store, LARGE)) == LARGE.body
    assert store._objects.read(where(store, SMALL)) is None
    with session_on(ledger_server, ledger_url) as session:
        rows = session.execute("SELECT length(body), object <> '', outside FROM payload ORDER BY outside").fetchall()
    assert rows == [(3, False, 0), (0, True, len(LARGE.body))]
    assert store.evidence_bytes(TENANT) == len(LARGE.body) + len(SMALL.body)
    assert store.bodies(TENANT, [("a1", LARGE.digest), ("a1", SMALL.digest)]) == {
        ("a1", SMALL.digest): (SMALL.media, SMALL.body)
    }
    with open_postgres_store(ledger_url, read_only=True) as other:
        assert other.evidence(TENANT, "a1", LARGE.digest) == LARGE, "the row says where, whatever the address says"


@pytest.mark.requirement("PLACE-objects", "PRIVACY-bytes-gone")
def test_erased_evidence_leaves_no_object(store: PostgresStore) -> None:
    store.append([sample_append("a1", evidence=(LARGE,))])
    theirs = sample_append("b1", evidence=(LARGE,))
    store.append([replace(theirs, tenant="other", projection=replace(theirs.projection, tenant="other"))])
    place(store)
    store.append([sample_append("a1", 1, erases=Erasure((LARGE.digest,)))])
    assert store.evidence(TENANT, "a1", LARGE.digest) is None
    assert store.erased(TENANT, "a1", LARGE.digest)
    assert store.purge()
    assert store._objects.read(where(store, LARGE)) is None
    assert store.purge(), "nothing is left to remove"
    assert store.evidence("other", "b1", LARGE.digest) == LARGE, "another tenant's is another object"


@pytest.mark.requirement("PLACE-objects", "PRIVACY-bytes-gone")
@pytest.mark.parametrize("purged", [True, False])
def test_erased_evidence_that_is_recorded_again_has_its_object_again(store: PostgresStore, purged: bool) -> None:
    store.append([sample_append("a1", evidence=(LARGE,))])
    place(store)
    store.append([sample_append("a1", 1, erases=Erasure((LARGE.digest,)))])
    if purged:
        store.purge()
    store.append([sample_append("a2", evidence=(LARGE,))])
    assert store.evidence(TENANT, "a2", LARGE.digest) == LARGE
    assert store.purge()
    assert store.evidence(TENANT, "a2", LARGE.digest) == LARGE
    store.append([sample_append("a2", 1, erases=Erasure((LARGE.digest,)))])
    assert store.purge()
    assert store._objects.read(where(store, LARGE)) is None, "it goes with the last of those that have it"


@pytest.mark.requirement("PLACE-objects")
def test_an_object_that_is_removed_between_its_check_and_the_append_is_put_again(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([sample_append("a1", evidence=(LARGE,))])
    place(store)
    store.append([sample_append("a1", 1, erases=Erasure((LARGE.digest,)))])
    keep = store._objects.keep

    def then_somebody_purges(batch: Any) -> Any:
        found = keep(batch)
        with open_postgres_store(url) as other:
            other.purge()
        return found

    monkeypatch.setattr(store._objects, "keep", then_somebody_purges)
    assert store.append([sample_append("a2", evidence=(LARGE,))]) == [Appended(1, 0)]
    assert store.evidence(TENANT, "a2", LARGE.digest) == LARGE


@pytest.mark.requirement("PLACE-objects", "LEDGER-leaf-hash")
def test_an_object_that_is_missing_or_of_other_bytes_is_never_taken_for_evidence(store: PostgresStore) -> None:
    store.append([sample_append("a1", evidence=(LARGE,))])
    files, path = store._objects._files(where(store, LARGE)), where(store, LARGE).partition("://")[2]
    files.put(path, LARGE.body[:-1] + b"!")
    with pytest.raises(StoreCorruptError, match="other bytes than its digest"):
        store.evidence(TENANT, "a1", LARGE.digest)
    files.drop(path)
    with pytest.raises(StoreCorruptError, match="is not at"):
        store.evidence(TENANT, "a1", LARGE.digest)


@pytest.mark.requirement("PLACE-objects")
def test_where_the_object_cannot_be_put_nothing_is_appended(ledger_url: str, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("no folder")
    with open_postgres_store(f"{ledger_url}&objects=file://{tmp_path}/blocked&objects_over={OVER}") as store:
        with pytest.raises(StoreError) as refused:
            store.append([sample_append("a1", evidence=(LARGE,))])
        assert refused.value.code == "store.objects"
        assert store.projection("a1") is None
        assert store.append([sample_append("a1", evidence=(SMALL,))]) == [Appended(1, 0)]


def test_an_address_says_where_and_from_what_size_on() -> None:
    found = address_of("postgresql:///db?schema=x&objects=s3://bucket/prefix&objects_over=5&connect_timeout=3")
    assert (found.objects, found.objects_over, found.schema) == ("s3://bucket/prefix", 5, "x")
    assert "objects" not in found.url
    assert "connect_timeout=3" in found.url
    with pytest.raises(UsageError, match="not a number of bytes"):
        address_of("postgresql:///db?objects_over=many")


def test_a_scheme_that_nothing_serves_is_refused_when_the_store_is_opened() -> None:
    for base in ("nowhere://x", "folder/evidence"):
        with pytest.raises(SettingsError, match="is not installed"):
            Objects(base, OVER)
