"""The kit's own tools: the model asks here about pending calls.

The texts and schemas are shared with the gateway, whose own tools carry the same names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from readback.canon import Json
from readback.errors import ArgumentError, UsageError
from readback.kit.boundary import aguarded, guarded
from readback.kit.calls import Arguments, Callee, Calls, arguments_of
from readback.kit.foreign import Way
from readback.kit.results import Attempt, ToolResult
from readback.kit.tools import Tool

STATUS: Final = "readback_status"
WAIT: Final = "readback_wait"
ASKING: Final = (WAIT, STATUS)
ID_MAX_CHARACTERS: Final = 256
ACTION_SCHEMA: Final[dict[str, Json]] = {
    "type": "string",
    "maxLength": ID_MAX_CHARACTERS,
    "description": "The id of the action: `action` in the outcome of the call that it is about.",
}
WAIT_DESCRIPTION: Final = (
    "Waits for the result of a call that was answered as pending, and returns it as that call would have. Use it "
    "in place of repeating the call: repeating may act twice. If it is still pending when the time is over, go on "
    "with what does not depend on it, and wait again later."
)


def status_description(more: str = "") -> str:
    """Return the description of readback_status. `more`: a further clause about another tool."""
    return (
        "Says at once what is known now of an action that an earlier tool call began: its state, whether it is "
        "verified, and whether repeating it is allowed. Use it to look without waiting, for instance before you plan "
        f"a step that depends on the action. To get a pending call's result use readback_wait{more}. It changes "
        "nothing."
    )


def seconds_schema(most: float) -> dict[str, Json]:
    """Return the schema of a wait's length."""
    return {
        "type": "number",
        "minimum": 0,
        "maximum": most,
        "description": f"How long to wait at most; {most:g} where it is left away.",
    }


def asking_schema(name: str, most: float) -> dict[str, Json]:
    """Return the argument schema of an asking tool."""
    properties: dict[str, Json] = {"action": ACTION_SCHEMA}
    if name == WAIT:
        properties["seconds"] = seconds_schema(most)
    return {"type": "object", "properties": properties, "required": ["action"], "additionalProperties": False}


def action_asked(arguments: object) -> str:
    """Return the id in the arguments of an asking tool. Raises ArgumentError."""
    found = arguments.get("action") if isinstance(arguments, Mapping) else None
    if not isinstance(found, str) or not found or len(found) > ID_MAX_CHARACTERS:
        raise ArgumentError("`action` must be the id of an action.")
    unknown = sorted(set(arguments) - {"action", "seconds"}) if isinstance(arguments, Mapping) else []
    if unknown:
        raise ArgumentError(f"Unknown argument {unknown[0]!r:.100}.")
    return found


def seconds_asked(arguments: Mapping[str, Any], most: float) -> float:
    """Return the length of a wait in seconds, at most `most`. Raises ArgumentError."""
    given = arguments.get("seconds", most)
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise ArgumentError("`seconds` must be a number, 0 or more.")
    return float(min(given, most))


class AskingTool(Tool):
    """readback_wait or readback_status: a question about an action, and no action itself."""

    def __init__(self, calls: Calls, name: str, most_s: float) -> None:
        description = WAIT_DESCRIPTION if name == WAIT else status_description()
        super().__init__(calls, Callee(name, None), description, asking_schema(name, most_s))
        self._most_s = most_s

    @property
    def asks(self) -> bool:
        """True: the tool answers questions about actions."""
        return True

    @property
    def may_park(self) -> bool:
        """False: a question needs no approval."""
        return False

    def run(
        self,
        arguments: Arguments,
        *,
        operation: str | None = None,
        run: str | None = None,
        wait: float | None = None,
        call: Way | None = None,
    ) -> ToolResult:
        """Answer the question. `operation`, `run` and `call` have no meaning here."""

        def work() -> ToolResult:
            action, seconds = self._asked(arguments, wait)
            return self._calls.resume(action, seconds, call) if self.name == WAIT else self._calls.look(action)

        return guarded(work, self._calls.unanswered)

    async def arun(
        self,
        arguments: Arguments,
        *,
        operation: str | None = None,
        run: str | None = None,
        wait: float | None = None,
        call: Way | None = None,
    ) -> ToolResult:
        """Answer the question on the running event loop; see `run`."""

        async def work() -> ToolResult:
            action, seconds = self._asked(arguments, wait)
            if self.name == WAIT:
                return await self._calls.aresume(action, seconds, call)
            return await asyncio.to_thread(self._calls.look, action)

        return await aguarded(work, self._calls.unanswered)

    def held(self, arguments: Arguments, *, operation: str | None = None, run: str | None = None) -> ToolResult | None:
        """Return None: a question is no action."""
        return None

    def begin(self, arguments: Arguments, *, operation: str | None = None, run: str | None = None) -> Attempt:
        """Answer the question: a host makes no call of its own here."""
        return Attempt(False, "", self.run(arguments))

    def end(
        self, action: str, value: Any = None, *, error: BaseException | str | None = None, wait: float | None = None
    ) -> ToolResult:
        """Return the error of a report without an attempt."""
        return self._calls.unanswered(UsageError(f"{self.name} makes no attempt.", remedy="Report actions alone."))

    async def aend(
        self, action: str, value: Any = None, *, error: BaseException | str | None = None, wait: float | None = None
    ) -> ToolResult:
        """Return the error of a report without an attempt."""
        return self.end(action)

    def _asked(self, arguments: Arguments, wait: float | None) -> tuple[str, float]:
        given = arguments_of(arguments)
        most = self._most_s if wait is None else min(wait, self._most_s)
        return action_asked(given), seconds_asked(given, most)
