"""The fold: continued at any place, forgotten and made again, it gives the counts of one whole pass."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readback.audit.feedback import fold as folding
from readback.audit.feedback import tally
from readback.audit.feedback.fold import Fold, FoldState, feedback_of
from readback.audit.feedback.tally import OTHER, Feedback, merged
from readback.canon.envelopes import plain_bytes, plain_value
from readback.domain.state import State
from readback.errors import CheckpointDamagedError, MetricsLabelError, StoreCorruptError
from readback.ports.storage.store import LedgerStore, StoredEvent
from readback.stores.postgres import open_postgres_store
from readback.telemetry import fold_checkpoint
from readback.telemetry.fold_reader import LedgerMetrics
from tests.lifecycle.test_feedback import STORIES, told
from tests.telemetry.history import NOW_US, START_US, History, S, ledger, nineteen


class Entries(list[StoredEvent]):
    """Entries with a short name, for the reports of hypothesis."""

    def __repr__(self) -> str:
        return f"<{len(self)} entries>"


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[StoredEvent]:
    """Entries of hand-made actions, interleaved: the first entry of each action, then the second of each, and so on."""
    history = nineteen()
    history.appends.sort(key=lambda append: append.expected_version)
    store = ledger(tmp_path_factory.mktemp("fold"), history)
    found = Entries(store.scan())
    store.close()
    return found


def real_entries() -> list[StoredEvent]:
    """Entries of the engine itself, under every story of the feedback's tests."""
    found: list[StoredEvent] = []
    for story, _ in STORIES.values():
        found += told(story)[0].store.scan()
    return found


def history_of(entries: list[StoredEvent]) -> Callable[[str], list[StoredEvent]]:
    return lambda action_id: [one for one in entries if one.action_id == action_id]


def plain(feedback: Feedback) -> object:
    return json.loads(plain_bytes(feedback))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 237), max_size=6), kept=st.integers(0, 8))
def test_any_division_with_any_memory_gives_the_counts_of_one_pass(
    cuts: list[int], kept: int, entries: list[StoredEvent]
) -> None:
    """Between the parts the fold passes through its checkpoint, and settled actions are forgotten almost at once."""
    whole = feedback_of(entries)
    usual, folding.RECENT_MAX = folding.RECENT_MAX, kept
    try:
        state, done = FoldState(), 0
        for cut in [*sorted(cuts), len(entries)]:
            fold = Fold(history=history_of(entries), state=state)
            fold.take(entries[done:cut])
            state, done = plain_value(plain_bytes(fold.state()), FoldState), max(done, cut)
    finally:
        folding.RECENT_MAX = usual
    assert plain(state.feedback) == plain(whole)
    assert state.position == entries[-1].seq


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_entries_of_the_engine_give_the_same_counts_one_at_a_time(name: str) -> None:
    house, whole = told(STORIES[name][0])
    entries = [*house.store.scan()]
    state = FoldState()
    for entry in entries:
        fold = Fold(history=house.store.events, state=plain_value(plain_bytes(state), FoldState))
        fold.take([entry])
        state = fold.state()
    assert plain(state.feedback) == plain(whole)


def test_the_counts_of_groups_add_up_to_the_counts_of_the_whole(entries: list[StoredEvent]) -> None:
    pays = [cell for cell in feedback_of(entries).cells if cell.contract in ("pay", "mail")]
    both = merged(pays)
    assert both.executed == sum(cell.executed for cell in pays) == 53
    assert both.verdict_after.count == sum(cell.verdict_after.count for cell in pays)
    assert sum(both.verdict_after.bounds) == both.verdict_after.count


def test_an_unreadable_entry_stops_the_fold_in_front_of_it(entries: list[StoredEvent]) -> None:
    bad = StoredEvent(4, entries[3].action_id, 1, "proposed", 0, b'{"kind": 7}', b"")
    fold = Fold()
    with pytest.raises(StoreCorruptError, match="Entry 4"):
        fold.take([*entries[:3], bad])
    assert fold.position == entries[2].seq


def test_contracts_over_the_limit_share_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "CELLS_MAX", 3)
    history = History()
    for number in range(6):
        history.action(f"c{number}", number).done(number)
    feedback = feedback_of(ledger(tmp_path, history).scan())
    assert [cell.contract for cell in feedback.cells] == ["c0", "c1", "c2", OTHER]
    assert feedback.cells[-1].verified == 3


def test_names_over_the_limit_share_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "NAMES_MAX", 2)
    counted: dict[str, int] = {}
    for name in ("a", "b", "c", "d", "a"):
        tally.add_to(counted, name)
    assert counted == {"a": 2, "b": 1, OTHER: 2}


