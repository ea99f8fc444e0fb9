"""Standing between a driver and the engine's work: everything is passed on, errors included, as `yield from` would.

Called by attend (to stop where it would have to wait) and by the engine (a reversal that waits gives its parent back).
It adds no step, and changes none.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from readback.engine.effects import Answer, Step, Wait
from readback.engine.run_result import Elsewhere, Ended


class Relay(Generator[Step, Answer, Ended]):
    """`may_wait` False: work that would wait is left there, durable, and ends."""

    def __init__(
        self,
        work: Generator[Step, Answer, Ended],
        *,
        may_wait: bool = True,
    ) -> None:
        self._work = work
        self._may_wait = may_wait

    def send(self, answer: Answer | None) -> Step:
        return self._passed(self._work.send(answer))  # type: ignore[arg-type]

    def throw(self, *raised: Any) -> Step:
        return self._passed(self._work.throw(*raised))

    def close(self) -> None:
        self._work.close()

    def _passed(self, step: Step) -> Step:
        if isinstance(step, Wait) and not self._may_wait:
            self._work.close()
            raise StopIteration(Elsewhere(step.action_id, waiting=True))
        return step
