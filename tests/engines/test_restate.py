"""Readback inside run blocks of Restate, on Restate's own server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import processes, shop
from tests.engines.restate_server import restate_server


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
    with restate_server(home, worker[1]) as ingress:
        yield f"{ingress}/Shop/ship"


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
    assert code == 409
    assert "no verified completion occurred" in said
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
    assert first[0] == second[0] == 200
    assert first[1] != second[1]
    assert shop.counted("calls", "again-1") == 2


@pytest.mark.requirement("ENGINE-restate")
def test_an_invocation_repeated_under_its_idempotency_key_acts_once(shop_url: str) -> None:
    first, second = (processes.post(shop_url, "keyed-1", key="k1") for _ in range(2))
    assert first == second
    assert first[0] == 200
    assert shop.counted("calls", "keyed-1") == 1
