"""Group commit: fewer transactions than callers, nobody forgotten, and no one caller's fault the others'."""

from __future__ import annotations

import dis
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

import pytest

from readback.errors import StoreError
from readback.ports.storage.store import Appended, AppendResult
from readback.stores import shared_commit as group_commit
from readback.stores.shared_commit import GroupCommit, Job
from readback.stores.sqlite import open_sqlite_store
from readback.testing.store_samples import sample_creation

LIMIT_SECONDS = 30.0


class Gate:
    """A run that stops inside its first group until it is let on, so that others queue up behind it."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.go = threading.Event()
        self.groups: list[list[str]] = []
        self.raising: dict[str, BaseException] = {}

    def __call__(self, group: Sequence[Job[str]]) -> None:
        self.groups.append([job.work for job in group])
        self.inside.set()
        assert self.go.wait(LIMIT_SECONDS)
        for job in group:
            if job.work in self.raising:
                raise self.raising[job.work]
            job.result = job.work.upper()


def _start(submit: Callable[[], object], answers: list[object]) -> threading.Thread:
    def work() -> None:
        try:
            answers.append(submit())
        except (StoreError, KeyboardInterrupt) as error:
            answers.append(type(error).__name__)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def _queued(queue: GroupCommit[str], count: int) -> None:
    """Wait until so many stand in the queue: bounded, and by turns of the other threads."""
    for _ in range(100_000):
        if len(queue._waiting) == count:
            return
        threading.Event().wait(0.0001)
    raise AssertionError("they never queued up")


def _waits(queue: GroupCommit[str], work: str) -> None:
    """Wait until this job stands in the queue.

    The length of the queue says less: an interrupted job may leave between the look at the length and the next one.
    """

    def is_queued() -> bool:
        with queue._mutex:
            return any(job.work == work for job in queue._waiting)

    _settled(is_queued)


def _settled(so: Callable[[], object]) -> None:
    """Wait until it is so: bounded, and by turns of the other threads."""
    for _ in range(100_000):
        if so():
            return
        threading.Event().wait(0.0001)
    raise AssertionError("it was never so")


def _led(queue: GroupCommit[str]) -> bool:
    """Wait until somebody leads and has taken its own job; true once it is so."""
    for _ in range(100_000):
        if queue._leader is not None and queue._leader not in queue._waiting:
            return True
        threading.Event().wait(0.0001)
    return False


def test_who_comes_while_another_commits_shares_the_next_transaction() -> None:
    gate = Gate()
    queue: GroupCommit[str] = GroupCommit(gate)
    answers: list[object] = []
    threads = [_start(lambda: queue.submit(Job("a")), answers)]
    assert gate.inside.wait(LIMIT_SECONDS)
    threads += [_start(lambda name=name: queue.submit(Job(name)), answers) for name in "bcdef"]  # type: ignore[misc]
    _queued(queue, 5)
    gate.go.set()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert sorted(map(str, answers)) == list("ABCDEF")
    assert [len(group) for group in gate.groups] == [1, 5]


def test_a_transaction_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "GROUP_WEIGHT_MAX", 5)
    gate = Gate()
    queue: GroupCommit[str] = GroupCommit(gate)
    answers: list[object] = []
    threads = [_start(lambda: queue.submit(Job("a", weight=9)), answers)]
    assert gate.inside.wait(LIMIT_SECONDS)
    for count, name in enumerate("bcdef", 1):
        threads.append(_start(lambda name=name: queue.submit(Job(name, weight=2)), answers))  # type: ignore[misc]
        _queued(queue, count)
    gate.go.set()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert gate.groups == [["a"], ["b", "c"], ["d", "e"], ["f"]]


def test_an_interrupted_leader_leaves_nobody_waiting() -> None:
    gate = Gate()
    gate.raising["b"] = KeyboardInterrupt()
    queue: GroupCommit[str] = GroupCommit(gate)
    answers: list[object] = []
    threads = [_start(lambda: queue.submit(Job("a")), answers)]
    assert gate.inside.wait(LIMIT_SECONDS)
    for count, name in enumerate("bcd", 1):
        threads.append(_start(lambda name=name: queue.submit(Job(name)), answers))  # type: ignore[misc]
        _queued(queue, count)
    gate.go.set()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert sorted(map(str, answers)) == ["A", "KeyboardInterrupt", "StoreError", "StoreError"]
    assert queue.submit(Job("e")) == "E"


def test_an_interrupted_follower_leaves_the_queue() -> None:
    gate = Gate()
    queue: GroupCommit[str] = GroupCommit(gate)
    answers: list[object] = []
    first = _start(lambda: queue.submit(Job("a")), answers)
    assert gate.inside.wait(LIMIT_SECONDS)
    main = threading.get_ident()

    def interrupt() -> None:
        _queued(queue, 1)
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        queue.submit(Job("b"))
    interrupter.join(LIMIT_SECONDS)
    gate.go.set()
    first.join(LIMIT_SECONDS)
    assert queue.submit(Job("c")) == "C"
    assert gate.groups == [["a"], ["c"]], "what was given up is not committed"


def test_a_lead_that_comes_with_an_interruption_is_handed_on() -> None:
    """The one moment that no test can hit from outside: given the lead, and interrupted before taking it."""
    queue: GroupCommit[str] = GroupCommit(Gate())
    jobs = [Job(name) for name in "ab"]
    for job in jobs:
        job.gate = threading.Lock()
        job.gate.acquire()
    queue._waiting.extend(jobs)
    queue._leader = jobs[0]
    queue._withdraw(jobs[0])
    assert queue._leader is jobs[1]
    assert list(queue._waiting) == [jobs[1]]
    gates = [job.gate for job in jobs if job.gate is not None]
    assert [gate.locked() for gate in gates] == [True, False]


class Interrupting:
    """Interrupts its thread at the n-th moment at which a signal could: after a call, or at a loop's next turn."""

    def __init__(self, after: int) -> None:
        self.left = after
        self._last: dict[FrameType, str] = {}

    def __call__(self, frame: FrameType, _event: str, _arg: object) -> Callable[..., object] | None:
        if frame.f_code.co_filename != group_commit.__file__:
            return None
        frame.f_trace_opcodes = True
        return self._moment

    def _moment(self, frame: FrameType, event: str, _arg: object) -> Callable[..., object]:
        if event == "opcode":
            last, self._last[frame] = self._last.get(frame, ""), _name_of(frame.f_code, frame.f_lasti)
            if last in ("CALL", "JUMP_BACKWARD", "RESUME"):
                self.left -= 1
                if not self.left:
                    raise KeyboardInterrupt
        return self._moment


