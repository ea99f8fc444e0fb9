"""Anchors, each against what it talks to: a file, a git repository, a place behind HTTP, a witness."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from readback import bootstrap
from readback.adapters.log import anchor_git, anchor_http_client, file_locks
from readback.audit.sealing.anchor import compare, hand_over
from readback.background.anchoring import RETRY_FIRST_US, Anchoring
from readback.errors import AnchorError, AnchorRefusedError, SettingsError
from readback.log.checkpoint import Checkpoint
from readback.log.cosignature import check_cosignature, parse_witness_key
from readback.log.fault import (
    LogCutError,
    LogError,
    LogForkError,
    LogFormatError,
    LogRewrittenError,
    LogSignatureError,
)
from readback.log.frontier import StoredTiles
from readback.log.note import parse_note
from readback.log.proof import consistency_proof
from readback.ports.anchor import Anchor
from readback.testing.conformance.anchor import AnchorConformance
from readback.testing.runtime_virtual import VirtualRuntime
from tests.demo.waiting import eventually
from tests.sealing.given import NAME, Log, Signer, authority
from tests.sealing.web import Place, Witness, dribbling, serving

Made = Callable[[], Anchor]


class _Conformance(AnchorConformance):
    @pytest.fixture(autouse=True)
    def log(self) -> Log:
        self.made = Log()
        self.notes = []
        for count in (3, 300, 7):
            self.made.append(count)
            signed = self.made.seal()
            assert signed is not None
            self.notes.append((signed.checkpoint.size, signed.to_bytes()))
        return self.made

    def proof(self, size: int, old: int) -> list[bytes]:
        return consistency_proof(old, size, StoredTiles(size, self.made.store.tile).read) if old else []

    def anchor(self) -> Anchor:
        return self.again()


class TestFile(_Conformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def again(self) -> Anchor:
        return bootstrap.anchor(f"file://{self.folder}/head%20of%20log")

    def dead(self) -> Anchor:
        (self.folder / "a-folder").mkdir()
        return bootstrap.anchor(f"file://{self.folder}/a-folder")

    def test_what_another_process_put_there_since_it_was_looked_at_is_not_overwritten(self) -> None:
        """Of two that seal one log, the slower one put an earlier checkpoint over the later one."""
        slow, fast = self.anchor(), self.again()
        assert slow.last() is fast.last() is None
        self._take(fast, 1)
        with pytest.raises(AnchorRefusedError, match="another process"):
            self._take(slow, 0)
        assert slow.last() == fast.last() == self.notes[1][1]
        self._take(slow, 2)
        assert fast.last() == self.notes[2][1]
        assert [each.name for each in self.folder.iterdir()] == ["head of log"]

    def test_a_folder_that_somebody_holds_for_ever_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that is stopped in the middle does: no other anchor was told, and who offered waited for ever."""
        monkeypatch.setattr(file_locks, "HELD_MS_MAX", 2 * file_locks.HELD_PAUSE_MS)
        anchor, held = self.anchor(), os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(AnchorError, match="held by another process"):
                self._take(anchor, 0)
            assert list(self.folder.iterdir()) == [], "nothing half-written stays"
        finally:
            os.close(held)
        self._take(anchor, 0)
        assert anchor.last() == self.notes[0][1]


def git(*args: str) -> str:
    done = subprocess.run(["git", *args], check=True, capture_output=True, text=True, timeout=30)
    return done.stdout


