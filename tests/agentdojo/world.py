"""The world of one call: an environment with its tools, and the way in which a tool may fail to reach the state.

Used by the contracts' actions (which call tools through it) and by the readers (which look at the state). The clock is
the runtime's: what lands late lands when somebody looks after its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from readback.testing.runtime_virtual import VirtualRuntime
from tests.agentdojo.loader import Suite

Arguments = dict[str, Any]
Way = Callable[["World", str, Arguments], object]
"""How a call goes: it gets the tool's name and its arguments, and gives what the tool is seen to answer."""


@dataclass(slots=True)
class World:
    """One suite's world. `set_up` begins another life of it, so that contracts can be made once."""

    suite: Suite
    environment: Any = None
    runtime: VirtualRuntime = field(default_factory=VirtualRuntime)
    way: Way | None = None
    calls: list[tuple[str, Arguments]] = field(default_factory=list)
    _late: list[tuple[int, str, Arguments]] = field(default_factory=list)

    def set_up(self, environment: Any, runtime: VirtualRuntime, way: Way | None = None) -> None:
        self.environment, self.runtime, self.way = environment, runtime, way
        self.calls, self._late = [], []

    # --- what actions and faults use -----------------------------------------------------------------

    def call(self, tool: str, **arguments: Any) -> Any:
        """A tool call as an action makes it, by whatever way is set up. Its answer as plain values."""
        self.calls.append((tool, arguments))
        if self.way is None:
            return plain(self.really(tool, arguments))
        return plain(self.way(self, tool, arguments))

    def really(self, tool: str, arguments: Arguments) -> object:
        """The tool as its authors wrote it, on the state."""
        return self._run(self.look(), tool, arguments)

    def elsewhere(self, tool: str, arguments: Arguments) -> object:
        """The tool on a copy that is thrown away: its answer, and no effect."""
        return self._run(self.look().model_copy(deep=True), tool, arguments)

    def later(self, seconds: float, tool: str, arguments: Arguments) -> object:
        """The answer now, the effect in so many seconds."""
        self._late.append((self.runtime.now_us() + int(seconds * 1_000_000), tool, arguments))
        return self.elsewhere(tool, arguments)

    def _run(self, environment: Any, tool: str, arguments: Arguments) -> object:
        given = {name: value for name, value in arguments.items() if value is not None}
        answer, _ = self.suite.runtime.run_function(environment, tool, given, raise_on_error=True)
        return answer

    # --- what readers and tests use ------------------------------------------------------------------

    def look(self) -> Any:
        """The environment's models, after all that has landed by now."""
        now_us = self.runtime.now_us()
        while self._late and self._late[0][0] <= now_us:
            _, tool, arguments = self._late.pop(0)
            self._run(self.environment, tool, arguments)
        return self.environment

    def state(self) -> dict[str, Any]:
        """Everything there is, as plain values."""
        dumped: dict[str, Any] = self.look().model_dump()
        return dumped


def plain(answer: object) -> Any:
    """A tool's answer without models."""
    if isinstance(answer, BaseModel):
        return answer.model_dump()
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    return answer
