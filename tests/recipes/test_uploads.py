"""Uploads to a real S3 server, honest and lying: the object's head, or its bytes, decide."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from readback import Attribution, Context, Discrepancy, Outcome, Reading, Verdict, action
from readback.domain.side_effect import Consistency
from readback.domain.state import State
from readback.domain.verification.reading import Presence
from readback.errors import ArgumentError, NotDispatchedError, ReaderFailedError, ToolError, UsageError
from readback.recipes import UploadAction, measured, verified_upload
from readback.systems import S3Executor, S3Source
from readback.systems.s3.source import CANDIDATES_MAX
from readback.testing.s3_server import Access, S3Server
from tests.recipes.conftest import Desk

BUCKET = "shelf"
PLAIN = "plain-shelf"
Fresh = Callable[[str], str]


class Shop:
    """A bucket with whoever writes and whoever reads."""

    def __init__(self, server: S3Server, bucket: str = BUCKET) -> None:
        self.server = server
        self.folder = Path()
        self.store = S3Executor("store", bucket, **server.access, timeout_s=60, part_bytes=5_242_880, sole=True)
        self.shelf = S3Source("shelf", bucket, **server.access, timeout_s=60)

    def file(self, data: bytes, name: str = "report.txt") -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def upload(self, desk: Desk, key: str, data: bytes, **how: Any) -> Outcome:
        action = verified_upload(self.store, self.shelf, **how)
        with desk.open() as rb:
            return rb.run(action(key=key, **measured(self.file(data))), operation=f"put {key}")

    def action(self, **how: Any) -> UploadAction:
        return verified_upload(self.store, self.shelf, **how)

    def close(self) -> None:
        self.store.close()
        self.shelf.close()


@pytest.fixture(scope="module")
def opened(s3_server: S3Server) -> Iterator[Shop]:
    made = Shop(s3_server)
    yield made
    made.close()


@pytest.fixture
def shop(opened: Shop, s3: S3Server, tmp_path: Path) -> Shop:
    opened.folder = tmp_path
    return opened


def context(stamp: str = "rb-1") -> Context:
    return Context("a", "acme", "agent:desk", "op", "object/x", "key", stamp)


def shown(outcome: Outcome, name: str) -> object:
    return outcome.authoritative.get(name) if isinstance(outcome.authoritative, dict) else None


@pytest.mark.requirement("RECIPE-upload")
@pytest.mark.parametrize("kind", ["create", "set"])
def test_an_object_that_is_there_whole_is_verified_with_its_version(
    shop: Shop, desk: Desk, fresh: Fresh, kind: str
) -> None:
    key = fresh("honest")
    told = shop.upload(desk, key, b"all of it", kind=kind)
    assert told.verified
    assert told.attribution is Attribution.OURS
    assert shown(told, "size") == 9
    assert shown(told, "checksum") == "whole"
    assert shown(told, "version_id")
    assert shop.server.held(BUCKET, key) == b"all of it"


@pytest.mark.requirement("RECIPE-upload")
@pytest.mark.parametrize(
    ("fault", "discrepancy"),
    [
        ("lost", None),
        ("truncated", Discrepancy.VALUE_MISMATCH),
        ("elsewhere", Discrepancy.WRONG_TARGET_MODIFIED),
    ],
)
def test_a_200_for_what_is_not_there_as_asked_for_is_not_believed(
    shop: Shop, desk: Desk, fresh: Fresh, fault: str, discrepancy: Discrepancy | None
) -> None:
    key = fresh(fault)
    shop.server.fault(fault)
    told = shop.upload(desk, key, b"all of it")
    assert not told.verified
    assert "completed" not in told.message.lower()
    assert shop.server.held(BUCKET, key) != b"all of it"
    if discrepancy is not None:
        assert told.discrepancy is discrepancy


@pytest.mark.requirement("RECIPE-upload")
def test_a_store_that_keeps_a_digest_without_checking_it_is_seen_through_by_reading_the_bytes(
    shop: Shop, desk: Desk, fresh: Fresh
) -> None:
    key = fresh("garbled")
    shop.server.fault("garbled")
    told = shop.upload(desk, key, b"forwards", read_bytes=True)
    assert told.verdict is Verdict.REFUTED
    assert told.discrepancy is Discrepancy.VALUE_MISMATCH
    assert shown(told, "checksum") == "read"
    assert shop.server.held(BUCKET, key) == b"sdrawrof"


@pytest.mark.requirement("RECIPE-upload", "L07")
def test_l07_an_upload_whose_reply_was_lost_is_verified_and_not_made_again(
    shop: Shop, desk: Desk, fresh: Fresh
) -> None:
    key = fresh("cut")
    shop.server.fault("landed_unanswered")
    told = shop.upload(desk, key, b"landed")
    assert told.verified
    assert told.observation is not None
    assert not told.observation.claims_success
    assert len(shop.shelf.find(context(told.stamp), key)) == 1


@pytest.mark.requirement("RECIPE-upload")
def test_two_versions_with_one_stamp_are_a_duplicate(shop: Shop, desk: Desk, fresh: Fresh) -> None:
    shop.server.fault("twice")
    told = shop.upload(desk, fresh("twice"), b"once")
    assert not told.verified
    assert told.discrepancy is Discrepancy.DUPLICATE_SIDE_EFFECT


@pytest.mark.requirement("RECIPE-upload")
def test_a_create_leaves_what_is_there_alone(shop: Shop, desk: Desk, fresh: Fresh) -> None:
    key = fresh("taken")
    assert shop.upload(desk, key, b"first").verified
    action = shop.action()
    with desk.open() as rb:
        told = rb.run(action(key=key, **measured(shop.file(b"second", "b.txt"))), operation="again")
    assert not told.verified
    assert shop.server.held(BUCKET, key) == b"first"


@pytest.mark.requirement("RECIPE-upload")
def test_an_object_in_parts_is_verified_by_its_bytes_and_never_by_its_etag(
    shop: Shop, desk: Desk, fresh: Fresh
) -> None:
    key, data = fresh("parts"), b"x" * 5_242_880 + b"the rest"
    told = shop.upload(desk, key, data)
    assert told.verified
    assert shown(told, "checksum") == "read"
    assert shown(told, "size") == len(data)
    assert str(shown(told, "etag")).endswith("-2")
    assert told.observation is not None
    assert isinstance(told.observation.body, dict)
    assert told.observation.body["parts"] == 2


@pytest.mark.requirement("RECIPE-upload")
def test_parts_that_were_never_put_together_are_no_object(shop: Shop, desk: Desk, fresh: Fresh) -> None:
    key, data = fresh("open-parts"), b"x" * 5_242_880 + b"the rest"
    shop.server.fault("lost")
    told = shop.upload(desk, key, data)
    assert not told.verified
    assert shop.server.held(BUCKET, key) is None


@pytest.mark.requirement("RECIPE-upload")
def test_a_file_that_changed_since_it_was_measured_is_not_uploaded(shop: Shop, desk: Desk, fresh: Fresh) -> None:
    key, path = fresh("changed"), shop.file(b"as measured")
    asked = measured(path)
    path.write_bytes(b"as changed.")
    with desk.open() as rb:
        told = rb.run(shop.action()(key=key, **asked), operation="changed")
    assert not told.verified
    assert told.observation is not None
    assert not told.observation.dispatched
    assert shop.server.held(BUCKET, key) is None


@pytest.mark.requirement("RECIPE-upload", "L26")
@pytest.mark.parametrize("fault", ["down", "refused"])
def test_l26_a_store_that_shows_nothing_is_not_believed_to_hold_nothing(shop: Shop, fresh: Fresh, fault: str) -> None:
    shop.server.fault(fault)
    seen = shop.shelf.head(context(), fresh("hidden"))
    assert seen.presence is (Presence.UNAVAILABLE if fault == "down" else Presence.NOT_VISIBLE)
    with pytest.raises(ReaderFailedError):
        shop.shelf.find(context(), "hidden")
    with pytest.raises(ReaderFailedError):
        shop.shelf.ping()


@pytest.mark.requirement("RECIPE-upload")
def test_absence_is_believed_where_the_bucket_is_shown_and_not_else(s3: S3Server, fresh: Fresh) -> None:
    with S3Source("shelf", BUCKET, **s3.access) as shelf, S3Source("gone", fresh("gone"), **s3.access) as gone:
        shelf.ping()
        assert shelf.head(context(), fresh("nothing")).presence is Presence.ABSENT
        assert gone.head(context(), "nothing").presence is Presence.NOT_VISIBLE


@pytest.mark.requirement("RECIPE-upload")
def test_a_crowded_prefix_hides_no_version_of_the_key_itself(shop: Shop, desk: Desk, fresh: Fresh) -> None:
    key = fresh("crowd")
    for number in range(CANDIDATES_MAX + 1):
        shop.server.put(BUCKET, f"{key}-{number:03}", b".")
    assert shop.upload(desk, key, b"mine").verified
    with pytest.raises(ReaderFailedError):
        shop.shelf.find(context(), f"{key}-")
    for _ in range(CANDIDATES_MAX + 1):
        shop.server.put(BUCKET, key, b".")
    with pytest.raises(ReaderFailedError):
        shop.shelf.find(context(), key)


def test_an_upload_that_was_refused_says_so_and_is_read_back(shop: Shop, desk: Desk, fresh: Fresh) -> None:
    store = S3Executor("store", fresh("nowhere"), **shop.server.access, timeout_s=60)
    with desk.open() as rb:
        key = fresh("refused")
        told = rb.run(verified_upload(store, shop.shelf)(key=key, **measured(shop.file(b"."))), operation="r")
    store.close()
    assert not told.verified
    assert told.observation is not None
    assert told.observation.detail


@pytest.mark.parametrize("key", ["", "/a", "a/../b", "x" * 1_025])
def test_a_key_that_leads_elsewhere_is_refused(shop: Shop, key: str) -> None:
    with pytest.raises(ArgumentError):
        shop.store.put(context(), key, shop.file(b"."), sha256="0" * 64)


def test_what_cannot_be_sent_provably_was_not(shop: Shop, s3: S3Server) -> None:
    nobody = Access(**{**s3.access, "endpoint": "http://127.0.0.1:9"})
    with (
        S3Executor("store", BUCKET, **nobody, timeout_s=1, sole=True) as store,
        S3Source("shelf", BUCKET, **nobody, timeout_s=1) as shelf,
    ):
        path = shop.file(b".")
        with pytest.raises(NotDispatchedError):
            store.put(context(), "key", path, sha256=measured(path)["sha256"])
        with pytest.raises(NotDispatchedError):
            store.put(context(), "key", shop.folder / "missing", sha256="0" * 64)
        assert shelf.head(context(), "key").presence is Presence.UNAVAILABLE
    with pytest.raises(UsageError):
        S3Executor("store", BUCKET, part_bytes=1)
    with pytest.raises(UsageError):
        shop.store.put(context(), "key", path, sha256="0" * 64, metadata={"Readback-Stamp": "another"})


def test_a_verified_upload_is_settled_in_its_state(shop: Shop, desk: Desk, fresh: Fresh) -> None:
    assert shop.upload(desk, fresh("state"), b".").state is State.RECONCILED_SUCCESS


@pytest.mark.requirement("RECIPE-upload")
def test_a_version_from_before_versioning_is_looked_at_as_itself(s3: S3Server, fresh: Fresh, tmp_path: Path) -> None:
    """Without a name of its own it was read as the newest: one upload over it was found twice."""
    bucket, key, ours = fresh("unversioned"), "report", tmp_path / "ours"
    ours.write_bytes(b"ours")
    s3.bucket(bucket)
    s3.put(bucket, key, b"older")
    s3.begin_versions(bucket)
    with S3Executor("store", bucket, **s3.access) as store, S3Source("shelf", bucket, **s3.access) as shelf:
        store.put(context("rb-2"), key, ours, sha256=sha256(b"ours").hexdigest())
        found = shelf.find(context("rb-2"), key)
        assert [each.value["size"] for each in found if isinstance(each.value, dict)] == [4]
        s3.put(bucket, key, b"a third one's")
        assert len(shelf.find(context("rb-2"), key)) == 1


@pytest.mark.requirement("RECIPE-upload")
def test_what_was_put_before_versioning_is_found_behind_what_came_after_it(
    s3: S3Server, fresh: Fresh, tmp_path: Path
) -> None:
    bucket, key, ours = fresh("unversioned"), "report", tmp_path / "ours"
    ours.write_bytes(b"ours")
    s3.bucket(bucket)
    with S3Executor("store", bucket, **s3.access) as store, S3Source("shelf", bucket, **s3.access) as shelf:
        store.put(context("rb-3"), key, ours, sha256=sha256(b"ours").hexdigest())
        assert len(shelf.find(context("rb-3"), key)) == 1
        s3.begin_versions(bucket)
        s3.put(bucket, key, b"a third one's")
        found = shelf.find(context("rb-3"), key)
        assert [each.value["sha256"] for each in found if isinstance(each.value, dict)] == [sha256(b"ours").hexdigest()]


@pytest.mark.requirement("RECIPE-upload")
def test_a_bucket_that_is_replicated_into_cannot_say_that_nothing_is_there(s3: S3Server, fresh: Fresh) -> None:
    with S3Source("far", BUCKET, **s3.access, consistency="replica") as far:
        assert far.head(context(), fresh("nothing")).consistency is Consistency.REPLICA
        with pytest.raises(ReaderFailedError, match="empty search proves nothing"):
            far.find(context(), fresh("nothing"))


class Kept(S3Server):
    """A server behind a proxy that puts headers of its own into each answer to what the word of a test names."""

    def __init__(self) -> None:
        super().__init__(PLAIN, versioned=False)
        self.adds: tuple[str, str] | None = None
        self.to: Callable[[dict[str, Any]], bool] = lambda _: True

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        def begun(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            added = [self.adds] if self.adds is not None and self.to(environ) else []
            return start(status, [*headers, *added], *more)

        return super()._answer(environ, begun)


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    with Kept() as server:
        yield server


def asks_for_bytes(environ: dict[str, Any]) -> bool:
    return environ["REQUEST_METHOD"] == "GET" and "versions" not in environ["QUERY_STRING"]


@pytest.mark.requirement("RECIPE-upload", "HS-07")
def test_what_a_cache_had_kept_of_a_bucket_is_read_as_that_and_proves_nothing(kept: Kept, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.write_bytes(b"ours")
    kept.adds = None
    with S3Executor("store", PLAIN, **kept.access) as store, S3Source("shelf", PLAIN, **kept.access) as shelf:
        store.put(context("rb-4"), "report", ours, sha256=sha256(b"ours").hexdigest())
        kept.adds, kept.to = ("Age", "30"), lambda _: True
        assert shelf.head(context("rb-4"), "report").consistency is Consistency.CACHED
        with pytest.raises(ReaderFailedError, match="cache"):
            shelf.find(context("rb-4"), "report")
        assert shelf.head(context("rb-4"), "nothing").presence is Presence.NOT_VISIBLE
        kept.to = lambda environ: environ["PATH_INFO"].endswith("nothing")
        assert shelf.head(context("rb-4"), "nothing").consistency is Consistency.CACHED
        kept.to = lambda environ: environ["PATH_INFO"].endswith("report")
        with pytest.raises(ReaderFailedError, match="cache"):
            shelf.find(context("rb-4"), "report")
        kept.to = asks_for_bytes
        assert shelf.head(context("rb-4"), "report", read_bytes=True).presence is Presence.UNAVAILABLE
        kept.adds = ("Age", "0")
        assert shelf.head(context("rb-4"), "report", read_bytes=True).consistency is None


@pytest.mark.requirement("RECIPE-upload")
def test_where_versions_are_suspended_each_write_has_a_version_of_its_own(kept: Kept, tmp_path: Path) -> None:
    kept.adds, kept.to = ("x-amz-version-id", "null"), lambda _: True
    seen = []
    with S3Executor("store", PLAIN, **kept.access) as store, S3Source("shelf", PLAIN, **kept.access) as shelf:
        for content in (b"one", b"another"):
            (tmp_path / "ours").write_bytes(content)
            store.put(context(), "suspended", tmp_path / "ours", sha256=sha256(content).hexdigest())
            seen.append(shelf.head(context(), "suspended").version)
    assert len(set(seen)) == 2


@pytest.mark.requirement("RECIPE-upload")
def test_bytes_of_another_object_than_the_head_was_of_are_not_hashed_for_it(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "ours").write_bytes(b"ours")
    kept.adds, kept.to = ("x-amz-version-id", "another"), asks_for_bytes
    with S3Executor("store", PLAIN, **kept.access) as store, S3Source("shelf", PLAIN, **kept.access) as shelf:
        store.put(context(), "replaced", tmp_path / "ours", sha256=sha256(b"ours").hexdigest())
        assert shelf.head(context(), "replaced", read_bytes=True).presence is Presence.UNAVAILABLE


def test_what_cannot_be_made_a_request_is_refused_or_provably_was_not_sent(shop: Shop, s3: S3Server) -> None:
    path = shop.file(b".")
    put: dict[str, Any] = {"file": path, "sha256": sha256(b".").hexdigest()}
    for odd in ({"note": "für dich"}, {"note": "a\r\nb"}):
        with pytest.raises(ArgumentError):
            shop.store.put(context(), "key", **put, metadata=odd)
    with pytest.raises(ArgumentError):
        shop.store.put(context(), "\ud800", **put)
    with S3Executor("store", "no bucket", **s3.access, sole=True) as store, pytest.raises(NotDispatchedError):
        store.put(context(), "key", **put)
    with S3Executor("store", "no bucket", **s3.access) as store, pytest.raises(ToolError) as caught:
        store.put(context(), "key", **put)
    assert caught.value.code == "tool.unreachable"


def test_what_is_no_plain_file_is_not_waited_for_and_not_uploaded(shop: Shop, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(NotDispatchedError):
            shop.store.put(context(), "key", odd, sha256="0" * 64)


@pytest.mark.requirement("RECIPE-upload", "S3-versions")
def test_what_a_deletion_leaves_of_an_object_is_shown_version_by_version(s3: S3Server, fresh: Fresh) -> None:
    key = fresh("kept")

    def kept(source: S3Source) -> dict[str, Any]:
        shown: Any = source.versions(context(), key).value
        assert isinstance(shown, dict)
        return shown

    with S3Source("store", BUCKET, **s3.access) as source:
        assert source.versions(context(), key).presence is Presence.ABSENT
        s3.put(BUCKET, key, b"one")
        s3.put(BUCKET, key, b"second")
        s3.put(BUCKET, key + "-other", b"other")
        two = kept(source)
        assert (two["deleted"], two["markers"]) == (False, [])
        assert [(each["latest"], each["size"]) for each in two["versions"]] == [(True, 6), (False, 3)]
        s3.remove(BUCKET, key)
        assert source.head(context(), key).presence is Presence.ABSENT
        gone = kept(source)
        assert (gone["deleted"], len(gone["markers"]), len(gone["versions"])) == (True, 1, 2)
        s3.put(BUCKET, key, b"again")
        assert (kept(source)["deleted"], len(kept(source)["versions"])) == (False, 3)
    with S3Source("store", "no-such-bucket", **s3.access) as nowhere:
        assert nowhere.versions(context(), key).presence is Presence.NOT_VISIBLE


@pytest.mark.requirement("S3-versions")
def test_a_deletion_for_good_is_verified_where_no_version_is_left_and_a_marker_alone_is_not(
    s3: S3Server, desk: Desk, fresh: Fresh
) -> None:
    with S3Source("store", BUCKET, **s3.access) as source:

        @action(
            kind="delete", side_effect="low_risk_internal", target="object/{requested.key}", within="200ms",
            identity={"target": "authoritative.key", "tenant": "not_offered"}, ensure={"gone": "authoritative == null"},
        )  # fmt: skip
        def purge(ctx: Context, key: str, whole: bool) -> object:
            client = s3._own
            for each in client.list_object_versions(Bucket=BUCKET, Prefix=key).get("Versions", []) if whole else [{}]:
                named = {"VersionId": each["VersionId"]} if each else {}
                client.delete_object(Bucket=BUCKET, Key=key, **named)
            return {"status": "ok"}

        @purge.read(source="store", consistency="strong", independence="other_client")
        def left(ctx: Context, key: str, whole: bool) -> Reading:
            return source.versions(ctx, key)

        with desk.open() as rb:
            for whole in (True, False):
                key = fresh("purged")
                s3.put(BUCKET, key, b"one")
                assert rb.run(purge(key=key, whole=whole), operation=key).verified is whole


@pytest.mark.requirement("RECIPE-upload")
@pytest.mark.parametrize("between", ["another version", "a deletion"])
def test_a_search_that_lost_a_listed_version_to_a_change_says_nothing(
    s3: S3Server, fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    """An object from before versioning is read by no name; what takes its place between the list and the look hides
    the object, which the bucket still holds.
    """
    bucket, key, ours = fresh("raced"), "report", tmp_path / "ours"
    ours.write_bytes(b"ours")
    s3.bucket(bucket)
    with S3Executor("store", bucket, **s3.access) as store, S3Source("shelf", bucket, **s3.access) as shelf:
        store.put(context("rb-5"), key, ours, sha256=sha256(b"ours").hexdigest())
        s3.begin_versions(bucket)
        asked = shelf._asked

        def raced(what: str, **named: Any) -> Mapping[str, Any]:
            said = asked(what, **named)
            if what == "list_object_versions":
                s3.put(bucket, key, b"other") if between == "another version" else s3.remove(bucket, key)
            return said

        monkeypatch.setattr(shelf, "_asked", raced)
        with pytest.raises(ReaderFailedError, match="changed under 'report' during the search"):
            shelf.find(context("rb-5"), key)
        monkeypatch.setattr(shelf, "_asked", asked)
        assert len(shelf.find(context("rb-5"), key)) == 1


@pytest.mark.requirement("RECIPE-upload")
def test_a_folder_s_mark_does_not_stand_for_the_rest_of_a_crowded_folder(
    s3: S3Server, fresh: Fresh, tmp_path: Path
) -> None:
    """An empty object `in/` comes first of all in the folder; with another page the search is not a whole one."""
    bucket, ours = fresh("folder"), tmp_path / "ours"
    ours.write_bytes(b"ours")
    s3.bucket(bucket)
    s3.put(bucket, "in/", b"")
    for number in range(CANDIDATES_MAX):
        s3.put(bucket, f"in/{number:03}", b".")
    with S3Executor("store", bucket, **s3.access) as store, S3Source("shelf", bucket, **s3.access) as shelf:
        store.put(context("rb-6"), "in/elsewhere", ours, sha256=sha256(b"ours").hexdigest())
        with pytest.raises(ReaderFailedError, match=f"over {CANDIDATES_MAX} versions under 'in/'"):
            shelf.find(context("rb-6"), "in/")
        assert shelf.find(context("rb-6"), "in/", own_of_many=True) == []
