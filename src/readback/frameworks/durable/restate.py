"""Public: Readback inside a Restate run block. Needs the package `restate-sdk`, version 1.3.

Restate repeats a run block until the block's end is in the journal. The invocation's id stays the same over retries and
crashes. A second invocation has a new id, and the run blocks are new operations. Under an idempotency key Restate
answers from the first invocation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from readback.errors import NotVerifiedError, ReadbackError
from readback.frameworks.durable import may_retry, step_operation
from readback.frameworks.versions import of_framework

with of_framework("restate", "Restate"):
    from restate import Context, TerminalError
    from restate.exceptions import RetryableError

RETRY_SECONDS = 5.0
_CONFLICT = 409


def operation(ctx: Context, step: str) -> str:
    """Return the operation of a run block. Retries and crashes keep the operation.

    Args:
        ctx: The handler's context.
        step: The name of the run block, unique within the handler.

    Raises:
        UsageError: the name is empty or too long.
    """
    return step_operation(ctx.request().id, step)


@contextmanager
def restate_errors(retry_seconds: float = RETRY_SECONDS) -> Iterator[None]:
    """Turn Readback's errors into Restate's, inside a run block.

    A pending action raises RetryableError: the next attempt, after `retry_seconds`, reads the ledger. Any other
    unverified outcome raises TerminalError, and Restate does not repeat the block.
    """
    try:
        yield
    except ReadbackError as error:
        outcome = error.outcome if isinstance(error, NotVerifiedError) else None
        message = getattr(outcome, "message", None) or str(error)
        if may_retry(error):
            raise RetryableError(message, retry_after=timedelta(seconds=retry_seconds)) from error
        raise TerminalError(
            message,
            status_code=_CONFLICT,
            metadata={
                "code": error.code,
                "action": getattr(outcome, "id", ""),
                "state": str(getattr(outcome, "state", "")),
            },
        ) from error
