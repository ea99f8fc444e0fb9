"""A program as a system of record: what it prints as JSON is the reading, and its exit code says whether to believe it.

Constructed by `sdk.fittings` for contract files, and by users. No shell, a bounded time and bounded output; what it
started is ended with it, and waited for. Nothing of a failed program is ever taken for absence.
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

from readback.canon import CanonError, Json, ReadbackError, parse_json, why_not_json
from readback.canon.frozen import dataclass
from readback.canon.limits import PAYLOAD_MAX_BYTES
from readback.domain import json_pointer
from readback.domain.context import Context
from readback.domain.verification.observation_signs import one_line
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import ReaderFailedError, ReaderTypeError, UsageError

TIMEOUT_DEFAULT_S: Final = 10.0
ERROR_MAX_BYTES: Final = 4_096
SAID_MAX_CHARS: Final = 200
ITEMS_MAX: Final = 1_000
KEPT: Final = ("PATH", "HOME", "LANG", "TZ")
"""Of our own environment, what the program is given."""
CONTEXT: Final = {"READBACK_STAMP": "stamp", "READBACK_TENANT": "tenant", "READBACK_TARGET": "target"}
_CHUNK_BYTES: Final = 65_536
LOOK_UP_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the program ended. `over`: why it was ended by us; "" where it ended by itself."""

    code: int
    out: bytes
    said: str
    over: str = ""


