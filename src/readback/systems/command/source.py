"""A program as a system of record: JSON output is the reading, and the exit code decides the trust.

Users and `configured.sources` construct the source. There is no shell; time and output are bounded; children are killed
with the program. A failed program never means absence.
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
"""Variables of our environment that the program receives."""
CONTEXT: Final = {"READBACK_STAMP": "stamp", "READBACK_TENANT": "tenant", "READBACK_TARGET": "target"}
_CHUNK_BYTES: Final = 65_536
LOOK_UP_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the program ended. `over`: the reason for a kill, or "" where the program ended by itself."""

    code: int
    out: bytes
    said: str
    over: str = ""


class CommandSource:
    """Run a program for each reading.

    Safe from any thread. The program receives the attempt's stamp, tenant and target in READBACK_STAMP, READBACK_TENANT
    and READBACK_TARGET.

    Args:
        name: Name in readings and messages.
        cwd: Working folder.
        env: Variables besides PATH, HOME, LANG and TZ.
        absent: Exit codes for a missing object. The output is then ignored.
        timeout_s: Seconds for one run.

    Raises:
        UsageError: The name is empty, or `absent` contains 0.

    Example:
        >>> accounts = CommandSource("accounts", absent=(4,))
        >>> def account(ctx, account_id):
        ...     return accounts.read(ctx, ["accountctl", "show", "--json", account_id], version="/version")
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
            raise UsageError("Exit code 0 cannot mean absence. Remove 0 from `absent`.")
        self.name = name
        self._cwd = cwd
        self._env = dict(env or {})
        self._absent = frozenset(absent)
        self._timeout_s = timeout_s

    def read(
        self, ctx: Context, argv: Sequence[str], *, version: str = "", stamp: str = "", author: str = ""
    ) -> Reading:
        """Read the object that the program prints. null means absent, like an exit code of `absent`.

        Args:
            ctx: Context of the reader.
            argv: Program and arguments.
            version: JSON pointer to the version.
            stamp: JSON pointer to the stamp.
            author: JSON pointer to the author.

        Returns:
            The reading. A failed start or a timeout gives `unavailable`.

        Raises:
            ReaderFailedError: The program ended with another exit code.
            ReaderTypeError: The output is not JSON.
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
        """Read every object of the printed list. Raises ReaderFailedError where the search was incomplete."""
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
        """Ask for the state of the attempt: a word at the pointer `status`. Unlisted words mean pending."""
        if isinstance(landed, str) or isinstance(failed, str):  # every character would count as a word
            raise UsageError(f"Source {self.name!r} needs lists of words for `landed` and `failed`.")
        ended = self._run(ctx, argv)
        if ended.over:
            raise ReaderFailedError(f"Source {self.name!r} cannot look up the attempt: it {ended.over}.")
        if ended.code in self._absent:
            return Lookup.unknown_key()
        value = self._printed(ended)
        if value is None:
            return Lookup.unknown_key()
        return Lookup.by_word(_pointed(self.name, value, status), landed, failed, value)

    def ping(self, argv: Sequence[str]) -> None:
        """Check the source. Raises ReaderFailedError for a missing program or folder."""
        from shutil import which

        if self._cwd is not None and not os.path.isdir(self._cwd):
            raise ReaderFailedError(f"The working folder of {self.name!r} does not exist.")
        path = self._environment(None).get("PATH")
        program = os.path.join(self._cwd or ".", argv[0]) if os.sep in argv[0] else argv[0]
        if which(program, path=path) is None:
            raise ReaderFailedError(f"The program {argv[0]!r} of {self.name!r} was not found.")

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
        try:  # before the program starts: no program runs unwatched
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
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and its process id still reserved
        finally:
            timer.cancel()
            timer.join()
            for each in running:
                _kill(each)  # leftovers of the program's session
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
                start_new_session=True,  # so that its children are killed with it
            )
        except (OSError, ValueError) as error:
            return _Ended(-1, b"", "", f"cannot be started: {error}")


def _drained(process: subprocess.Popen[bytes], late: Event) -> tuple[bytes, bytes]:
    """Read both outputs to the end or to the bounds. A program over a bound or over its time is killed."""
    out, said = bytearray(), bytearray()
    assert process.stdout is not None
    assert process.stderr is not None
    kept = {process.stdout.fileno(): (out, PAYLOAD_MAX_BYTES + 1), process.stderr.fileno(): (said, ERROR_MAX_BYTES)}
    with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
        for number in kept:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() and not late.is_set() and len(out) <= PAYLOAD_MAX_BYTES:
            for key, _ in selector.select(LOOK_UP_S):  # short: a process outside the session may hold the pipe open
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
    """Kill the program and its children. The session id stays reserved until the wait for the program."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _pointed(name: str, value: Json, pointer: str) -> Json:
    """Return the value at a JSON pointer. Raises ReaderTypeError where there is none."""
    return json_pointer.pointed(value, pointer, f"What {name!r} printed has nothing at {pointer!r}.")
