"""A process that is forked from a Python that has everything loaded does what one does that is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers import forks
from tests.workers.limit import killed_after
from tests.workers.watchdog import descendants

pytestmark = pytest.mark.slow

PROGRAMS = {
    "says what it was given": "import sys; print(sys.argv[1:], __name__, sys.executable)",
    "says where it is": "import os; print(os.getcwd())",
    "sees its environment alone": "import os; print(sorted(os.environ.items()))",
    "reads its input": "print(input())",
    "ends with a code": "import sys; sys.exit(3)",
    "ends with words": "import sys; sys.exit('no more')",
    "fails": "raise ValueError('of this')",
    "is interrupted": "raise KeyboardInterrupt",
    "ends by a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "is killed": "import os, signal; print('so far', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "has something to do at its end": "import atexit; atexit.register(print, 'the end'); print('the beginning')",
    "has a thread that goes on": "import threading; threading.Timer(0.05, print, ['late']).start()",
    "looks at its own annotations": """from __future__ import annotations
import typing
class A:
    x: B
class B: ...
print(typing.get_type_hints(A))
""",
    "imports nothing of the tests": "import sys; print([name for name in sys.modules if name.startswith('tests')])",
    "knows no name of what it did not import": "print(readback)",
}


def _last(said: str) -> str:
    """Without the stack, in which it stands from where a program was run."""
    return said.strip().rpartition("\n")[2]


@pytest.mark.parametrize("way", ["-c", "a file", "-m"])
@pytest.mark.parametrize("what", PROGRAMS)
def test_what_it_prints_and_how_it_ends_is_the_same(what: str, way: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[what])
    command = {"-c": ["-c", PROGRAMS[what]], "a file": [str(tmp_path / "program.py")], "-m": ["-m", "program"]}[way]
    around = {"PATH": os.environ["PATH"], "ONE": "ü", **{n: os.environ[n] for n in ("LANG", "TZ") if n in os.environ}}

    def done(*, forked: bool) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, *command, "a", "b"]
        return forks.run(words, forked=forked, cwd=tmp_path, env=around, said="something\n", timeout=60)

    ours, theirs = done(forked=True), done(forked=False)
    assert (ours.returncode, ours.stdout, _last(ours.stderr)) == (
        theirs.returncode,
        theirs.stdout,
        _last(theirs.stderr),
    )


WAITS = [sys.executable, "-c", "import os, threading; print(os.getpid(), flush=True); threading.Event().wait()"]


def _pid(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    with killed_after(process):
        return int(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_reaches_it(number: signal.Signals) -> None:
    with forks.start(WAITS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert _pid(process) == process.pid
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(60) == -number
        assert process.poll() == -number
    assert process.pid not in descendants(os.getpid())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_who_starts_its_launcher_ends_it_with_that(number: signal.Signals) -> None:
    with subprocess.Popen(forks.launched(WAITS), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        pid = _pid(process)
        assert pid != process.pid
        process.send_signal(number)
        assert process.wait(60) == -number
        assert process.stdout is not None
        assert process.stdout.read() == b"", "the stream ends when the process does"
    while pid in descendants(os.getpid()):  # what is told of a killed launcher comes before the process is reaped
        os.sched_yield()


def test_a_shell_finds_the_programs() -> None:
    around = {**os.environ, "PATH": f"{forks.programs()}{os.pathsep}{os.environ['PATH']}"}
    typed = "readback --version && echo so | python -c 'print(input())'; python -c 'exit(4)'; echo $?"
    done = subprocess.run(["bash", "-c", typed], env=around, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines()[1:] == ["so", "4"], done
    assert done.stdout.startswith("readback ")


@pytest.mark.parametrize(
    ("command", "around"),
    [
        (["git", "--version"], {}),
        ([sys.executable, "--version"], {}),
        ([sys.executable, "-X", "utf8", "-c", "pass"], {}),
        ([forks.READBACK, "--version"], {"PYTHONHASHSEED": "1"}),
        ([forks.READBACK, "--version"], {"TZ": "Asia/Tokyo"}),
    ],
)
def test_what_depends_on_how_python_is_started_is_started(command: list[str], around: dict[str, str]) -> None:
    with forks.start(command, env={**os.environ, **around}, stdout=subprocess.DEVNULL) as process:
        assert type(process) is subprocess.Popen


@pytest.mark.parametrize("around", [{}, {"PYTHON": "/usr/bin/python3"}])
def test_what_does_not_is_forked_also_where_make_was_told_which_python(around: dict[str, str]) -> None:
    command = [sys.executable, "-c", "pass"]
    with forks.start(command, env={**os.environ, **around}, stdout=subprocess.DEVNULL) as process:
        assert type(process) is not subprocess.Popen
        assert process.wait(60) == 0
