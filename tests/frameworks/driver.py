"""What a driver of a framework is: scripted turns in, results, texts and pauses out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the scripted model. `arguments` that are a text reach the framework as they are."""

    name: str
    arguments: Any
    id: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the scripted model has been shown before its turn."""

    results: tuple[str, ...]
    """The texts of all tool results, oldest first."""
    text: str
    """All messages as one text."""


Turn = str | Sequence[Call] | Callable[[Seen], "str | Sequence[Call]"]
"""The final text, the calls of one turn, or a function that chooses between both."""


def played(turn: Turn, seen: Seen) -> str | Sequence[Call]:
    """The turn itself, where a turn may be a function."""
    return turn(seen) if callable(turn) else turn


@dataclass(frozen=True, slots=True)
class Result:
    """One tool result as the framework recorded it."""

    name: str
    ok: bool
    """The framework's flag for success; the first line of the text where a framework has no flag."""
    text: str


@dataclass(slots=True)
class Played:
    """What one run of the framework left."""

    results: list[Result] = field(default_factory=list)
    final: str = ""
    """The final answer that the application receives."""
    streamed: str = ""
    """Text that left before the end, in a stream."""
    actions: tuple[str, ...] = ()
    """The ids of the actions behind the framework's pause."""
    raised: str = ""
    """The type of the exception that ended the run."""
    state: Any = None
    """What the driver needs to resume."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a scenario wants a run to be made."""

    run: str = "r1"
    way: Literal["async", "sync", "stream"] = "async"
    foreign: Literal["", "local", "mcp"] = ""
    """How the foreign tool `enter` is attached: as the framework's own tool, or by the framework's MCP client."""
    ungoverned: bool = False
    """Whether a tool without a contract (`peek`) is attached too."""
    store: Path | None = None
    """The folder of the framework's own store, for a crash."""
    again: bool = False
    """Whether the run resumes from that store."""
    broken: str = ""
    """The hook of the adapter that raises, of `Driver.hooks`."""


class Driver:
    """One framework. A driver holds no expectation: scenarios judge.

    A subclass sets the fields and implements `play` and `resume`.
    """

    name = ""
    packages: tuple[str, ...] = ()
    """Distributions with versions worth recording; the first is the framework itself."""
    ways: tuple[str, ...] = ("async", "sync", "stream")
    blocking = False
    """Whether the adapter calls a tool in the caller's thread, so that the synchronous `rb.run` is its measure."""
    hooks: tuple[str, ...] = ()
    """The adapter's hooks, each of which a scenario makes raise."""
    cannot: dict[str, str] = {}
    """Scenarios that the framework cannot have, each with the reason that the page prints."""
    notes: dict[str, str] = {}
    """Features with a limit that the page prints beside a passed scenario: `stream` and the like."""

    def __init__(self, kit: Any) -> None:
        self.kit = kit

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """Run the agent with a scripted model. Exceptions of the framework become `Played.raised`."""
        raise NotImplementedError

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        """Resume a paused run after the person's answer in the framework: accepted, or rejected."""
        raise NotImplementedError

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """Run the same model turn twice by the framework's own retry, time travel or history, and return the second."""
        raise NotImplementedError

    async def hazards(self) -> list[str]:
        """Try what is dangerous in this framework alone, and return the faults. The shop is fresh."""
        return []

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        """The adapter's own call of `touch` with the given number, without the framework's loop: see `overhead`."""
        raise NotImplementedError
