"""Programs as a source and as an executor: what their output proves, and that nothing of them is left behind."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from readback.canon.limits import EVIDENCE_MAX_BYTES, PAYLOAD_MAX_BYTES
from readback.domain.context import Context
from readback.domain.verification.observation import ObservationStatus, normalise
from readback.domain.verification.reading import Presence
from readback.errors import (
    NotDispatchedError,
    ReaderFailedError,
    ReaderTypeError,
    ToolError,
    ToolTimeoutError,
    UsageError,
)
from readback.systems.command.executor import CommandExecutor
from readback.systems.command.source import CommandSource
from tests.demo.waiting import eventually

CTX = Context("a-1", "acme", "agent:ops", "op", "target-1", "key-1", "stamp-1")
HANG = "import time; time.sleep(600)"
SPAWN = (
    "import subprocess,sys,time;"
    "p=subprocess.Popen([sys.executable,'-c','import time; time.sleep(600)']);"
    "open('pid','w').write(str(p.pid));"
)


@pytest.fixture(autouse=True)
def folder_without_contracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs run in the working folder by default, and are refused beside contracts of other tests."""
    monkeypatch.chdir(tmp_path)


def _py(code: str, *args: str) -> list[str]:
    return [sys.executable, "-c", code, *args]


def _says(value: object, code: int = 0) -> list[str]:
    return _py(f"import sys; sys.stdout.write({json.dumps(value)!r}); sys.exit({code})")


