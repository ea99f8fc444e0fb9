"""The fold of a ledger into counts: a single pass, continued from a position at any time.

Used by `readback doctor`, by `readback.telemetry` for metrics, and by `recipes.timings`. Off the path of actions, and
without influence on decisions. Memory holds the unsettled actions and the latest settled actions. A late entry of
another settled action is rare, and costs one read of that action's entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from readback.audit.feedback.entry import Entry, entry_of
from readback.audit.feedback.story import Story, begin, step
from readback.audit.feedback.tally import OTHER, ContractFeedback, Feedback, SourceFeedback
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.errors import StoreCorruptError
from readback.ports.storage.store import StoredEvent

RECENT_MAX: Final = 4_096
"""Most settled actions kept in memory for entries right after the end."""
CELLS_MAX: Final = 2_000
"""Most groups of counts: contracts by kind, class and, on request, tenant. All others share one group."""
WAITING_MAX: Final = 100_000
"""Most unknown and reviewed actions known by name. The counts include all."""

History: TypeAlias = Callable[[str], Sequence[StoredEvent]]
"""Returns all entries of an action."""
_WAITS: Final = frozenset({State.UNKNOWN.value, State.REVIEW_REQUIRED.value})


@dataclass(slots=True)
class Waiting:
    """An unknown action, or an action in review: the group of counts, and the time of the last change of state."""

    cell: int
    state: str
    since_us: int


@dataclass(slots=True)
class FoldState:
    """Everything to continue a fold: the counts, the open actions and the position of the last folded entry."""

    position: int = 0
    feedback: Feedback = field(default_factory=Feedback)
    stories: dict[str, Story] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)


class Fold:
    """A fold in progress.

    Args:
        tenants: The counted tenants; empty for all tenants.
        by_tenant: Whether each tenant has counts of its own.
        history: Reads an action's entries, for late entries of settled actions. None: such actions are left out, as in
            a pass over the newest entries only.
        state: The state of an earlier fold with the same tenants.
    """

    def __init__(
        self,
        tenants: Collection[str] = (),
        *,
        by_tenant: bool = False,
        history: History | None = None,
        state: FoldState | None = None,
    ) -> None:
        self._tenants, self._by_tenant, self._history = frozenset(tenants), by_tenant, history
        self._state = state or FoldState()
        self._cells = {self._key(one): place for place, one in enumerate(self.feedback.cells)}
        self._sources = {(one.tenant, one.name): one for one in self.feedback.readers}
        self._settled: deque[str] = deque()

    @property
    def feedback(self) -> Feedback:
        """The counts so far."""
        return self._state.feedback

    @property
    def position(self) -> int:
        """The position of the last folded entry in the log."""
        return self._state.position

    @property
    def waiting(self) -> dict[str, Waiting]:
        """Unknown and reviewed actions by id, the longest waiting first."""
        return self._state.waiting

    def pending(self) -> dict[str, Story]:
        """Return executed actions without an end, by id."""
        return {
            name: story
            for name, story in self._state.stories.items()
            if story.executed_us and not story.is_settled and not story.saga
        }

    def state(self) -> FoldState:
        """Return the state for a checkpoint. Settled actions are left out."""
        kept = {name: story for name, story in self._state.stories.items() if not story.is_settled}
        return FoldState(self.position, self.feedback, kept, self.waiting)

    def take(self, events: Iterable[StoredEvent]) -> None:
        """Continue with these entries, in the order of the log. Raises StoreCorruptError, StoreError.

        After an error the counts include the entries before the faulty entry.
        """
        state, tenants, stories, add = self._state, self._tenants, self._state.stories, self._add
        feedback = state.feedback
        for stored in events:
            entry = entry_of(stored)
            if not tenants or entry.tenant in tenants:
                story = stories.get(stored.action_id) or self._story(stored)
                if story is not None:
                    add(stored.action_id, story, entry)
                feedback.entries += 1
            state.position = stored.seq

    def _story(self, stored: StoredEvent) -> Story | None:
        """Return the story of an action that is not in memory, up to the entry before this one."""
        if stored.version == 1:
            story = Story()
        elif self._history is None:
            return None
        else:
            earlier = [one for one in self._history(stored.action_id) if one.version < stored.version]
            story = self._replayed(earlier)
        self._state.stories[stored.action_id] = story
        return story

    def _replayed(self, earlier: Sequence[StoredEvent]) -> Story:
        """Make a story again from counted entries."""
        if not earlier or earlier[0].version != 1:
            raise StoreCorruptError("An entry of the ledger continues an action without a first entry.")
        scratch, story = Fold(by_tenant=self._by_tenant), Story()
        for stored in earlier:
            scratch._add(stored.action_id, story, entry_of(stored))
        if story.cell >= 0:
            story.cell = self._place(scratch.feedback.cells[story.cell])
        return story

    def _add(self, action_id: str, story: Story, entry: Entry) -> None:
        place = story.cell
        if place < 0 or entry.kind == _ADMITTED:
            place = self._settle_terms(story, entry)
            if place < 0:
                story.state = entry.path[-1] if entry.path else story.state
                return
        before = story.state
        step(story, entry, self._state.feedback.cells[place], self._source)
        if entry.path and story.state != before:
            self._follow(action_id, story)

    def _settle_terms(self, story: Story, entry: Entry) -> int:
        """Assign the group of counts once the contract's terms are known."""
        known = begin(entry, story)
        if known is None:
            return -1
        contract, kind, side_effect = known
        tenant = story.tenant if self._by_tenant else ""
        story.cell = self._place(ContractFeedback(contract, kind, side_effect, tenant, mode=story.mode))
        if entry.kind not in _FIRST:  # submitted earlier, and counted from here on
            cell = self.feedback.cells[story.cell]
            cell.actions += 1
            cell.states[story.state] = cell.states.get(story.state, 0) + 1
        return story.cell

    def _follow(self, action_id: str, story: Story) -> None:
        """Keep the list of waiting actions, and drop settled stories over the limit."""
        waiting = self._state.waiting
        waiting.pop(action_id, None)
        if not story.is_settled:
            return
        if story.state in _WAITS and not story.mode and len(waiting) < WAITING_MAX:
            waiting[action_id] = Waiting(story.cell, story.state, story.since_us)
        self._settled.append(action_id)
        if len(self._settled) > RECENT_MAX:
            oldest = self._settled.popleft()
            found = self._state.stories.get(oldest)
            if found is not None and found.is_settled:
                del self._state.stories[oldest]

    def _place(self, wanted: ContractFeedback) -> int:
        key = self._key(wanted)
        place = self._cells.get(key)
        if place is None:
            if len(self._cells) >= CELLS_MAX:
                wanted = ContractFeedback(OTHER, "", "", OTHER if wanted.tenant else "", mode=wanted.mode)
                key = self._key(wanted)
                if key in self._cells:
                    return self._cells[key]
            fresh = ContractFeedback(wanted.contract, wanted.kind, wanted.side_effect, wanted.tenant, mode=wanted.mode)
            self.feedback.cells.append(fresh)
            place = self._cells[key] = len(self.feedback.cells) - 1
        return place

    def _source(self, story: Story, name: str) -> SourceFeedback:
        tenant = story.tenant if self._by_tenant else ""
        found = self._sources.get((tenant, name))
        if found is None:
            if len(self._sources) >= CELLS_MAX:
                tenant, name = OTHER if tenant else "", OTHER
            found = self._sources.get((tenant, name)) or SourceFeedback(name, tenant)
            if (tenant, name) not in self._sources:
                self._sources[tenant, name] = found
                self.feedback.readers.append(found)
        return found

    @staticmethod
    def _key(one: ContractFeedback) -> tuple[str, str, str, str, str]:
        return (one.contract, one.kind, one.side_effect, one.tenant, one.mode)


_ADMITTED: Final = EventKind.ADMITTED.value
_FIRST: Final = frozenset({EventKind.PROPOSED.value, EventKind.SAGA_BEGUN.value})


def feedback_of(events: Iterable[StoredEvent], tenant: str = "") -> Feedback:
    """Count everything of one tenant (or of all) in these entries. Actions with an earlier beginning are skipped."""
    fold = Fold((tenant,) if tenant else ())
    fold.take(events)
    return fold.feedback
