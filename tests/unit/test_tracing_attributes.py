"""The attributes of an execution: which facts of the record are of a span, and which caller is its parent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from readback.domain.tracing import names
from readback.domain.tracing.attributes import (
    ORIGIN,
    TEXT_MAX_CHARACTERS,
    TOOL_FORM,
    caller_span,
    execution_ids,
    execution_name,
    execution_of,
)
from readback.domain.tracing.trace_context import execution_span_id, first_span_id

SPAN, TRACE = "00f067aa0ba902b7", "4bf92f3577b34da6a3ce929d0e0e4736"


def action(**context: Any) -> Any:
    return SimpleNamespace(
        id="a1", contract="ship", principal="agent:ops", operation="op-1", attempts=2, context=context
    )


@pytest.mark.requirement("SPAN-gateway", "SPAN-conventions")
def test_the_origin_of_a_call_is_of_its_span_and_the_form_of_its_tool_is_not() -> None:
    origin = {names.MCP_METHOD_NAME: names.TOOLS_CALL, "long": "x" * 300, TOOL_FORM: {"sha256": "0"}}
    found = execution_of(action(**{ORIGIN: origin}))
    assert found == {
        names.OPERATION_NAME: names.EXECUTE_TOOL,
        names.GEN_AI_TOOL_NAME: "ship",
        names.GEN_AI_TOOL_TYPE: names.FUNCTION,
        names.GEN_AI_AGENT_NAME: "agent:ops",
        names.MCP_METHOD_NAME: names.TOOLS_CALL,
        "long": "x" * TEXT_MAX_CHARACTERS,
    }
    assert execution_name(action()) == f"{names.EXECUTE_TOOL} ship"


@pytest.mark.requirement("SPAN-conventions")
def test_run_plan_and_an_attempt_of_the_caller_are_named_where_they_are_there() -> None:
    found = execution_of(action(run="r1", plan="p1", outside="1"))
    assert found[names.GEN_AI_CONVERSATION_ID] == "r1"
    assert found[names.GEN_AI_WORKFLOW_NAME] == "p1"
    assert (found[names.GEN_AI_TOOL_CALL_ID], found[names.HANDED_OUT]) == ("op-1", True)
    plain = execution_of(action(run="", plan=""))
    missing = (names.GEN_AI_CONVERSATION_ID, names.GEN_AI_WORKFLOW_NAME, names.GEN_AI_TOOL_CALL_ID, names.HANDED_OUT)
    assert not plain.keys() & {*missing}


@pytest.mark.requirement("SPAN-incoming")
@pytest.mark.parametrize(
    ("context", "span"),
    [
        ({"parent_span": SPAN, "trace": TRACE}, SPAN),
        ({"parent_span": SPAN}, ""),
        ({"parent_span": "no span", "trace": TRACE}, ""),
        ({"trace": TRACE}, ""),
        ({}, ""),
    ],
)
def test_the_caller_of_a_trace_is_the_parent_else_the_first_span_of_the_action(
    context: dict[str, str], span: str
) -> None:
    assert caller_span(action(**context)) == span
    assert execution_ids(action(**context)) == (execution_span_id("a1", 2), span or first_span_id("a1"))
