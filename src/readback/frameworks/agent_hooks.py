"""Public: Readback as an interceptor of the agent-hooks contract. Works in every host that emits AGENT-HOOKS-0.1.

The host makes the calls. The interceptor commits an attempt before a governed call, reads back after the call, and
replaces the tool's answer by the reconciled result. Register the interceptor last: later interceptors see and change
what Readback has already recorded. A parked call is denied, and no approval of the host lifts the denial.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

from readback.errors import UsageError
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool

with of_framework("agent-hooks", "agent-hooks"):
    from agent_hooks import AgentContext, Decision, Transform, Verdict

check_version("agent-hooks", distribution="agent-hooks-sdk", lowest="0.1.0", below="0.2")

WAIT_SECONDS: Final = 3.0
"""Hosts end an interceptor after 5 seconds, as the contract recommends."""
OPEN_MAX: Final = 10_000
"""Most attempts between their two hooks; the oldest is forgotten first, and a forgotten call's answer is denied."""


class ReadbackInterceptor:
    """Govern the tools of a host that have a contract file, and check the answers.

    Args:
        kit: The open kit, with `contracts=[...]` for the host's tools.
        tools: The JSON Schemas of the arguments, by the name of each governed tool.
        wait: Seconds to wait for a settled outcome after a call.

    A failure inside raises: the contract makes the host deny then.
    """

    def __init__(self, kit: Kit, tools: Mapping[str, Mapping[str, Any]], wait: float = WAIT_SECONDS) -> None:
        self._kit, self._wait = kit, wait
        self._tools = {name: kit.govern(name, schema) for name, schema in tools.items()}
        self._open: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._lock = Lock()

    async def intercept(self, context: AgentContext, /) -> Verdict:
        """Return the verdict of an interception point."""
        match context["interception_point"]:
            case "agent_startup":
                self._kit.warn_ungoverned("agent-hooks", context["agent_init"]["tools_registered"])
            case "pre_tool_call":
                return await self._before(context)
            case "post_tool_call":
                return await self._after(context)
            case "output":
                return await self._answer(context)
            case _:
                pass
        return Verdict.allow()

    async def _before(self, context: AgentContext) -> Verdict:
        call, run = context["tool_call"], context["session"]["id"]
        tool = self._governed(call["name"])
        if tool is None:
            return Verdict.allow()
        operation = await self._kit.aoperation(tool.name, call["args"], run=run, call_id=call["id"])
        attempt = await tool.abegin(call["args"], operation=operation, run=run)
        if not attempt.allowed:
            return _denied(attempt.result.text, attempt.result.message)
        with self._lock:
            self._open[run, call["id"]] = attempt.action
            while len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        return Verdict.allow()

    async def _after(self, context: AgentContext) -> Verdict:
        call, run = context["tool_call"], context["session"]["id"]
        tool = self._governed(call["name"])
        if tool is None:
            return Verdict.allow()
        with self._lock:
            action = self._open.pop((run, call["id"]), "")
        if not action:
            return _denied("[action outcome] Unknown: the call has no attempt in the ledger. Do not repeat it.", "")
        answer = context["tool_result"]
        error = _text(answer["value"]) if answer.get("is_error") else None
        result = await tool.aend(action, answer["value"], error=error, wait=self._wait)
        if not result.ok:
            return _denied(result.text, result.message)
        return Verdict(decision=Decision.TRANSFORM, transform=Transform("$target", result.text))

    async def _answer(self, context: AgentContext) -> Verdict:
        content = context["output"]["content"]
        found = await self._kit.afinal(_text(content), run=context["session"]["id"])
        if found.ok:
            return Verdict.allow()
        return Verdict(decision=Decision.TRANSFORM, transform=Transform("$target.content", found.text))

    def _governed(self, name: str) -> Tool | None:
        if name in self._tools or not self._kit.governs(name):
            return self._tools.get(name)
        raise UsageError(
            f"A contract file governs {name!r}, and the interceptor has no schema. Pass tools={{{name!r}: SCHEMA}}."
        )


def _denied(reason: str, message: str) -> Verdict:
    """A denial without an approval block: a host's approval is no signature of Readback."""
    return Verdict.deny(reason=reason, message=message or None)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping) and isinstance(content.get("text"), str):
        return str(content["text"])
    return str(content)