def test_versions_over_the_limit_share_one_record(tmp_path: Path) -> None:
    history = History()
    for number in range(tally.VERSIONS_MAX + 4):
        history.action("pay", number, version=str(number)).done(number)
    (cell,) = feedback_of(ledger(tmp_path, history).scan()).cells
    assert len(cell.versions) == tally.VERSIONS_MAX
    assert sum(one.judged for one in cell.versions) == cell.verified == tally.VERSIONS_MAX + 4
    assert cell.versions[-1].version.startswith(f"{tally.VERSIONS_MAX + 3}-")


# --- tenants ---


@pytest.mark.requirement("TENANT-invisible")
def test_the_tenant_is_a_label_only_on_request(tmp_path: Path) -> None:
    history = History()
    history.action("pay", 0, tenant="acme").done(0)
    history.action("pay", 1, tenant="globex").done(1)
    store = ledger(tmp_path, history)
    (both,) = LedgerMetrics(store, lambda: NOW_US).refresh().feedback.cells
    assert (both.tenant, both.verified) == ("", 2)
    (one,) = LedgerMetrics(store, lambda: NOW_US, tenants=["acme"]).refresh().feedback.cells
    assert (one.tenant, one.verified) == ("", 1)
    named = LedgerMetrics(store, lambda: NOW_US, by_tenant=True)
    assert {cell.tenant: cell.verified for cell in named.refresh().feedback.cells} == {"acme": 1, "globex": 1}
    labels = {labels.get("tenant") for family in named.families()[:1] for labels, _ in family.samples}
    assert labels == {"acme", "globex"}


# --- the checkpoint ---


def metrics_at(store: LedgerStore, path: Path) -> LedgerMetrics:
    return LedgerMetrics(store, lambda: NOW_US, checkpoint=path)