def _gone(pid: int) -> bool:
    """Not running any more: not there, or ended and waiting for whoever it was given to."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True


def _ends(left: Path) -> None:
    """The process whose number stands there is ended; the system takes a moment over it."""
    if left.exists() and left.read_text(encoding="ascii"):
        pid = int(left.read_text(encoding="ascii"))
        eventually(lambda: _gone(pid))


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())


# --- as a source ---


def test_what_a_program_prints_is_the_reading() -> None:
    source = CommandSource("inventory")
    seen = source.read(
        CTX, _says({"id": 7, "v": 3, "by": "ann", "mark": "s"}), version="/v", stamp="/mark", author="/by"
    )
    assert seen.presence is Presence.PRESENT
    assert seen.value == {"id": 7, "v": 3, "by": "ann", "mark": "s"}
    assert (seen.version, seen.stamp, seen.author) == (3, "s", "ann")


def test_a_program_says_absence_by_null_or_by_a_code_that_was_agreed_upon() -> None:
    source = CommandSource("inventory", absent=(3,))
    assert source.read(CTX, _says(None)).presence is Presence.ABSENT
    assert source.read(CTX, _says({"id": 7}, code=3)).presence is Presence.ABSENT
    with pytest.raises(ReaderFailedError, match="ended with 4"):
        source.read(CTX, _says(None, code=4))
    with pytest.raises(UsageError):
        CommandSource("inventory", absent=(0,))


@pytest.mark.parametrize("printed", ["", "{", "no json", '{"a": 1} x'])
def test_a_program_that_prints_no_json_shows_nothing(printed: str) -> None:
    with pytest.raises(ReaderTypeError):
        CommandSource("inventory").read(CTX, _py(f"print({printed!r})"))


def test_a_program_that_is_not_there_leaves_its_source_unavailable() -> None:
    source = CommandSource("inventory")
    assert source.read(CTX, ["/no/such/program"]).presence is Presence.UNAVAILABLE
    with pytest.raises(ReaderFailedError):
        source.ping(["/no/such/program"])
    with pytest.raises(ReaderFailedError):
        CommandSource("inventory", cwd="/no/such/folder").ping([sys.executable])
    source.ping([sys.executable])


@pytest.mark.requirement("FILE-bounded", "INPUT-reader-hangs")
def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    source = CommandSource("inventory", cwd=str(tmp_path), timeout_s=0.5)
    before = _children()
    assert source.read(CTX, _py(SPAWN + "time.sleep(600)")).presence is Presence.UNAVAILABLE
    assert _children() <= before
    _ends(tmp_path / "pid")


@pytest.mark.requirement("FILE-bounded")
def test_what_a_program_leaves_behind_is_ended_and_its_own_word_counts(tmp_path: Path) -> None:
    quiet = SPAWN.replace(
        "time.sleep(600)'])", "time.sleep(600)'],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL)"
    )
    source = CommandSource("inventory", cwd=str(tmp_path))
    assert source.read(CTX, _py(quiet + "print('{}')")).value == {}
    _ends(tmp_path / "pid")


@pytest.mark.requirement("FILE-bounded")
def test_a_program_that_prints_without_end_is_ended() -> None:
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(ReaderTypeError, match=f"over {PAYLOAD_MAX_BYTES} bytes"):
        CommandSource("inventory", timeout_s=60).read(CTX, _py(endless))


def test_a_program_is_told_of_the_attempt_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "do-not-tell")
    show = _py("import os,json; print(json.dumps(dict(os.environ)))")
    seen = CommandSource("inventory", env={"MORE": "1"}).read(CTX, show).value
    assert isinstance(seen, dict)
    assert seen["READBACK_STAMP"] == "stamp-1"
    assert seen["MORE"] == "1"
    assert "SOME_SECRET" not in seen


def test_a_search_brings_every_object_or_an_error() -> None:
    source = CommandSource("inventory")
    assert [each.value for each in source.find(CTX, _says([{"a": 1}, {"a": 2}]))] == [{"a": 1}, {"a": 2}]
    for argv in (_says({"a": 1}), _says(None), _says([], code=1), ["/no/such/program"]):
        with pytest.raises((ReaderFailedError, ReaderTypeError)):
            source.find(CTX, argv)
    with pytest.raises(ReaderFailedError, match="took over"):
        CommandSource("inventory", timeout_s=0.5).find(CTX, _py(HANG))


@pytest.mark.parametrize(
    ("word", "status"), [("done", "landed"), ("dead", "failed"), ("queued", "pending"), (None, "unknown_key")]
)
def test_a_lookup_goes_by_the_words_that_are_final(word: str | None, status: str) -> None:
    said = None if word is None else {"state": word}
    found = CommandSource("jobs").lookup(CTX, _says(said), status="/state", landed=["done"], failed=["dead"])
    assert found.status == status


def test_a_lookup_takes_lists_of_words_and_no_text_whose_parts_would_be_words() -> None:
    with pytest.raises(UsageError, match="lists of words"):
        CommandSource("jobs").lookup(CTX, _says({"state": ""}), status="/state", landed="done", failed=[])


# --- as an executor ---


def test_a_program_is_run_once_with_its_input_and_the_marks_of_the_attempt() -> None:
    show = _py(
        "import os,sys; print(sys.stdin.read(), os.environ['READBACK_IDEMPOTENCY_KEY'], *sys.argv[1:])", "$HOME; x"
    )
    answer = CommandExecutor().run(CTX, show, stdin="given")
    assert answer == {"returncode": 0, "stdout": "given key-1 $HOME; x\n", "stderr": ""}


def test_an_exit_code_is_a_claim() -> None:
    with pytest.raises(ToolError, match="ended with 3") as failed:
        CommandExecutor().run(CTX, _says({}, code=3))
    assert failed.value.code == "tool.exit"
    assert CommandExecutor(codes=(0, 3)).run(CTX, _says({}, code=3))["returncode"] == 3
    assert normalise(CommandExecutor().run(CTX, _says({})), 1).status is ObservationStatus.SUCCESS


def test_a_program_that_cannot_be_started_was_not_dispatched() -> None:
    for argv in (["/no/such/program"], [""], [], ["a\0b"]):
        with pytest.raises(NotDispatchedError):
            CommandExecutor().run(CTX, argv)


@pytest.mark.requirement("FILE-bounded")
def test_a_program_over_its_time_is_ended_and_its_effect_stays_open(tmp_path: Path) -> None:
    executor = CommandExecutor(cwd=str(tmp_path), timeout_s=0.5)
    before = _children()
    with pytest.raises(ToolTimeoutError):
        executor.run(CTX, _py(SPAWN + "time.sleep(600)"), stdin="x" * 1_000_000)
    assert _children() <= before
    _ends(tmp_path / "pid")


@pytest.mark.requirement("FILE-bounded")
def test_a_program_may_print_more_than_is_kept_and_want_less_than_it_is_given() -> None:
    much = f"import sys; sys.stdout.write('x' * {EVIDENCE_MAX_BYTES + 10}); sys.stderr.write('e' * 100000)"
    answer = CommandExecutor().run(CTX, _py(much), stdin="y" * 3_000_000)
    assert answer["cut"] is True
    assert len(str(answer["stdout"])) == EVIDENCE_MAX_BYTES
    assert len(str(answer["stderr"])) == 4_096
    assert str(answer["stderr"]).endswith("e…")


def test_a_program_is_given_all_of_a_long_input() -> None:
    answer = CommandExecutor().run(CTX, _py("import sys; print(len(sys.stdin.read()))"), stdin="y" * 3_000_000)
    assert answer["stdout"] == "3000000\n"


def test_a_program_that_nobody_can_watch_over_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives no thread for its limit of time, it ran on alone, after the call had been given up."""

    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    before, act = _children(), _py("open('done', 'w').close()")
    with pytest.raises(NotDispatchedError):
        CommandExecutor(cwd=str(tmp_path)).run(CTX, act)
    found = CommandSource("ps", cwd=str(tmp_path)).read(CTX, act)
    assert found.presence is Presence.UNAVAILABLE
    assert (_children(), list(tmp_path.iterdir())) == (before, [])


def test_an_input_or_argument_that_no_program_can_be_given_was_not_dispatched() -> None:
    with pytest.raises(NotDispatchedError):
        CommandExecutor().run(CTX, _py("pass"), stdin="\ud800")
    with pytest.raises(NotDispatchedError):
        CommandExecutor().run(CTX, [sys.executable, 5])  # type: ignore[list-item]