class CommandSource:
    """Runs a program once a reading. Safe from any thread.

    `env`: beside PATH, HOME, LANG and TZ. The program is told the attempt's stamp, tenant and target in
    READBACK_STAMP, READBACK_TENANT and READBACK_TARGET. `absent`: exit codes by which it says that there is no such
    object; what it prints then does not count.
    """

    def __init__(
        self,
        name: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        absent: Collection[int] = (),
        timeout_s: float = TIMEOUT_DEFAULT_S,
    ) -> None:
        if not name:
            raise UsageError("A source needs a name.")
        if 0 in absent:
            raise UsageError("Exit code 0 shows what was printed; it cannot mean absence.")
        self.name = name
        self._cwd = cwd
        self._env = dict(env or {})
        self._absent = frozenset(absent)
        self._timeout_s = timeout_s

    def read(
        self, ctx: Context, argv: Sequence[str], *, version: str = "", stamp: str = "", author: str = ""
    ) -> Reading:
        """The object that the program prints; null is absence, as is an exit code of `absent`.

        `version`, `stamp` and `author` are JSON pointers into it. A program that cannot be started or takes too long
        leaves the source unavailable. Raises ReaderFailedError for another exit code, ReaderTypeError for no JSON.
        """
        ended = self._run(ctx, argv)
        if ended.over:
            return Reading.unavailable(f"{self.name} {ended.over}")
        if ended.code in self._absent:
            return Reading.absent()
        value = self._printed(ended)
        return Reading.absent() if value is None else self._reading(value, version, stamp, author)

    def find(
        self, ctx: Context, argv: Sequence[str], *, version: str = "", stamp: str = "", author: str = ""
    ) -> list[Reading]:
        """Every object of the list that the program prints. Raises ReaderFailedError where it was not a whole look."""
        ended = self._run(ctx, argv)
        if ended.over:
            raise ReaderFailedError(f"Source {self.name!r} could not be searched: it {ended.over}.")
        found = self._printed(ended)
        if not isinstance(found, list):
            raise ReaderTypeError(f"Source {self.name!r} printed no list.")
        if len(found) > ITEMS_MAX:
            raise ReaderFailedError(f"Source {self.name!r} found more than {ITEMS_MAX} objects.")
        return [self._reading(each, version, stamp, author) for each in found]

    def lookup(
        self, ctx: Context, argv: Sequence[str], *, status: str, landed: Collection[str], failed: Collection[str]
    ) -> Lookup:
        """What became of the attempt, by the word at the pointer `status`; any other word is pending."""
        if isinstance(landed, str) or isinstance(failed, str):  # of which every part would be such a word
            raise UsageError(f"Source {self.name!r} takes `landed` and `failed` as lists of words.")
        ended = self._run(ctx, argv)
        if ended.over:
            raise ReaderFailedError(f"Source {self.name!r} cannot say what became of it: it {ended.over}.")
        if ended.code in self._absent:
            return Lookup.unknown_key()
        value = self._printed(ended)
        if value is None:
            return Lookup.unknown_key()
        return Lookup.by_word(_pointed(self.name, value, status), landed, failed, value)

    def ping(self, argv: Sequence[str]) -> None:
        """Raises ReaderFailedError where there is no such program, or no such folder."""
        from shutil import which

        if self._cwd is not None and not os.path.isdir(self._cwd):
            raise ReaderFailedError(f"The working folder of {self.name!r} is not there.")
        path = self._environment(None).get("PATH")
        program = os.path.join(self._cwd or ".", argv[0]) if os.sep in argv[0] else argv[0]
        if which(program, path=path) is None:
            raise ReaderFailedError(f"The program {argv[0]!r} of {self.name!r} is not here.")

    # --- what it printed -------------------------------------------------------------------------------------------

    def _printed(self, ended: _Ended) -> Json:
        if ended.code != 0:
            said = one_line(ended.said, SAID_MAX_CHARS)
            raise ReaderFailedError(f"The program of {self.name!r} ended with {ended.code}: {said}")
        try:
            return parse_json(ended.out)
        except ReadbackError as error:
            raise ReaderTypeError(f"The program of {self.name!r} printed no JSON: {why_not_json(error)}") from error

    def _reading(self, value: Json, version: str, stamp: str, author: str) -> Reading:
        number = _pointed(self.name, value, version) if version else None
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | str)):
            raise ReaderTypeError(f"The version of {self.name!r} is neither a number nor a text.")
        mark = _pointed(self.name, value, stamp) if stamp else None
        by = _pointed(self.name, value, author) if author else None
        try:
            return Reading.of(
                value,
                version=number,
                stamp=None if mark is None else str(mark),
                author=None if by is None else str(by),
            )
        except CanonError as error:
            raise ReaderTypeError(f"What {self.name!r} printed has no JSON form: {error.message}") from error

    # --- the process -----------------------------------------------------------------------------------------------

    def _environment(self, ctx: Context | None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        told = {} if ctx is None else {name: str(getattr(ctx, field)) for name, field in CONTEXT.items()}
        return {**kept, **self._env, **told}

    def _run(self, ctx: Context, argv: Sequence[str]) -> _Ended:
        late, running = Event(), list[subprocess.Popen[bytes]]()
        timer = Timer(self._timeout_s, _over, (running, late))
        try:  # before the program is: one that nobody watches over is not begun
            timer.start()
        except RuntimeError as error:
            return _Ended(-1, b"", "", f"cannot be watched over: {error}")
        try:
            process = self._started(ctx, argv)
            if isinstance(process, _Ended):
                return process
            running.append(process)
            if late.is_set():
                _kill(process)
            out, said = _drained(process, late)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and its number still its own
        finally:
            timer.cancel()
            timer.join()
            for each in running:
                _kill(each)  # whatever it left behind in its session
                each.wait()
        if late.is_set():
            return _Ended(-1, b"", "", f"took over {self._timeout_s:g} s")
        if len(out) > PAYLOAD_MAX_BYTES:
            raise ReaderTypeError(f"The program of {self.name!r} printed over {PAYLOAD_MAX_BYTES} bytes.")
        return _Ended(process.returncode, out, " ".join(said.decode(errors="replace").split()))

    def _started(self, ctx: Context, argv: Sequence[str]) -> subprocess.Popen[bytes] | _Ended:
        try:
            return subprocess.Popen(
                list(argv),
                cwd=self._cwd,
                env=self._environment(ctx),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that what it starts can be ended with it
            )
        except (OSError, ValueError) as error:
            return _Ended(-1, b"", "", f"cannot be started: {error}")


def _drained(process: subprocess.Popen[bytes], late: Event) -> tuple[bytes, bytes]:
    """Both outputs, to their ends or to their bounds. What is over its bound, or late, ends the program."""
    out, said = bytearray(), bytearray()
    assert process.stdout is not None
    assert process.stderr is not None
    kept = {process.stdout.fileno(): (out, PAYLOAD_MAX_BYTES + 1), process.stderr.fileno(): (said, ERROR_MAX_BYTES)}
    with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
        for number in kept:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() and not late.is_set() and len(out) <= PAYLOAD_MAX_BYTES:
            for key, _ in selector.select(LOOK_UP_S):  # not longer: who left our session may hold the line open
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fd)
                    continue
                buffer, most = kept[key.fd]
                buffer += chunk[: most - len(buffer)]
    if len(out) > PAYLOAD_MAX_BYTES:
        _kill(process)
    return bytes(out), bytes(said)


def _over(running: Sequence[subprocess.Popen[bytes]], late: Event) -> None:
    late.set()
    for process in running:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The program and whatever it started. Its session's number is its own as long as it was not waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _pointed(name: str, value: Json, pointer: str) -> Json:
    """What a JSON pointer points at. Raises ReaderTypeError where there is nothing."""
    return json_pointer.pointed(value, pointer, f"What {name!r} printed has nothing at {pointer!r}.")