def gone(pid: int) -> bool:
    """Not there any more, or ended and waiting for whoever it was given to."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


class TestGit(_Conformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        git("init", "--quiet", "--bare", str(tmp_path / "heads.git"))

    def again(self) -> Anchor:
        return bootstrap.anchor(f"git+file://{self.folder}/heads.git?file=head#logs/one")

    def dead(self) -> Anchor:
        return bootstrap.anchor(f"git+file://{self.folder}/nowhere.git")

    def test_each_is_a_commit_on_its_branch_beside_other_files(self) -> None:
        anchor = self.anchor()
        for number in range(3):
            self._take(anchor, number)
        repository = str(self.folder / "heads.git")
        other = bootstrap.anchor(f"git+file://{repository}?file=other#logs/one")
        self._take(other, 0)
        said = git("-C", repository, "log", "--format=%s", "logs/one").splitlines()
        assert said == [f"Checkpoint of {self.notes[at][0]} entries" for at in (0, 2, 1, 0)]
        assert git("-C", repository, "ls-tree", "--name-only", "logs/one").split() == ["head", "other"]
        assert anchor.last() == self.notes[2][1]

    def test_it_is_pushed_where_that_was_asked_for_and_what_is_there_counts(self) -> None:
        local, remote = str(self.folder / "work"), str(self.folder / "heads.git")
        git("init", "--quiet", local)
        git("-C", local, "remote", "add", "outside", remote)
        anchor = bootstrap.anchor(f"git+file://{local}?push=outside#heads")
        assert anchor.last() is None
        self._take(anchor, 0)
        self._take(anchor, 1)
        assert git("-C", remote, "show", "heads:checkpoint").encode() == self.notes[1][1]
        git("-C", local, "update-ref", "-d", "refs/heads/heads")
        assert anchor.last() == self.notes[1][1]
        git("-C", remote, "update-ref", "-d", "refs/heads/heads")
        assert anchor.last() is None

    @pytest.mark.parametrize("what", ["heads", "heads:checkpoint"])
    def test_a_replacement_in_the_repository_here_shows_no_earlier_checkpoint(self, what: str) -> None:
        """Whoever may write the ledger may write this one: a log that was cut would compare well with its old head."""
        local, remote = str(self.folder / "work"), str(self.folder / "heads.git")
        git("init", "--quiet", local)
        git("-C", local, "remote", "add", "outside", remote)
        anchor = bootstrap.anchor(f"git+file://{local}?push=outside#heads")
        self._take(anchor, 0)
        older = git("-C", local, "rev-parse", what).strip()
        self._take(anchor, 1)
        git("-C", local, "replace", git("-C", local, "rev-parse", what).strip(), older)
        assert anchor.last() == self.notes[1][1]

    def test_a_branch_whose_name_ends_alike_is_not_the_one_that_is_asked(self) -> None:
        """Whoever may push other branches showed an earlier checkpoint: a log that was cut since compared well."""
        local, remote = str(self.folder / "work"), str(self.folder / "heads.git")
        git("init", "--quiet", local)
        git("-C", local, "remote", "add", "outside", remote)
        anchor = bootstrap.anchor(f"git+file://{local}?push=outside#heads")
        self._take(anchor, 0)
        older = git("-C", remote, "rev-parse", "heads").strip()
        git("-C", remote, "update-ref", "refs/heads/a/refs/heads/heads", older)
        self._take(anchor, 1)
        assert anchor.last() == self.notes[1][1]
        git("-C", remote, "update-ref", "-d", "refs/heads/heads")
        assert anchor.last() is None
        git("-C", remote, "update-ref", "refs/heads/heads/below", older)
        assert bootstrap.anchor(f"git+file://{remote}#heads").last() is None

    @pytest.mark.requirement("PRIVACY-secrets")
    def test_a_credential_in_the_remote_s_address_is_in_no_message(self) -> None:
        local = str(self.folder / "work")
        git("init", "--quiet", local)
        git("-C", local, "remote", "add", "outside", "http://127.0.0.1:9/r.git?token=tok-51c0")
        with pytest.raises(AnchorError, match="failed: fatal: unable to access") as refused:
            bootstrap.anchor(f"git+file://{local}?push=outside#heads").last()
        assert "tok-51c0" not in str(refused.value)

    def test_what_git_started_ends_with_it_when_it_takes_too_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(anchor_git, "TIMEOUT_SECONDS", 0.5)
        local, pid = str(self.folder / "work"), self.folder / "pid"
        git("init", "--quiet", local)
        git("-C", local, "remote", "add", "outside", "ssh://nowhere.invalid/x")
        git("-C", local, "config", "core.sshCommand", f"sh -c 'echo $$ > {pid}; sleep 600' --")
        with pytest.raises(AnchorError, match="took over"):
            bootstrap.anchor(f"git+file://{local}?push=outside#heads").last()
        eventually(lambda: gone(int(pid.read_text())))


class TestHttp(_Conformance):
    @pytest.fixture(autouse=True)
    def place(self) -> Iterator[None]:
        self.kept = Place()
        with serving(self.kept) as self.url:
            yield

    def again(self) -> Anchor:
        return bootstrap.anchor(f"{self.url}/head")

    def dead(self) -> Anchor:
        self.kept.status = 503
        return self.again()

    def test_a_token_is_sent_and_a_version_that_changed_meanwhile_is_not_overwritten(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.kept.token = "s3cret"
        with pytest.raises(AnchorRefusedError, match="401"):
            self.anchor().last()
        monkeypatch.setenv("ANCHOR_TOKEN", "s3cret\n")
        anchor = bootstrap.anchor(f"{self.url}/head", "env:ANCHOR_TOKEN")
        self._take(anchor, 0)
        assert anchor.last() == self.notes[0][1]
        self.kept.text = b"somebody else's"
        with pytest.raises(AnchorRefusedError, match="412"):
            self._take(anchor, 1)

    def test_what_somebody_put_into_an_empty_place_meanwhile_is_not_overwritten(self) -> None:
        anchor = self.anchor()
        assert anchor.last() is None
        self.kept.text = b"somebody else's"
        with pytest.raises(AnchorRefusedError, match="412"):
            self._take(anchor, 0)
        assert self.kept.text == b"somebody else's"

    def test_what_a_cache_had_kept_is_not_what_the_place_keeps(self) -> None:
        """An earlier checkpoint, or none, compares well with a log that was cut since."""
        anchor = self.anchor()
        for text in (None, self.notes[0][1]):
            self.kept.text, self.kept.age = text, "60"
            with pytest.raises(AnchorError, match="cache"):
                anchor.last()
            self.kept.age = "0"
            assert anchor.last() == text

    def test_a_version_that_no_header_can_hold_is_an_anchor_error(self) -> None:
        """It ended the thread that tells the anchors, and none was told anything any more."""
        anchor = self.anchor()
        self._take(anchor, 0)
        self.kept.tag = "\xe9"
        assert anchor.last() == self.notes[0][1]
        with pytest.raises(AnchorError, match="cannot be reached"):
            self._take(anchor, 1)

    def test_what_is_too_large_is_no_checkpoint(self) -> None:
        self.kept.text = b"x" * 300_000
        with pytest.raises(AnchorRefusedError, match="over 262144 bytes"):
            self.anchor().last()


class TestWitness(_Conformance):
    @pytest.fixture(autouse=True)
    def place(self, log: Log) -> Iterator[None]:
        self.witness = Witness(log.authority.key)
        with serving(self.witness) as self.url:
            yield

    def again(self) -> Anchor:
        return bootstrap.anchor(f"witness+{self.url}/prefix#{quote(str(self.witness.key))}")

    def dead(self) -> Anchor:
        self.witness.status = 500
        return self.again()

    def test_its_cosignature_is_checked_and_kept_under_the_note(self) -> None:
        store, one = self.made.store, self.made.authority
        mark = hand_over(store, self.anchor(), one, 1)
        assert mark is not None
        head = store.checkpoint()
        assert head is not None
        assert mark.size == head.size == self.witness.size
        lines = parse_note(head.note).signatures
        assert [line.name for line in lines] == [NAME, self.witness.name]
        text = parse_note(head.note).text
        assert check_cosignature(lines[1], text, self.witness.key, one.check) == 1_767_268_800
        self.witness.tick_s = 1
        for number in range(2):  # each time it signs again, at another time: a note has room for 64 signatures
            hand_over(store, self.again(), one, 2 + number)
        assert store.checkpoint() == head
        assert compare(store, self.again(), one).size == head.size
        with pytest.raises(LogSignatureError):
            check_cosignature(lines[1], text + "x\n", self.witness.key, one.check)

    @pytest.mark.parametrize(
        ("forge", "fault"),
        [
            (lambda answer: answer[:-6] + b"AAA=\n", LogError),
            (lambda answer: answer.replace(b"witness.example/w1", b"witness.example/w2"), LogSignatureError),
            (lambda answer: b"", LogError),
            (lambda answer: b"\xff\n", LogFormatError),
            (lambda answer: answer + b"x" * 70_000, AnchorRefusedError),
        ],
    )
    def test_an_answer_that_is_no_cosignature_of_its_key_is_not_kept(
        self, forge: Callable[[bytes], bytes], fault: type[Exception]
    ) -> None:
        self.witness.forge = forge
        before = self.made.store.checkpoint()
        with pytest.raises(fault):
            hand_over(self.made.store, self.anchor(), self.made.authority, 1)
        assert self.made.store.checkpoint() == before

    def test_a_witness_that_saw_more_another_or_a_forked_log_is_an_error_with_a_code(self) -> None:
        store, one = self.made.store, self.made.authority
        self.witness.size, self.witness.root = 1_000, b"\1" * 32
        with pytest.raises(LogCutError, match="saw 1000 entries, and the log has 310"):
            compare(store, self.anchor(), one)
        self.witness.size = 310
        with pytest.raises(LogForkError):
            compare(store, self.anchor(), one)
        self.witness.size = 300
        with pytest.raises(LogRewrittenError):
            compare(store, self.anchor(), one)
        self.witness.log = authority(Signer(NAME, b"\1" * 32)).key
        with pytest.raises(LogSignatureError, match="another key"):
            compare(store, self.anchor(), one)

    def test_a_key_of_a_witness_has_one_form(self) -> None:
        key = self.witness.key
        assert parse_witness_key(str(key)) == key
        for wrong in ("", "a+b", str(self.made.authority.key), str(key)[:-4] + "AAA=", str(key).replace("+", "++", 1)):
            with pytest.raises(LogFormatError):
                parse_witness_key(wrong)


HEADERS = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "more"),
    [(HEADERS, b"X-More: 1\r\n"), (HEADERS + b"Content-Length: 200000\r\n\r\n", b"x"), (HEADERS + b"\r\n", b"x")],
    ids=["headers", "body", "body without an end"],
)
@pytest.mark.parametrize("kind", ["place", "witness"])
def test_an_anchor_that_dribbles_its_answer_is_held_to_one_limit(
    kind: str, head: bytes, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte came in time, so that the anchors behind it were never told, and `ledger verify` did not end."""
    monkeypatch.setattr(anchor_http_client, "WHOLE_SECONDS", 0.2)
    with dribbling(head, more) as url:
        if kind == "place":
            asked = bootstrap.anchor(f"{url}/head").last
        else:
            witness = Witness(Log().authority.key)
            anchor = bootstrap.anchor(f"witness+{url}/#{quote(str(witness.key))}")
            asked = partial(anchor.take, b"note", 1, lambda old: [])
        with pytest.raises(AnchorError, match=r"took over 0\.2 seconds"):
            asked()


