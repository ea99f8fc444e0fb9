"""Names of span attributes, spans, events and links. Every other module takes the names from here.

The conventions for generative AI and for the Model Context Protocol are in development. The package of semantic
conventions marks both as moved, so their names stand here, with the commit of the source.

Source: the action verification specification, "Required trace attributes"; the delegation verification specification,
"Verification telemetry"; open-telemetry/semantic-conventions-genai.
"""

from __future__ import annotations

from typing import Final

CONVENTIONS: Final = "open-telemetry/semantic-conventions-genai"
GEN_AI_COMMIT: Final = "e8fc5751506258db1459d1bde47994e01dee922e"
"""The commit of `model/gen-ai/registry.yaml` with the names `gen_ai.*`."""
MCP_COMMIT: Final = "4172e394d28f2d26ec4a4514a45f153580c68670"
"""The commit of `model/mcp/registry.yaml` with the names `mcp.*`."""

# --- required by the specification, on every span ---

ACTION_ID: Final = "action.id"
WORKFLOW_RUN_ID: Final = "workflow.run_id"
TOOL_NAME: Final = "tool.name"
TOOL_VERSION: Final = "tool.version"
VERIFICATION_POLICY_VERSION: Final = "verification.policy_version"
RECOVERY_POLICY_VERSION: Final = "recovery.policy_version"
SIDE_EFFECT_CLASS: Final = "side_effect_class"
IDEMPOTENCY_KEY_HASH: Final = "idempotency.key_hash"
APPROVAL_ID: Final = "approval.id"
RECONCILIATION_STATUS: Final = "reconciliation.status"
DISCREPANCY_CLASS: Final = "discrepancy.class"
LEDGER_ENTRY_ID: Final = "ledger.entry_id"
REQUIRED: Final = (
    ACTION_ID,
    WORKFLOW_RUN_ID,
    TOOL_NAME,
    TOOL_VERSION,
    VERIFICATION_POLICY_VERSION,
    RECOVERY_POLICY_VERSION,
    SIDE_EFFECT_CLASS,
    IDEMPOTENCY_KEY_HASH,
    APPROVAL_ID,
    RECONCILIATION_STATUS,
    DISCREPANCY_CLASS,
    LEDGER_ENTRY_ID,
)
NOT_GIVEN: Final = "none"
"""The value of a required attribute without a value, as in the exported record."""

# --- Readback's own, on every span ---

TENANT_HASH: Final = "readback.tenant.hash"
CONTRACT: Final = "readback.contract"
CONTRACT_HASH: Final = "readback.contract.hash"
STATE: Final = "readback.state"
VERDICT: Final = "readback.verdict"
WHY: Final = "readback.why"
FINDING: Final = "readback.finding"
ATTEMPT: Final = "readback.attempt"
POSITION: Final = "readback.ledger.position"
OWN: Final = (TENANT_HASH, CONTRACT, CONTRACT_HASH, STATE, VERDICT, WHY, FINDING, ATTEMPT, POSITION)

# --- Readback's own, on some spans ---

STRETCH: Final = "readback.stretch"
INTERRUPTED: Final = "readback.interrupted"
"""The process ended, or lost the lease, before recording the end of the span."""
OBSERVATION: Final = "readback.observation"
ROW: Final = "readback.recovery.row"
RECOVERY: Final = "readback.recovery.action"
ATTRIBUTION: Final = "readback.attribution"
REVIEW: Final = "readback.review"
CODE: Final = "readback.code"
DECISION: Final = "readback.decision"
SAGA_ID: Final = "readback.saga.id"
SAGA_STEP: Final = "readback.saga.step"
SAGA_REGION: Final = "readback.saga.region"
DIRECTION: Final = "readback.saga.direction"
CALLER_TRACE: Final = "readback.caller.trace"
"""The caller's own trace text, unless the text is a W3C trace id."""
CLAIM_KIND: Final = "readback.claim.kind"
CLAIM_STATUS: Final = "readback.claim.status"
HANDED_OUT: Final = "readback.handed_out"
"""The caller made the attempt, for example a coding agent through a hook."""
LINK: Final = "readback.link"
"""On a link: the relation of the linked span."""

READING: Final = "readback.reading"
"""The event of one reading."""
READING_SOURCE: Final = "readback.reading.source"
READING_ROLE: Final = "readback.reading.role"
READING_PRESENCE: Final = "readback.reading.presence"
READING_FAULT: Final = "readback.reading.fault"
READING_CONSISTENCY: Final = "readback.reading.consistency"
READING_SECONDS: Final = "readback.reading.seconds"
EFFECT_GROUP: Final = "readback.effect_group"

# --- delegations ---

DELEGATION_SPAN: Final = "delegation.execute"
DELEGATION_ID: Final = "delegation.id"
DELEGATION_KIND: Final = "delegation.kind"
DELEGATION_ATTEMPTS: Final = "delegation.verify_attempts"
DELEGATION_PASSED: Final = "delegation.verify_passed"
DELEGATION_OUTCOME: Final = "delegation.verify_outcome"

# --- conventions for generative AI, on executions and evaluations ---

OPERATION_NAME: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
FUNCTION: Final = "function"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_WORKFLOW_NAME: Final = "gen_ai.workflow.name"
EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
ERROR_TYPE: Final = "error.type"
TOOL_ERROR: Final = "tool_error"

# --- conventions for the Model Context Protocol, on executions by the gateway ---

MCP_METHOD_NAME: Final = "mcp.method.name"
TOOLS_CALL: Final = "tools/call"
MCP_PROTOCOL_VERSION: Final = "mcp.protocol.version"
"""The revision agreed with the server."""
NETWORK_TRANSPORT: Final = "network.transport"
PIPE: Final = "pipe"
TCP: Final = "tcp"

# --- the chain ---

VALIDATION: Final = "readback.validation"
WRAPPER: Final = "readback.wrapper"
VERIFICATION: Final = "readback.verification"
RECONCILIATION: Final = "readback.reconciliation"
RECOVERY_SPAN: Final = "readback.recovery"
STEP: Final = "readback.step"
