"""How work on an action can end, for now or for good."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from readback.canon.frozen import dataclass
from readback.engine.effects import Effect, EffectResult, Wait
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


# Standing between a driver and the engine's work: everything is passed on, errors included, as `yield from` would.


class StopAtWait(Generator[Effect, EffectResult, RunResult]):
    """`may_wait` False: work that would wait is left there, durable, and ends."""

    def __init__(
        self,
        work: Generator[Effect, EffectResult, RunResult],
        *,
        may_wait: bool = True,
    ) -> None:
        self._work = work
        self._may_wait = may_wait

    def send(self, answer: EffectResult | None) -> Effect:
        return self._passed(self._work.send(answer))  # type: ignore[arg-type]

    def throw(self, *raised: Any) -> Effect:
        return self._passed(self._work.throw(*raised))

    def close(self) -> None:
        self._work.close()

    def _passed(self, step: Effect) -> Effect:
        if isinstance(step, Wait) and not self._may_wait:
            self._work.close()
            raise StopIteration(Superseded(step.action_id, waiting=True))
        return step
