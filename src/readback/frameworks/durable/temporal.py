"""Public: Readback inside a Temporal activity. Needs the package `temporalio`, version 1.35.

The interceptor carries the workflow's original run to each activity. A reset of the workflow keeps the original run, so
a repeated activity finds the action. A continued workflow, a cron run and a retried workflow have a run of their own,
and their activities are new operations.
"""

from __future__ import annotations

from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from readback.errors import NotVerifiedError, ReadbackError, UsageError
from readback.frameworks.durable import may_retry, step_operation
from readback.frameworks.versions import of_framework

with of_framework("temporal", "Temporal"):
    from temporalio import activity, workflow
    from temporalio.exceptions import ApplicationError
    from temporalio.worker import (
        ActivityInboundInterceptor,
        ExecuteActivityInput,
        Interceptor,
        StartActivityInput,
        StartLocalActivityInput,
        WorkflowInboundInterceptor,
        WorkflowInterceptorClassInput,
        WorkflowOutboundInterceptor,
    )

_HEADER = "readback-original-run"
_ORIGINAL_RUN: ContextVar[str] = ContextVar("readback-original-run", default="")
RETRY_SECONDS = 5.0


def operation(call: str = "") -> str:
    """Return the operation of the running activity. Retries, crashes and resets keep the operation.

    Args:
        call: The name of a call, where an activity makes several.

    Raises:
        UsageError: no workflow's activity runs here, or the worker lacks `ReadbackInterceptor`.
    """
    run = _ORIGINAL_RUN.get()
    if not run:
        raise UsageError(
            "No operation: the activity's original run is unknown. "
            "Open the worker with Worker(..., interceptors=[ReadbackInterceptor()]), or pass a business key."
        )
    info = activity.info()
    return step_operation(f"{info.workflow_id}/{run}", info.activity_id, *([call] if call else []))


class ReadbackInterceptor(Interceptor):
    """Give each activity an operation, and turn Readback's errors into Temporal's.

    `retry_seconds`: seconds until the next look at an action in progress.

    A pending action raises a retryable error: the next attempt reads the ledger. Any other unverified outcome raises a
    non-retryable error whose type is Readback's error code and whose first detail holds the action's id and state.
    """

    def __init__(self, retry_seconds: float = RETRY_SECONDS) -> None:
        self._delay = timedelta(seconds=retry_seconds)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """Wrap each activity of the worker."""
        return _Activity(next, self._delay)

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002
        """Wrap each workflow of the worker."""
        return _Workflow


class _Activity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, delay: timedelta) -> None:  # noqa: A002
        super().__init__(next)
        self._delay = delay

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        sent = input.headers.get(_HEADER)
        token = _ORIGINAL_RUN.set(activity.payload_converter().from_payload(sent, str) if sent is not None else "")
        try:
            return await super().execute_activity(input)
        except ReadbackError as error:
            raise _application_error(error, self._delay) from error
        finally:
            _ORIGINAL_RUN.reset(token)


def _application_error(error: ReadbackError, delay: timedelta) -> ApplicationError:
    outcome = error.outcome if isinstance(error, NotVerifiedError) else None
    details = {"action": getattr(outcome, "id", ""), "state": str(getattr(outcome, "state", ""))}
    again = may_retry(error)
    return ApplicationError(
        getattr(outcome, "message", None) or str(error),
        details,
        type=error.code,
        non_retryable=not again,
        next_retry_delay=delay if again else None,
    )


class _Workflow(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        input.headers = {**input.headers, _HEADER: _original_run()}
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        input.headers = {**input.headers, _HEADER: _original_run()}
        return super().start_local_activity(input)


def _original_run() -> Any:
    return workflow.payload_converter().to_payload(workflow.info().original_execution_run_id)
