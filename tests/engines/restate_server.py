"""A Restate server of a test's own, with one service registered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engines import processes

TRIES_MAX = 20_000
"""Requests until the server, or the service behind it, answers; each that finds nobody takes under a millisecond."""


@contextmanager
def restate_server(home: Path, service: str) -> Iterator[str]:
    """Start the server, register the service at the given address, and yield the ingress's address."""
    found = list(Path(sys.prefix).glob("restate/node_modules/@restatedev/restate-server-*/bin/restate-server"))
    assert len(found) == 1, "scripts/engines.sh installs the server"
    admin, ingress, node = (processes.free_port() for _ in range(3))
    (home / "restate.toml").write_text(
        f'[admin]\nbind-address = "127.0.0.1:{admin}"\n[ingress]\nbind-address = "127.0.0.1:{ingress}"\n'
    )
    command = [str(found[0]), "-c", "restate.toml", "--base-dir", str(home / "restate"), "--node-name", "shop",
               "--bind-ip", "127.0.0.1", "--bind-port", str(node), "--listen-mode", "tcp", "--no-logo"]  # fmt: skip
    with processes.process(command, home, "server.log", "Admin API starting"):
        _until(lambda: processes.get(service)[0] != 0, "the service does not listen")
        _until(lambda: _registered(admin, service), "the service was not registered")
        health = f"http://127.0.0.1:{ingress}/restate/health"
        _until(lambda: "Shop" in processes.get(health)[1], "the ingress does not know the service")
        yield f"http://127.0.0.1:{ingress}"


def _registered(admin: int, service: str) -> bool:
    code, text = processes.post(f"http://127.0.0.1:{admin}/deployments", {"uri": service})
    assert code in (0, 201), text
    return code == 201


def _until(holds: Callable[[], bool], fault: str) -> None:
    assert any(holds() for _ in range(TRIES_MAX)), fault
