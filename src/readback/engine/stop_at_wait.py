"""Standing between a driver and the engine's work: everything is passed on, errors included, as `yield from` would.

Called by attend (to stop where it would have to wait) and by the engine (a reversal that waits gives its parent back).
It adds no step, and changes none.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from readback.engine.effects import Effect, EffectResult, Wait
from readback.engine.run_result import RunResult, Superseded


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