# --- what an anchor shows, against the log ---


@pytest.fixture
def kept(log: Log, tmp_path: Path) -> tuple[Log, Path, Anchor]:
    log.append(300)
    log.seal()
    return log, tmp_path / "head", bootstrap.anchor(f"file://{tmp_path}/head")


def _code(log: Log, anchor: Anchor) -> str:
    with pytest.raises(LogError) as refused:
        hand_over(log.store, anchor, log.authority, 1)
    return refused.value.code


@pytest.mark.requirement("LEDGER-anchored", "L21")
def test_a_place_that_holds_a_forked_future_foreign_or_unsigned_head_is_not_overwritten(
    kept: tuple[Log, Path, Anchor],
) -> None:
    log, place, anchor = kept
    other = Log()
    other.append(300, "another")
    forked = other.seal()
    other.append(30)
    future = other.seal()
    assert forked is not None
    assert future is not None
    foreign = Log()
    foreign.signer = Signer("example.com/another", b"\7" * 32)
    foreign.authority = authority(foreign.signer)
    foreign.append(3)
    stranger = foreign.seal()
    assert stranger is not None
    wrong = {
        "log.fork": forked.to_bytes(),
        "log.cut": future.to_bytes(),
        "log.signature": stranger.to_bytes(),
        "log.format": b"no note",
    }
    for code, note in wrong.items():
        place.write_bytes(note)
        assert _code(log, anchor) == code
        assert place.read_bytes() == note
    early = Log()
    early.append(7, "another")
    seven = early.seal()
    assert seven is not None
    place.write_bytes(seven.to_bytes())
    assert _code(log, anchor) == "log.rewritten"
    assert log.store.anchors() == []


