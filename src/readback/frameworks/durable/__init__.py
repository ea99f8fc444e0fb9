"""Public: Readback inside a step of a durable engine. `temporal`, `dbos` and `restate` serve an engine each.

A durable engine runs a step again until the step's end is recorded. Readback stands inside the step. The operation
names the workflow and the step, so a second run of the step finds the action in the ledger and executes nothing.
"""

from __future__ import annotations

import hashlib

from readback.canon.limits import ID_MAX_BYTES
from readback.errors import (
    InFlightLimitError,
    NotVerifiedError,
    SqliteTooOldError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
    StoreVersionError,
    UsageError,
)

_WORKFLOW_MAX_BYTES = 128
_NEED_REPAIR = (SqliteTooOldError, StoreCorruptError, StoreReadOnlyError, StoreVersionError)


def may_retry(error: BaseException) -> bool:
    """Return whether the engine may run a step again after this error.

    A second run under the same operation reads the ledger and never repeats the effect. Such a run helps where the
    action is still in progress, or where the ledger was busy. For a settled outcome without verification, unknown
    included, the answer is False: a person or a worker of Readback decides. Errors of other libraries give False.

    Example:
        >>> from readback.errors import ArgumentError, StoreLockedError
        >>> may_retry(StoreLockedError("busy")), may_retry(ArgumentError("no such argument"))
        (True, False)
    """
    if isinstance(error, NotVerifiedError):
        return not getattr(error.outcome, "settled", True)
    return isinstance(error, StoreError | InFlightLimitError) and not isinstance(error, _NEED_REPAIR)


def step_operation(workflow: str, *step: str) -> str:
    """Return the operation of a step. The SHA-256 replaces a workflow's name over 128 bytes.

    Args:
        workflow: The workflow's name, the same over all runs.
        step: The names of the step inside the workflow.

    Raises:
        UsageError: a name is empty, or the names of the step are too long.

    Example:
        >>> step_operation("order-17", "1", "ship")
        'order-17/1/ship'
    """
    if not workflow or not step or not all(step):
        raise UsageError(
            f"A step's operation needs the workflow and the step (got {workflow!r}, {step!r}). "
            "Call this function inside a step of a workflow."
        )
    if len(workflow.encode()) > _WORKFLOW_MAX_BYTES:
        workflow = f"sha256-{hashlib.sha256(workflow.encode()).hexdigest()}"
    operation = "/".join((workflow, *step))
    if len(operation.encode()) > ID_MAX_BYTES:
        raise UsageError(
            f"The operation has over {ID_MAX_BYTES} bytes: {operation[:80]!r}. Choose a shorter name for the step."
        )
    return operation
