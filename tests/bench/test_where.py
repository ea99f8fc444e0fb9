"""The account of where time goes counts what it says: sessions by what they are at, and all processors' time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from bench.scale.where import _named, account
from bench.side_by_side.postgres import PostgresServer


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (("client backend", "idle", "Client", "ClientRead", "COMMIT"), ""),
        (("client backend", "active", "", "", "INSERT"), "statement: at work"),
        (("client backend", "active", "IO", "WalSync", "commit"), "commit: IO/WalSync"),
        (("client backend", "active", "Client", "ClientRead", "INSERT"), "in a statement, waits for its client"),
        (
            ("client backend", "idle in transaction", "Client", "ClientRead", ""),
            "in a transaction, waits for its client",
        ),
        (("walwriter", "", "Activity", "WalWriterMain", ""), ""),
        (("walwriter", "", "IO", "WalSync", ""), "walwriter: WalSync"),
    ],
)
def test_a_session_is_named_by_what_it_is_at(session: tuple[str, str, str, str, str], said: str) -> None:
    assert _named(*session) == said


@pytest.mark.slow
def test_the_account_of_a_run_adds_up_to_the_time_of_all_cores() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with PostgresServer(Path(folder)) as server:
            found = account(server, "one", 1, 200)
    assert min(found.main, found.threads, found.server) > 0
    assert found.commits > 1
    cores = os.cpu_count() or 1
    whole = found.main + found.threads + found.server + found.others + found.idle
    assert 0.5 * cores * found.elapsed < whole < 1.5 * cores * found.elapsed + 1
