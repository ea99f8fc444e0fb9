"""How work on an action can end, for now or for good."""

from __future__ import annotations

from collections.abc import Generator

from readback.canon.frozen import dataclass
from readback.engine.effects import Effect, EffectResult
from readback.engine.run import Run


@dataclass(frozen=True, slots=True)
class Completed:
    """Nothing more will happen by itself, or nothing soon: the run as it stands, durable."""

    run: Run


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The operation is another action's: `in_flight` to be joined, else to be answered with its outcome."""

    action_id: str
    in_flight: bool


@dataclass(frozen=True, slots=True)
class Superseded:
    """Somebody else moved the action on: look at the ledger again. `waiting`: it was left where it has to wait."""

    action_id: str
    waiting: bool = False


RunResult = Completed | Duplicate | Superseded
Work = Generator[Effect, EffectResult, RunResult]
