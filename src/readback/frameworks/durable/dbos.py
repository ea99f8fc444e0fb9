"""Public: Readback inside a DBOS step. Needs the package `dbos`, version 3.4.

Recovery, resume and rewind keep the workflow's id, so a second run of a step finds the action. A fork has a new id, and
the fork's steps are new operations. For a fork, name the operation by business data.
"""

from __future__ import annotations

from readback.frameworks.durable import may_retry, step_operation
from readback.frameworks.versions import of_framework

with of_framework("dbos", "DBOS"):
    from dbos import DBOS

__all__ = ["may_retry", "operation"]


def operation(call: str = "") -> str:
    """Return the operation of the running step. Retries, crashes and rewinds keep the operation.

    Args:
        call: The name of a call, where a step makes several.

    Raises:
        UsageError: no step of a workflow runs here.
    """
    step = DBOS.step_id
    return step_operation(DBOS.workflow_id or "", "" if step is None else str(step), *([call] if call else []))
