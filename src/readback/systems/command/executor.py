"""Acts by a program: one process a call, its arguments as a list, no shell, and what it prints is evidence.

Constructed by `sdk.fittings` for contract files, and by users. It must not verify: an exit code is a claim. A program
over its time is ended with all that it started; what it may have done by then is read back.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from threading import Event, Timer
from typing import Final

from readback.canon import Json
from readback.canon.limits import EVIDENCE_MAX_BYTES
from readback.contracts.documents.own_files import refuse_folder
from readback.domain.context import Context
from readback.domain.verification.observation_signs import one_line
from readback.errors import NotDispatchedError, ToolError, ToolTimeoutError, UsageError

TIMEOUT_DEFAULT_S: Final = 30.0
ERROR_MAX_BYTES: Final = 4_096
SAID_MAX_CHARS: Final = 200
CUT: Final = "\u2026"
"""At the end of what was cut: whoever looks for what nobody may see looks for its beginning there."""
KEPT: Final = ("PATH", "HOME", "LANG", "TZ")
"""Of our own environment, what the program is given."""
TARGET: Final = "READBACK_TARGET"
CONTEXT: Final = {
    "READBACK_STAMP": "stamp",
    "READBACK_IDEMPOTENCY_KEY": "idempotency_key",
    "READBACK_TENANT": "tenant",
    TARGET: "target",
}
_CHUNK_BYTES: Final = 65_536
LOOK_UP_S: Final = 0.25
"""How long a wait for output lasts before it is seen whether the time is over."""


class CommandExecutor:
    """Runs programs. Safe from any thread.

    `env`: beside PATH, HOME, LANG and TZ. The program is told the attempt's key, stamp, tenant and target in
    READBACK_IDEMPOTENCY_KEY, READBACK_STAMP, READBACK_TENANT and READBACK_TARGET (the last only with `names_target`).
    `codes`: exit codes by which it claims to have done it. No program runs in a folder that holds Readback's own files;
    without `cwd` that is the working folder of this process. `apart=False` leaves that check out: for fixed words, and
    for a program that the operator starts in the operator's own folder.
    """

    def __init__(
        self,
        *,
        name: str = "command",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        codes: Collection[int] = (0,),
        timeout_s: float = TIMEOUT_DEFAULT_S,
        names_target: bool = True,
        apart: bool = True,
    ) -> None:
        if not codes:
            raise UsageError("A program needs an exit code by which it claims success.")
        if apart and cwd is not None:
            refuse_folder(cwd, name)
        self._apart = apart
        self.name = name
        self._cwd = cwd
        self._env = dict(env or {})
        self._codes = frozenset(codes)
        self._timeout_s = timeout_s
        self._context = CONTEXT if names_target else {name: CONTEXT[name] for name in CONTEXT if name != TARGET}

    def run(self, ctx: Context, argv: Sequence[str], *, stdin: str | bytes = b"") -> dict[str, Json]:
        """Runs the program once. Answers `returncode`, `stdout` and `stderr`, each bounded, and `cut` where it was.

        Raises NotDispatchedError where it could not be started, ToolTimeoutError where it was ended after its time,
        and ToolError for an exit code that claims no success; its effect is open in both. Raises OwnFileError before
        anything is started where the working folder holds Readback's own files.
        """
        if self._apart:
            refuse_folder(self._cwd or os.curdir, self.name)
        late, running = Event(), list[subprocess.Popen[bytes]]()
        timer = Timer(self._timeout_s, _over, (running, late))
        try:  # before the program is: one that nobody watches over is not begun
            given = stdin.encode() if isinstance(stdin, str) else stdin
            timer.start()
        except (UnicodeEncodeError, RuntimeError) as error:
            raise NotDispatchedError(f"The program of {self.name!r} was not started: {error}") from error
        try:
            process = self._started(ctx, argv)
            running.append(process)
            if late.is_set():
                _kill(process)
            out, said = _served(process, given, late)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and its number still its own
        finally:
            timer.cancel()
            timer.join()
            for each in running:
                _kill(each)  # whatever it left behind in its session
                each.wait()
        if late.is_set():
            raise ToolTimeoutError(f"The program {argv[0]!r} was ended after {self._timeout_s:g} s.")
        answer = _answer(process.returncode, out, said)
        if process.returncode not in self._codes:
            why = one_line(str(answer["stderr"]), SAID_MAX_CHARS)
            raise ToolError(
                f"The program {argv[0]!r} ended with {process.returncode}: {why}",
                remedy="Its effect is being read back.",
                code="tool.exit",
            )
        return answer

    def _started(self, ctx: Context, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        told = {name: str(getattr(ctx, field)) for name, field in self._context.items()}
        try:
            return subprocess.Popen(
                list(argv),
                cwd=self._cwd,
                env={**kept, **self._env, **told},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that what it starts can be ended with it
            )
        except (OSError, ValueError, TypeError, IndexError) as error:
            raise NotDispatchedError(f"The program of {self.name!r} cannot be started: {error}") from error


def _answer(code: int, out: bytes, said: bytes) -> dict[str, Json]:
    cut = len(out) > EVIDENCE_MAX_BYTES
    text = said.decode(errors="replace")
    answer: dict[str, Json] = {
        "returncode": code,
        "stdout": out[:EVIDENCE_MAX_BYTES].decode(errors="replace"),
        "stderr": text if len(said) <= ERROR_MAX_BYTES else text[: ERROR_MAX_BYTES - 1] + CUT,
    }
    return {**answer, "cut": True} if cut else answer


def _served(process: subprocess.Popen[bytes], given: bytes, late: Event) -> tuple[bytes, bytes]:
    """What it printed, while it is given its input. More than the bounds is read and let go."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    out, said = bytearray(), bytearray()
    kept = {
        process.stdout.fileno(): (out, EVIDENCE_MAX_BYTES + 1),
        process.stderr.fileno(): (said, ERROR_MAX_BYTES + 1),
    }
    left = memoryview(given)
    with selectors.DefaultSelector() as selector, process.stdin, process.stdout, process.stderr:
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin.fileno(), selectors.EVENT_WRITE)
        for number in kept:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() and not late.is_set():
            for key, _ in selector.select(LOOK_UP_S):  # not longer: who left our session may hold the line open
                if key.fd not in kept:
                    left = _fed(key.fd, left)
                    if not left:
                        selector.unregister(key.fd)
                        process.stdin.close()
                    continue
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fd)
                buffer, most = kept[key.fd]
                buffer += chunk[: most - len(buffer)]
    return bytes(out), bytes(said)


def _fed(number: int, left: memoryview) -> memoryview:
    """What is still to be given. A program that wants no more has been given enough."""
    try:
        return left[os.write(number, left[:_CHUNK_BYTES]) :] if left else left
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[len(left) :]


def _over(running: Sequence[subprocess.Popen[bytes]], late: Event) -> None:
    late.set()
    for process in running:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The program and whatever it started. Its session's number is its own as long as it was not waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
