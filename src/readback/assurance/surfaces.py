"""A surface: a way in to Readback, such as the SDK, the gateway or a framework. Values and a protocol.

A probe is a small system with a tool and a source of settable behaviour. A surface runs the probe's action and returns
the words for the caller. The gates of surfaces judge only the words and the calls of the tool.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from readback.canon.frozen import dataclass


class Behaviour(StrEnum):
    """The behaviour of the probe's tool and source. The tool claims success in every case."""

    HONEST = "honest"
    """The tool acts, and the source shows the effect."""
    LYING = "lying"
    """The tool does nothing, and the source shows no effect."""
    LATE = "late"
    """The tool acts, and the source shows the earlier state for a while."""
    BLIND = "blind"
    """The tool acts, and the source does not answer."""


@dataclass(frozen=True, slots=True)
class Told:
    """The words for the caller of a call. `completed`: the surface's own sign of completion, such as exit code 0."""

    words: str
    completed: bool


class Probe(Protocol):
    """A system of record in a folder, with a ledger."""

    def behave(self, behaviour: Behaviour) -> None:
        """Set the behaviour from now on."""
        ...

    def calls(self, slot: str) -> int:
        """Return the number of calls of the tool for a slot."""
        ...

    def wake(self) -> None:
        """Process every due action, as a worker does."""
        ...

    def decide_not_done(self, slot: str) -> None:
        """Record a person's decision: the action of a slot was not done."""
        ...


class Surface(Protocol):
    """A way in. Reports list the stable `name`."""

    @property
    def name(self) -> str:
        """The surface's name."""
        ...

    def missing(self) -> str:
        """Return the reason for a missing installation; "" for an installed surface."""
        ...

    def probe(self) -> Probe:
        """Return a fresh probe for this surface."""
        ...

    def __hash__(self) -> int:
        """Equal surfaces run the same way in, so a process runs each once."""
        ...

    @property
    def decides(self) -> bool:
        """Whether the same operation can be asked for again after a person's decision."""
        ...

    def settled(self, probe: Probe, slot: str) -> Told:
        """Return the words about a slot after a later reading. Never a new call of the tool."""
        ...

    def ask(self, probe: Probe, slot: str) -> Told:
        """Run the probe's action for a slot: the same slot is the same operation. Raises for a broken surface."""
        ...

    def close(self, probe: Probe) -> None:
        """End all processes and sessions for the probe."""
        ...
