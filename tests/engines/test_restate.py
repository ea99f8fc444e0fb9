"""Readback inside run blocks of Restate, on Restate's own server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import processes, shop


TRIES_MAX = 5_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop.HOME = tmp_path_factory.mktemp("restate")
    return shop.HOME


@pytest.fixture(scope="module")
def worker(home: Path) -> Iterator[tuple[processes.Supervised, str]]:
    port = str(processes.free_port())
    with processes.Supervised(processes.python("tests.engines.restate_worker", port), home) as supervised:
        yield supervised, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def shop_url(home: Path, worker: tuple[processes.Supervised, str]) -> Iterator[str]:
    """The service's address at the ingress of a server of this test's own."""
    found = list(Path(sys.prefix).glob("restate/node_modules/@restatedev/restate-server-*/bin/restate-server"))
    assert len(found) == 1, "scripts/engines.sh installs the server"
    admin, ingress, node = (processes.free_port() for _ in range(3))
    (home / "restate.toml").write_text(
        f'[admin]\nbind-address = "127.0.0.1:{admin}"\n[ingress]\nbind-address = "127.0.0.1:{ingress}"\n'
    )
    command = [str(found[0]), "-c", "restate.toml", "--base-dir", str(home / "restate"), "--node-name", "shop",
               "--bind-ip", "127.0.0.1", "--bind-port", str(node), "--listen-mode", "tcp", "--no-logo"]  # fmt: skip
    with processes.process(command, home, "server.log", "Admin API starting"):
        registered = [processes.post(f"http://127.0.0.1:{admin}/deployments", {"uri": worker[1]})]
        while registered[-1][0] == 0 and len(registered) < TRIES_MAX:
            registered.append(processes.post(f"http://127.0.0.1:{admin}/deployments", {"uri": worker[1]}))
        assert registered[-1][0] == 201, registered[-1]
        tries = 0
        while "Shop" not in processes.get(f"http://127.0.0.1:{ingress}/restate/health")[1] and tries < TRIES_MAX:
            tries += 1
        yield f"http://127.0.0.1:{ingress}/Shop/ship"


@pytest.mark.requirement("ENGINE-restate")
def test_a_service_killed_between_effect_and_completion_leaves_one_effect(
    shop_url: str, worker: tuple[processes.Supervised, str]
) -> None:
    code, cited = processes.post(shop_url, "crash-1")
    assert (code, cited[:11]) == (200, '"[readback:')
    assert worker[0].started == 2
    assert (shop.counted("steps", "crash-1"), shop.counted("calls", "crash-1")) == (2, 1)


@pytest.mark.requirement("ENGINE-restate")
def test_a_lie_ends_the_block_at_once_and_is_not_retried(shop_url: str) -> None:
    code, said = processes.post(shop_url, "lie-1")
    assert code == 409 and "no verified completion occurred" in said
    assert (shop.counted("steps", "lie-1"), shop.counted("calls", "lie-1")) == (1, 1)


@pytest.mark.requirement("ENGINE-restate")
def test_a_pending_action_is_awaited_by_retries_that_call_nothing(shop_url: str) -> None:
    code, cited = processes.post(shop_url, "late-1")
    assert (code, cited[:11]) == (200, '"[readback:')
    assert shop.counted("steps", "late-1") > 1
    assert shop.counted("calls", "late-1") == 1


@pytest.mark.requirement("ENGINE-new-run")
def test_a_second_invocation_is_a_new_operation(shop_url: str) -> None:
    first, second = processes.post(shop_url, "again-1"), processes.post(shop_url, "again-1")
    assert first[0] == second[0] == 200 and first[1] != second[1]
    assert shop.counted("calls", "again-1") == 2
