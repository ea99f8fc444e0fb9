"""The attributes of an action's spans, computed from the fold of its entries.

The live span of an execution and every projected span take their attributes from here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from readback.canon import Json, sha256_hex
from readback.domain.action.action import Action
from readback.domain.action.record_status import reconciliation_status
from readback.domain.records.pointer import EntryPointer
from readback.domain.side_effect import SideEffect
from readback.domain.tracing import names
from readback.domain.tracing.trace_context import execution_span_id, first_span_id, is_span_id, owner_of, trace_id_of

Attributes: TypeAlias = dict[str, str | int | float | bool]
HASH_CHARACTERS: Final = 16
TEXT_MAX_CHARACTERS: Final = 256
"""The length limit of a caller's text in an attribute."""
_CLASSES: Final = {each.value: each.ledger_name for each in SideEffect}
ORIGIN: Final = "origin"
"""The key of an action's context with the facts of the request at the gateway."""
TOOL_FORM: Final = "tool"
"""The key of the origin with the recorded form of the called tool. No attribute of a span."""


def terms_of(action: Action, verification_table: str) -> Attributes:
    """Return the attributes without any change after the proposal."""
    run = action.context.get("run")
    return {
        names.ACTION_ID: action.id,
        names.WORKFLOW_RUN_ID: cut(run) or names.NOT_GIVEN,
        names.TOOL_NAME: action.contract,
        names.TOOL_VERSION: action.contract_version or names.NOT_GIVEN,
        names.VERIFICATION_POLICY_VERSION: verification_table or names.NOT_GIVEN,
        names.SIDE_EFFECT_CLASS: _CLASSES.get(action.side_effect, names.NOT_GIVEN),
        names.IDEMPOTENCY_KEY_HASH: action.key_hash or names.NOT_GIVEN,
        names.TENANT_HASH: tenant_hash(action.tenant),
        names.CONTRACT: action.contract,
        names.CONTRACT_HASH: action.contract_hash or names.NOT_GIVEN,
    }


def facts_of(action: Action, recovery_table: str, position: int) -> Attributes:
    """Return the attributes as of the action's last entry. `position`: the entry's place in the log, 0 if unknown."""
    j, asked = action.judgement, action.approval
    return {
        names.RECOVERY_POLICY_VERSION: j.table or recovery_table or names.NOT_GIVEN,
        names.APPROVAL_ID: asked.id if asked is not None else names.NOT_GIVEN,
        names.RECONCILIATION_STATUS: reconciliation_status(action)._value_,
        names.DISCREPANCY_CLASS: j.discrepancy or names.NOT_GIVEN,
        names.LEDGER_ENTRY_ID: str(EntryPointer(action.id, action.version, action.head)),
        names.STATE: action.state._value_,
        names.VERDICT: j.verdict,
        names.WHY: j.why or names.NOT_GIVEN,
        names.FINDING: j.finding or names.NOT_GIVEN,
        names.ATTEMPT: action.attempts,
        names.POSITION: position,
    }


def execution_of(action: Action) -> Attributes:
    """Return the attributes of an execution by the conventions for generative AI and for the Model Context Protocol."""
    context = action.context
    found: Attributes = {
        names.OPERATION_NAME: names.EXECUTE_TOOL,
        names.GEN_AI_TOOL_NAME: action.contract,
        names.GEN_AI_TOOL_TYPE: names.FUNCTION,
        names.GEN_AI_AGENT_NAME: cut(action.principal),
    }
    if run := cut(context.get("run")):
        found[names.GEN_AI_CONVERSATION_ID] = run
    if plan := cut(context.get("plan")):
        found[names.GEN_AI_WORKFLOW_NAME] = plan
    if context.get("outside"):
        found[names.GEN_AI_TOOL_CALL_ID] = cut(action.operation)
        found[names.HANDED_OUT] = True
    origin = context.get(ORIGIN)
    if isinstance(origin, dict):
        found |= {name: cut(value) for name, value in origin.items() if name != TOOL_FORM}
    return found


def execution_name(action: Action) -> str:
    """Return the name of the span of an execution."""
    return f"{names.EXECUTE_TOOL} {action.contract}"


def trace_of(action: Action) -> str:
    """Return the trace id of the action's spans."""
    context = action.context
    owner = owner_of(action.id, str(context.get("saga") or ""), str(context.get("reverses") or ""))
    return trace_id_of(str(context.get("trace") or ""), owner)


def caller_span(action: Action) -> str:
    """Return the id of the caller's span, such as the model inference; "" where the caller named none."""
    span = str(action.context.get("parent_span") or "")
    return span if is_span_id(span) and action.context.get("trace") else ""


def execution_ids(action: Action) -> tuple[str, str]:
    """Return the id of the current execution's span, and the id of its parent."""
    return execution_span_id(action.id, action.attempts), caller_span(action) or first_span_id(action.id)


@lru_cache(maxsize=1024)
def tenant_hash(tenant: str) -> str:
    """Return a short hash in place of the tenant's name."""
    return sha256_hex(tenant.encode())[:HASH_CHARACTERS]


def cut(value: Json) -> str:
    """Return a caller's text within the length limit; "" for nothing."""
    return str(value)[:TEXT_MAX_CHARACTERS] if value else ""