@lru_cache(maxsize=64)
def _names(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}


def _name_of(code: CodeType, offset: int) -> str:
    return _names(code).get(offset, "")


def _led_until(moment: int) -> bool:
    """Three jobs in a group whose leader is interrupted then; whether it was over before."""
    gate, interrupting = Gate(), Interrupting(moment)
    queue: GroupCommit[str] = GroupCommit(gate)
    answers: list[object] = []

    def led() -> object:
        sys.settrace(cast("Any", interrupting))
        try:
            return queue.submit(Job("b"))
        finally:
            sys.settrace(None)

    threads = [_start(lambda: queue.submit(Job("a")), answers)]
    assert gate.inside.wait(LIMIT_SECONDS)
    threads.append(_start(led, answers))
    _settled(lambda: queue._waiting or not threads[1].is_alive())
    for name in "cd":
        threads.append(_start(lambda name=name: queue.submit(Job(name)), answers))  # type: ignore[misc]
        _waits(queue, name)
    gate.go.set()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert len(answers) == len(threads), f"somebody waits for ever after an interruption at moment {moment}"
    assert queue.submit(Job("e")) == "E"
    return interrupting.left > 0


def test_wherever_a_leader_is_interrupted_nobody_is_left_waiting() -> None:
    assert any(_led_until(moment) for moment in range(1, 200))


