"""The installation's surfaces for the release gates: each runs the probe's action as a caller of the surface would."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Final

from readback.assurance.surfaces import Probe, Surface, Told
from readback.canon.frozen import dataclass
from readback.cli.gates.surfaces.processes import CommandLine, Hooks, McpServer
from readback.cli.gates.surfaces.programs import AsyncSdk, KitTools, SyncSdk
from readback.errors import UsageError

FRAMEWORKS: Final = {
    "agent_framework": "agent_framework",
    "claude_agent": "claude_agent_sdk",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "langchain": "langchain",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
    "strands": "strands",
}
"""The module of each framework with an adapter."""


@dataclass(frozen=True, slots=True)
class Framework:
    """An adapter of an agent framework. An adapter runs inside the framework's own loop, with a model."""

    adapter: str
    module: str
    decides: bool = False

    @property
    def name(self) -> str:
        return f"framework:{self.adapter}"

    def missing(self) -> str:
        try:
            found = find_spec(self.module)
        except ModuleNotFoundError:
            found = None
        return "" if found is not None else f"the framework {self.module} is not installed."

    def probe(self) -> Probe:
        said = f"The adapter {self.adapter} cannot be run without the framework's loop and a model."
        raise UsageError(said, remedy="Run the framework's conformance tests of this package.")

    def ask(self, probe: Probe, slot: str) -> Told:
        raise UsageError("A framework's adapter has no call of its own.")

    def settled(self, probe: Probe, slot: str) -> Told:
        return self.ask(probe, slot)

    def close(self, probe: Probe) -> None:
        """Nothing was started."""


@cache
def installed_surfaces() -> tuple[Surface, ...]:
    """Return every surface of this release, installed or not."""
    frameworks = tuple(Framework(adapter, module) for adapter, module in sorted(FRAMEWORKS.items()))
    return (SyncSdk(), AsyncSdk(), CommandLine(), KitTools(), McpServer(), Hooks(), *frameworks)