@pytest.mark.requirement("LEDGER-anchored")
def test_what_is_handed_over_is_remembered_and_what_it_shows_is_compared(kept: tuple[Log, Path, Anchor]) -> None:
    log, place, anchor = kept
    assert compare(log.store, anchor, log.authority).size == 0
    hand_over(log.store, anchor, log.authority, 5)
    head = log.store.checkpoint()
    assert head is not None
    assert place.read_bytes() == head.note
    assert [(mark.size, mark.at_us, mark.said) for mark in log.store.anchors()] == [(300, 5, "")]
    log.append(1)
    log.seal()
    held = compare(log.store, anchor, log.authority)
    assert isinstance(held.checkpoint, Checkpoint)
    assert held.size == held.checkpoint.size == 300


@pytest.mark.requirement("LEDGER-anchored")
def test_a_witness_is_never_called_compared_where_the_checkpoints_were_taken_away(log: Log) -> None:
    witness = Witness(log.authority.key)
    log.append(8)
    log.seal()
    with serving(witness) as url:
        anchor = bootstrap.anchor(f"witness+{url}/prefix#{quote(str(witness.key))}")
        hand_over(log.store, anchor, log.authority, 1)
        log.store._sealed().heads.clear()
        log.store._sealed().tiles.clear()
        log.cut(5)
        with pytest.raises(AnchorRefusedError, match="unsealed log"):
            compare(log.store, anchor, log.authority)