def test_a_visitor_finds_nobody_inside_or_is_sent_away() -> None:
    gate = Gate()
    queue: GroupCommit[str] = GroupCommit(gate)
    answers: list[object] = []
    waiting: list[threading.Thread] = []

    def look() -> str:
        waiting.append(_start(lambda: queue.submit(Job("a")), answers))
        _queued(queue, 1)
        assert queue.visit(lambda: "a second one") is None
        assert not gate.inside.is_set()
        return "seen"

    assert queue.visit(look) == "seen"
    assert gate.inside.wait(LIMIT_SECONDS), "who came meanwhile is let in"
    assert queue.visit(lambda: "too late") is None
    gate.go.set()
    waiting[0].join(LIMIT_SECONDS)
    assert answers == ["A"]
    with pytest.raises(ZeroDivisionError):
        queue.visit(lambda: 1 // 0)
    assert queue.submit(Job("b")) == "B"


def test_closing_comes_after_who_queued_and_before_who_comes_later() -> None:
    gate = Gate()
    queue: GroupCommit[str] = GroupCommit(gate)
    answers: list[object] = []
    last: list[int] = []
    threads = [_start(lambda: queue.submit(Job("a")), answers)]
    assert gate.inside.wait(LIMIT_SECONDS)
    threads.append(_start(lambda: queue.submit(Job("b")), answers))
    _queued(queue, 1)
    closer = threading.Thread(
        target=lambda: queue.close(lambda: StoreError("closed"), lambda: last.append(len(answers)))
    )
    closer.start()
    _queued(queue, 2)
    with pytest.raises(StoreError, match="closed"):
        queue.submit(Job("c"))
    gate.go.set()
    for thread in (*threads, closer):
        thread.join(LIMIT_SECONDS)
    assert sorted(map(str, answers)) == ["A", "B"]
    assert len(last) == 1
    assert gate.groups == [["a"], ["b"]]


def test_threads_share_transactions_and_one_bad_value_is_its_own_fault(tmp_path: Path) -> None:
    """A lock held from outside makes the first wait, so that all others are in one group with the bad one."""
    commits: list[int] = []
    with open_sqlite_store(tmp_path / "ledger.db") as store:
        writer = store._writer
        assert writer is not None

        def committing() -> bool:
            commits.append(1)
            return False

        writer.set_commit_hook(committing)
        with open_sqlite_store(tmp_path / "ledger.db") as second:
            assert second._writer is not None
            second._writer.execute("BEGIN IMMEDIATE")
            answers: dict[str, AppendResult | str] = {}

            def work(name: str) -> None:
                item = sample_creation(name)
                if name == "bad":
                    item = replace(item, projection=replace(item.projection, due_us=2**63))
                try:
                    answers[name] = store.append([item])[0]
                except StoreError as error:
                    answers[name] = error.code

            threads = []
            for place, name in enumerate(["a0", "bad", *(f"a{number}" for number in range(1, 20))]):
                threads.append(threading.Thread(target=work, args=(name,)))
                threads[-1].start()
                assert _led(store._group)  # type: ignore[arg-type]
                _queued(store._group, place)  # type: ignore[arg-type]
            second._writer.execute("ROLLBACK")
            for thread in threads:
                thread.join(LIMIT_SECONDS)
        assert answers.pop("bad") == "store.value"
        assert len(commits) == 1 + len(answers) - 1, "the first alone, and each of the bad one's group by itself"
        assert all(isinstance(answer, Appended) for answer in answers.values())
        assert sorted(answer.seq for answer in answers.values() if isinstance(answer, Appended)) == list(range(1, 21))


def test_a_statement_that_the_schema_does_not_know_fails_nobody_beside_it(tmp_path: Path) -> None:
    """Of a newer release that renamed a table, the sealer's: appends that share its transaction are kept."""
    with open_sqlite_store(tmp_path / "ledger.db") as store, open_sqlite_store(tmp_path / "ledger.db") as second:
        assert second._writer is not None
        second._writer.execute("BEGIN IMMEDIATE")
        second._writer.execute("ALTER TABLE checkpoint RENAME TO head")
        answers: dict[str, object] = {}

        def work(name: str) -> None:
            try:
                if name == "sealer":
                    store.cosigned(1, b"")
                else:
                    answers[name] = store.append([sample_creation(name)])[0]
            except StoreError as error:
                answers[name] = error

        threads = []
        for place, name in enumerate(["a0", "a1", "sealer", "a2"]):
            threads.append(threading.Thread(target=work, args=(name,)))
            threads[-1].start()
            assert _led(store._group)  # type: ignore[arg-type]
            _queued(store._group, place)  # type: ignore[arg-type]
        second._writer.execute("COMMIT")
        for thread in threads:
            thread.join(LIMIT_SECONDS)
    failed = answers.pop("sealer")
    assert isinstance(failed, StoreError)
    assert "checkpoint" in str(failed)
    assert all(isinstance(answer, Appended) for answer in answers.values()), answers
