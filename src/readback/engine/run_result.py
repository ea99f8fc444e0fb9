"""How work on an action can end, for now or for good."""

from __future__ import annotations

from typing import Any

from readback.canon.frozen import dataclass
from readback.engine.effects import Effect, Effects, Wait
from readback.engine.run import Run


@dataclass(frozen=True, slots=True)
class Completed:
    """The durable run. No further change is expected, or none soon."""

    run: Run


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The operation belongs to another action. `in_flight`: join the action; otherwise return its outcome."""

    action_id: str
    in_flight: bool


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another worker moved the action on: read the ledger again. `waiting`: the work stopped at a wait."""

    action_id: str
    waiting: bool = False


RunResult = Completed | Duplicate | Superseded
Work = Effects[RunResult]


# A wrapper between a driver and the engine's work. Values and errors pass as with `yield from`.


class StopAtWait(Effects[RunResult]):
    """Run a generator up to its first wait. With `may_wait` False, the work ends there, durable."""

    def __init__(
        self,
        work: Effects[RunResult],
        *,
        may_wait: bool = True,
    ) -> None:
        self._work = work
        self._may_wait = may_wait

    def send(self, answer: object) -> Effect:
        return self._passed(self._work.send(answer))

    def throw(self, *raised: Any) -> Effect:
        return self._passed(self._work.throw(*raised))

    def close(self) -> None:
        self._work.close()

    def _passed(self, step: Effect) -> Effect:
        if isinstance(step, Wait) and not self._may_wait:
            self._work.close()
            raise StopIteration(Superseded(step.action_id, waiting=True))
        return step