def test_two_clients_of_one_process_write_to_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "head"
    one, other = bootstrap.anchor(f"file://{place}"), bootstrap.anchor(f"file://{place}")
    real, notes, begun = os.replace, [b"the other one's, which is longer\n"], list[threading.Thread]()

    def meanwhile(source: Path, target: Path) -> None:
        if notes:
            begun.append(threading.Thread(target=other.take, args=(notes.pop(), 2, lambda old: [])))
            begun[0].start()
            eventually(lambda: len(list(tmp_path.iterdir())) == 2)
        real(source, target)

    monkeypatch.setattr(os, "replace", meanwhile)
    one.take(b"ours\n", 1, lambda old: [])
    begun[0].join()
    assert place.read_bytes() == b"the other one's, which is longer\n"
    assert [each.name for each in tmp_path.iterdir()] == ["head"]


def test_of_nothing_nothing_is_handed_over(log: Log, tmp_path: Path) -> None:
    anchor = bootstrap.anchor(f"file://{tmp_path}/head")
    assert hand_over(log.store, anchor, log.authority, 1) is None
    assert not (tmp_path / "head").exists()


# --- in the background ---


@pytest.mark.requirement("LEDGER-anchored")
def test_a_dead_anchor_keeps_no_other_from_being_told_and_is_asked_again_later(log: Log, tmp_path: Path) -> None:
    runtime = VirtualRuntime()
    place = Place(status=503)
    with ExitStack() as stack:
        url = stack.enter_context(serving(place))
        dead, alive = bootstrap.anchor(f"{url}/head"), bootstrap.anchor(f"file://{tmp_path}/head")
        work = Anchoring(log.store, runtime, log.authority, [dead, alive])
        log.append(3)
        log.seal()
        work.offer()
        assert work.flush()
        said = {mark.name: (mark.size, mark.said) for mark in log.store.anchors()}
        assert said == {dead.name: (0, "anchor.refused"), alive.name: (3, "")}
        place.status = 0
        work.offer()
        assert work.flush()
        assert place.puts == 0, "not yet: it is asked again after a pause"
        runtime.advance(RETRY_FIRST_US / 1_000_000)
        work.offer()
        assert work.flush()
        assert place.puts == 1
        assert {mark.size for mark in log.store.anchors()} == {3}
        work.close()


def test_what_nobody_foresaw_ends_one_round_and_not_the_telling(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No anchor was ever told anything again, and nothing said so."""
    anchor, runtime = bootstrap.anchor(f"file://{tmp_path}/head"), VirtualRuntime()
    work = Anchoring(log.store, runtime, log.authority, [anchor])
    log.append(3)
    log.seal()
    raised: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading, "excepthook", raised.append)
        patch.setattr(log.store, "mark", lambda _: 1 // 0)
        work.offer()
        assert work.flush()
    assert len(raised) == 1
    work.offer()
    assert work.flush()
    assert [mark.size for mark in log.store.anchors()] == [3]
    work.close()


def test_an_anchor_that_holds_another_log_is_said_once(
    kept: tuple[Log, Path, Anchor], capsys: pytest.CaptureFixture[str]
) -> None:
    log, place, anchor = kept
    place.write_bytes(b"no note")
    runtime = VirtualRuntime()
    work = Anchoring(log.store, runtime, log.authority, [anchor])
    for _ in range(2):
        work.offer()
        assert work.flush()
        runtime.advance(3600)
    work.close()
    assert capsys.readouterr().err.count("holds another log: log.format") == 1
    assert [mark.said for mark in log.store.anchors()] == ["log.format"]


@pytest.mark.parametrize(
    "url",
    [
        "file://host/x",
        "file:///",
        "file:relative",
        "git+file://host/x",
        "git+file:///x?file=../y",
        "git+file:///x?else=1",
        "git+file:///x#a..b",
        "git+file:///x?push=--force",
        "git+file:///x%00y",
        "file:///x%00y",
        "http://example.com/head",
        "https://user:pass@example.com/head",
        "https://",
        "witness+https://example.com/prefix",
        "witness+http://example.com/prefix#x",
        "gopher://x",
        "https://[bad",
        "witness+https://[bad/prefix#x",
        "git+file://[bad/x",
        "file://[bad",
        "plain",
    ],
)
def test_what_names_no_place_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        bootstrap.anchor(url)


def test_a_place_that_cannot_be_reached_is_an_anchor_error(log: Log) -> None:
    with serving(Place()) as url:
        gone = bootstrap.anchor(f"{url}/head")
        witness = bootstrap.anchor(f"witness+{url}#{quote(str(Witness(log.authority.key).key))}")
    log.append(1)
    log.seal()
    for anchor in (gone, witness):
        with pytest.raises(AnchorError, match="cannot be reached"):
            hand_over(log.store, anchor, log.authority, 1)
