"""An action as its events tell it: the fold. There is no other source of its state.

Used by the engine while it works, by resume after a crash, and by audit, which folds again and compares. Applying an
event only records; what may follow what is checked against the transition table.
"""

from __future__ import annotations

from dataclasses import dataclass

from readback.domain import state as states
from readback.domain.action.action_state import ActionState
from readback.domain.action.erasure import let_go
from readback.domain.action.event_handlers import FOLD
from readback.domain.errors import StoreCorruptError
from readback.domain.events import Event, EventKind
from readback.domain.state import State

_ERASED, _BEGUN = EventKind.ERASED, State.PROPOSED


@dataclass(slots=True)
class Action(ActionState):
    """One action's facts, as of the last entry that was applied."""

    def apply(self, event: Event, head: str) -> None:
        """Takes one more event. `head`: its leaf hash in hex. Raises StoreCorruptError where it cannot be."""
        for step in event.path:
            if self.version == 0 and step is _BEGUN:
                continue
            if not states.can(self.state, step):
                raise StoreCorruptError(f"Action {self.id} went from {self.state} to {step}, which cannot be.")
            self.state = step
        self.version += 1
        self.head = head
        if event.kind is not _ERASED:  # which leaves everything where it was, its age too
            self.updated_us = event.at_us
        try:
            if self.erased and event.refs:
                self.erased = let_go(self.erased, event)
            FOLD[event.kind](self, event)
        except KeyError as missing:
            raise StoreCorruptError(f"A {event.kind} entry of action {self.id} lacks {missing}.") from missing
