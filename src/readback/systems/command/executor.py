"""Act through a program: one process a call, arguments as a list, no shell, output as evidence.

Users and `configured.executors` construct the executor. An exit code is a claim; the executor does not verify. A
program over its time is killed with all its children, and the engine reads back the possible effect.
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
from readback.systems.trace_headers import outgoing

TIMEOUT_DEFAULT_S: Final = 30.0
ERROR_MAX_BYTES: Final = 4_096
SAID_MAX_CHARS: Final = 200
CUT: Final = "\u2026"
"""Mark at the end of cut output. A search for credentials looks for a partial credential there."""
KEPT: Final = ("PATH", "HOME", "LANG", "TZ")
"""Variables of our environment that the program receives."""
TARGET: Final = "READBACK_TARGET"
CONTEXT: Final = {
    "READBACK_STAMP": "stamp",
    "READBACK_IDEMPOTENCY_KEY": "idempotency_key",
    "READBACK_TENANT": "tenant",
    TARGET: "target",
}
_CHUNK_BYTES: Final = 65_536
LOOK_UP_S: Final = 0.25
"""Seconds of one wait for output before the time limit is checked."""


class CommandExecutor:
    """Run programs as actions.

    Safe from any thread. The program receives the attempt's idempotency key, stamp, tenant and target in
    READBACK_IDEMPOTENCY_KEY, READBACK_STAMP, READBACK_TENANT and READBACK_TARGET. No program runs in a folder with
    Readback's own files.

    Args:
        name: Name in evidence and messages.
        cwd: Working folder. Default: the working folder of this process.
        env: Variables besides PATH, HOME, LANG and TZ.
        codes: Exit codes that claim success.
        timeout_s: Seconds for one run.
        names_target: Pass READBACK_TARGET.
        apart: Check the working folder for Readback's own files. Pass False for fixed arguments, and for a
            program that the operator starts in the operator's own folder.

    Raises:
        UsageError: `codes` is empty.
        OwnFileError: `cwd` holds Readback's own files.

    Example:
        >>> deploy = CommandExecutor(name="deploy", cwd="/srv", timeout_s=60.0)
        >>> def release(ctx, version):
        ...     return deploy.run(ctx, ["./release.sh", version])
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
            raise UsageError("`codes` is empty. Name at least one exit code for success, such as codes=(0,).")
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
        """Run the program once.

        Args:
            ctx: Context of the action.
            argv: Program and arguments.
            stdin: Input of the program.

        Returns:
            `returncode`, `stdout` and `stderr`, each bounded, and `cut` for cut output.

        Raises:
            OwnFileError: The working folder holds Readback's own files. Nothing was started.
            NotDispatchedError: The program could not be started.
            ToolTimeoutError: The program was killed after its time. The effect is open.
            ToolError: The exit code claims no success. The effect is open.
        """
        if self._apart:
            refuse_folder(self._cwd or os.curdir, self.name)
        late, running = Event(), list[subprocess.Popen[bytes]]()
        timer = Timer(self._timeout_s, _over, (running, late))
        try:  # before the program starts: no program runs unwatched
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
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and its process id still reserved
        finally:
            timer.cancel()
            timer.join()
            for each in running:
                _kill(each)  # leftovers of the program's session
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
        trace = {name.upper(): value for name, value in outgoing(ctx).items()}
        try:
            return subprocess.Popen(
                list(argv),
                cwd=self._cwd,
                env={**kept, **trace, **self._env, **told},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that its children are killed with it
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
    """Write the input and return the output. Output over the bounds is read and dropped."""
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
            for key, _ in selector.select(LOOK_UP_S):  # short: a process outside the session may hold the pipe open
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
    """Return the rest of the input. A program may stop reading early."""
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
    """Kill the program and its children. The session id stays reserved until the wait for the program."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