def counted_reads(store: LedgerStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions from which the ledger is read."""
    asked: list[int] = []
    scan = store.scan

    def noted(after_seq: int = 0) -> object:
        asked.append(after_seq)
        return scan(after_seq)

    monkeypatch.setattr(store, "scan", noted)
    return asked


def test_a_new_process_folds_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history, path = nineteen(), tmp_path / "kept.json"
    store = ledger(tmp_path, history)
    first = metrics_at(store, path)
    whole = first.refresh().position
    first.save(now=True)
    before = len(history.appends)
    history.action("pay", 300).done(300)
    history.write(store, before)
    asked = counted_reads(store, monkeypatch)
    second = metrics_at(store, path)
    fold = second.refresh()
    assert fold.position == whole + 5
    assert asked[-1] == whole, "the last read begins at the checkpoint"
    assert plain(fold.feedback) == plain(feedback_of(store.scan()))
    assert path.stat().st_mode & 0o077 == 0


def test_a_checkpoint_of_another_ledger_is_left_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "kept.json"
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    first = metrics_at(ledger(one, nineteen()), path)
    first.refresh()
    first.save(now=True)
    history = History()
    history.action("other", 0).done(0)
    fold = metrics_at(ledger(other, history), path).refresh()
    assert [cell.contract for cell in fold.feedback.cells] == ["other"]
    assert caplog.records == []


def test_a_checkpoint_of_a_ledger_that_lost_entries_is_left_aside(tmp_path: Path) -> None:
    """A restored backup has the same beginning, and other entries at the place of the checkpoint."""
    path, long, short = tmp_path / "kept.json", tmp_path / "long", tmp_path / "short"
    long.mkdir()
    short.mkdir()
    history = nineteen()
    first = metrics_at(ledger(long, history), path)
    first.refresh()
    first.save(now=True)
    kept = History(history.appends[:40])
    store = ledger(short, kept)
    fold = metrics_at(store, path).refresh()
    assert fold.position == 40
    assert plain(fold.feedback) == plain(feedback_of(store.scan()))


def test_a_checkpoint_of_other_tenants_is_left_aside(tmp_path: Path) -> None:
    path, store = tmp_path / "kept.json", ledger(tmp_path, nineteen())
    first = metrics_at(store, path)
    first.refresh()
    first.save(now=True)
    assert fold_checkpoint.load(path, store, (), by_tenant=False) is not None
    assert fold_checkpoint.load(path, store, ("acme",), by_tenant=False) is None
    assert fold_checkpoint.load(path, store, (), by_tenant=True) is None


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "folder", "text"])
def test_a_damaged_checkpoint_is_thrown_away_with_one_warning(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, store = tmp_path / "kept.json", ledger(tmp_path, nineteen())
    first = metrics_at(store, path)
    whole = plain(first.refresh().feedback)
    first.save(now=True)
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[:-100])
        case "flipped":
            path.write_bytes(data.replace(b'"verified":5', b'"verified":9'))
        case "empty":
            path.write_bytes(b"")
        case "folder":
            path.unlink()
            path.mkdir()
        case "text":
            path.write_bytes(b"hello\nworld")
    with caplog.at_level(logging.WARNING, "readback.metrics"):
        second = metrics_at(store, path)
        assert plain(second.refresh().feedback) == whole
        second.refresh()
    (record,) = caplog.records
    assert record.readback_code == "metrics.checkpoint"  # type: ignore[attr-defined]


def test_a_checkpoint_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    reader = metrics_at(ledger(tmp_path, nineteen()), tmp_path / "file" / "kept.json")
    with caplog.at_level(logging.WARNING, "readback.metrics"):
        reader.refresh()
        reader.save(now=True)
        reader.save(now=True)
    assert len(caplog.records) == 1
    assert reader.families()


def test_the_path_of_a_checkpoint_stands_beside_a_file_and_apart_by_tenants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = ledger(tmp_path, nineteen())
    url = f"sqlite:///{tmp_path}/ledger.db"
    plain_path = fold_checkpoint.path_of(url, store, (), by_tenant=False)
    assert plain_path == tmp_path / "ledger.db.metrics.json"
    others = {
        fold_checkpoint.path_of(url, store, t, by_tenant=b) for t, b in ((["a"], False), (["b"], False), ([], True))
    }
    assert len({plain_path, *others}) == 4

    class Served:
        """A store without a file."""

    apart = fold_checkpoint.path_of("postgresql://u:secret@h/d", Served(), (), by_tenant=False)  # type: ignore[arg-type]
    assert apart is not None
    assert apart.parent == tmp_path / "cache" / "readback"
    assert "secret" not in str(apart)
    assert fold_checkpoint.path_of("memory:", Served(), (), by_tenant=False) is None  # type: ignore[arg-type]


def test_a_checkpoint_error_has_a_code_and_a_next_step() -> None:
    error = CheckpointDamagedError("x")
    assert (error.code, bool(error.remedy)) == ("metrics.checkpoint", True)


# --- labels ---


@pytest.mark.parametrize(
    "labels",
    [
        {"contract": "x"},
        {"tenant": "x"},
        {"le": "1"},
        {"1a": "x"},
        {"__a": "x"},
        {"a": ""},
        {"a": "x\n"},
        {"a": "x" * 129},
    ],
)
def test_a_wrong_label_is_refused_before_anything_is_read(labels: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(MetricsLabelError) as caught:
        LedgerMetrics(ledger(tmp_path, History()), lambda: NOW_US, labels=labels)
    assert caught.value.code == "metrics.label"
    assert caught.value.remedy


def test_too_many_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MetricsLabelError):
        LedgerMetrics(ledger(tmp_path, History()), lambda: NOW_US, labels={f"l{n}": "x" for n in range(17)})


def test_waiting_actions_are_known_with_the_time_of_their_last_change(tmp_path: Path) -> None:
    fold = LedgerMetrics(ledger(tmp_path, nineteen()), lambda: NOW_US).refresh()
    states = sorted((one.state, (one.since_us - START_US) // S) for one in fold.waiting.values())
    assert states == [(State.REVIEW_REQUIRED, 36), (State.REVIEW_REQUIRED, 62), (State.UNKNOWN, 50)]
    assert len(fold.pending()) == 2


@pytest.mark.slow
def test_a_ledger_on_postgresql_gives_the_same_counts_and_continues_from_its_checkpoint(
    ledger_url: str, tmp_path: Path
) -> None:
    history, path = nineteen(), tmp_path / "kept.json"
    store = open_postgres_store(ledger_url)
    try:
        history.write(store)
        first = metrics_at(store, path)
        assert first.refresh().feedback.entries == 0, "an entry counts once its position is assigned"
        while store.assign_sequence_numbers(1_000):
            pass
        whole = first.refresh()
        assert plain(whole.feedback) == plain(feedback_of(ledger(tmp_path, history).scan()))
        first.save(now=True)
        done = len(history.appends)
        history.action("pay", 300).done(300)
        history.write(store, done)
        while store.assign_sequence_numbers(1_000):
            pass
        second = metrics_at(store, path)
        assert fold_checkpoint.load(path, store, (), by_tenant=False) is not None
        assert plain(second.refresh().feedback) == plain(first.refresh().feedback)
        assert second.measured()["pending-too-long"]["pay"].over == 1
    finally:
        store.close()
