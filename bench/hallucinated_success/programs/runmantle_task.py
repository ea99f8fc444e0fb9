"""Runmantle: the tool as a mediated action with a postcondition, and a task that only evidence verifies.

Built after the packaged quickstart: a worker's claim awaits evidence; the mediated action calls the tool and acquires
evidence through a registered independent provider; `resume` lets the verifier decide. The provider reads the primary
until the question holds or the stated time is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from runmantle import (
    ActionPolicy,
    ActionRequest,
    CallableEvidenceProvider,
    CapabilityDeclaration,
    CapabilityRegistry,
    DurableRuntime,
    EvidenceAcquisitionMethod,
    EvidenceProviderRegistration,
    EvidenceProviderRegistry,
    EvidenceRequirement,
    EvidenceTrustLevel,
    FieldEqualsCriterion,
    FunctionWorker,
    MediatedActionExecutor,
    Postcondition,
    RiskLevel,
    RuleBasedVerifier,
    TaskContract,
    TaskStatus,
    WorkerReport,
)

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, PATIENCE_S, SUCCESS, UNKNOWN, Task

CAPABILITY = "change-order"
OBSERVER = "bench.observer:v1"
PAUSE_S = 0.05
TOLD = {TaskStatus.VERIFIED: SUCCESS, TaskStatus.FAILED: FAILED}
"""Every other state of a task, such as awaiting evidence, is told as unknown."""


def run(task: Task) -> str:
    return asyncio.run(_run(task))


async def _run(task: Task) -> str:
    provider = CallableEvidenceProvider(
        provider=lambda request, receipt: _observe(task),
        evidence_type="order_state",
        trust_level=EvidenceTrustLevel.INDEPENDENT,
        acquisition_method=EvidenceAcquisitionMethod.INDEPENDENT_PROVIDER,
    )
    post = Postcondition(
        "read-order", "Read the order from the primary.", provider, "order_state", True, OBSERVER, {"path": "primary"}
    )
    runtime = DurableRuntime(database_path=task.world.path.with_suffix(".runmantle"), verifier=RuleBasedVerifier())
    contract = _contract(task)
    claim = await runtime.execute(_worker(), contract)
    registration = EvidenceProviderRegistration(
        provider, OBSERVER, {"path": "primary"}, EvidenceTrustLevel.INDEPENDENT,
        EvidenceAcquisitionMethod.INDEPENDENT_PROVIDER,
    )  # fmt: skip
    executor = MediatedActionExecutor(
        store=runtime.store,
        capabilities=CapabilityRegistry((_capability(),)),
        policy=ActionPolicy(
            allowed_capabilities=frozenset({CAPABILITY}), allowed_task_states=frozenset({TaskStatus.AWAITING_EVIDENCE})
        ),
        evidence_providers=EvidenceProviderRegistry((registration,)),
    )

    async def tool(arguments: Any, cancellation: Any) -> Any:
        answer = task.call("o1")
        return answer if isinstance(answer, dict) else {"text": str(answer)}

    request = ActionRequest(
        action_id="change", task_id=contract.task_id, name="change_order", required_capability=CAPABILITY,
        input={"order": "o1"}, idempotency_key="change-once", risk_level=RiskLevel.LOW, requested_by="bench",
        requested_at=claim.timestamps.pending_at or datetime.now(UTC), execution_handler_id="bench.tool:v1",
        timeout=timedelta(seconds=30), postconditions=(post,),
    )  # fmt: skip
    await executor.execute(request, contract=contract, handler=tool, granted_capabilities=frozenset({CAPABILITY}))
    ended = await runtime.resume(contract.task_id, contract=contract)
    return TOLD.get(ended.status, UNKNOWN)


async def _observe(task: Task) -> Mapping[str, Any]:
    until = time.monotonic() + PATIENCE_S
    answered = False
    while time.monotonic() < until:
        try:
            held = task.holds(task.look(fresh=True))
        except ConnectionError:
            held = False
        else:
            answered = True
        if held:
            return {"done": True}
        await asyncio.sleep(PAUSE_S)
    return {"done": False} if answered else {"reachable": False}


def _worker() -> Any:
    async def claims(contract: Any, context: Any) -> Any:
        return WorkerReport.completed({"done": True})

    return FunctionWorker(
        id="bench", name="bench", role="bench", version="1", capabilities=(_capability(),), handler=claims
    )


def _capability() -> CapabilityDeclaration:
    return CapabilityDeclaration(CAPABILITY, "Change an order.", requires_runtime_confirmation=False)


def _contract(task: Task) -> Any:
    return TaskContract(
        task_id=f"task-{task.kind}",
        objective="Change the order.",
        input={"order": "o1"},
        acceptance_criteria=(
            FieldEqualsCriterion("done", "The order is as the owner wants it.", "done", True, "order_state"),
        ),
        required_evidence=(EvidenceRequirement("order_state", "A reading of the primary."),),
        allowed_capabilities=frozenset({CAPABILITY}),
        risk_level=RiskLevel.LOW,
        timeout=timedelta(seconds=60),
        idempotency_key=f"{task.kind}-once",
    )


if __name__ == "__main__":
    serve(run)
