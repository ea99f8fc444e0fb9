"""An agent's belief about a run: verified facts, unresolved actions, unfinished actions, and a rule for each.

Only outcomes enter a belief, so that an observation can never change a belief. The rules come from `planning`, the
state from the ledger, and the texts from `belief.text`. Called by the clients and by `readback belief`.

Source: the action verification specification, "Tool-result grounding model" and "Next-step planning".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.belief.entry import Entry, Fact, FrozenSubject, Group, Item, ItemStatus
from readback.domain.belief.text import MODEL_BYTES_DEFAULT, for_model, for_person
from readback.domain.kind import Kind
from readback.domain.normal_form import widest
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.planning import Planning, PlanningCase, plan_next
from readback.domain.state import State
from readback.errors import HonestyError

BELIEF_FORMAT: Final = 1
_CLOSED: Final = frozenset({Planning.REPAIR_OR_STOP, Planning.REFRESH_AND_REPLAN})
_NO_ENTRIES: Final[Mapping[str, Entry]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Belief:
    """The reconciled state of one run, as recorded in the ledger. It has no truth value.

    `older`: number of earlier settled actions with outcomes not loaded; `older_more`: the count is incomplete.
    `frozen`: frozen subjects of this run. `groups`: sagas, with the ids of their steps. `replaced`: failures superseded
    by another action of the same operation, according to the ledger. Ids alone do not show the order: they follow a
    clock, and two processes may disagree.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:", run="chat-1") as rb:
        ...     outcome = rb.run(switch())
        ...     belief = rb.belief("chat-1")
        >>> print(len(belief.verified), len(belief.unresolved), belief.frozen)
        1 0 ()
    """

    run: str
    tenant: str = ""
    entries: Mapping[str, Entry] = field(default_factory=lambda: _NO_ENTRIES)
    groups: tuple[Group, ...] = ()
    frozen: tuple[FrozenSubject, ...] = ()
    older: int = 0
    replaced: frozenset[str] = frozenset()
    older_more: bool = False

    @property
    def verified(self) -> tuple[Fact, ...]:
        """Verified and standing actions, the oldest first. The only facts."""
        return tuple(each for each in self._listed() if isinstance(each, Fact))

    @property
    def unresolved(self) -> tuple[Item, ...]:
        """Pending, unknown, partial, frozen or reviewed actions, the oldest first."""
        return self._items(ItemStatus.UNRESOLVED)

    @property
    def not_done(self) -> tuple[Item, ...]:
        """Actions without a verified success at their end: failed, refused, reversed or rolled back, the oldest
        first.
        """
        return self._items(ItemStatus.NOT_DONE)

    @property
    def message(self) -> str:
        """The state of the run for a person, a line each."""
        return for_person(
            self.run, self.verified, self.unresolved, self.not_done, self.groups, self.older, self.older_more
        )

    def for_model(self, max_bytes: int = MODEL_BYTES_DEFAULT) -> str:
        """Return the state of the run for the model's next context, in at most `max_bytes` bytes of ASCII.

        The oldest settled results are left out first, and the text counts the omissions. Unresolved or frozen entries
        always remain. Raises OversizeError where these alone do not fit.
        """
        return for_model(
            self.run,
            self.verified,
            self.unresolved,
            self.not_done,
            self.groups,
            self.frozen,
            self.older,
            self.older_more,
            max_bytes,
        )

    def of(self, action_id: str) -> Entry | None:
        """The belief about one action; None where this run has no such action."""
        return self.entries.get(action_id)

    def under(self, rule: Planning) -> tuple[Entry, ...]:
        """Every action under this rule."""
        return tuple(each for each in self._listed() if each.rule is rule)

    def after(self, outcome: Outcome) -> Belief:
        """Return the belief with one more outcome. Raises HonestyError for any other type."""
        entry = entry_of(outcome)
        return replace(self, entries=_ordered({**self.entries, entry.action_id: entry}))

    def as_json(self) -> dict[str, Json]:
        """The belief as plain data."""
        return {
            "format": BELIEF_FORMAT,
            "run": self.run,
            "tenant": self.tenant,
            "verified": [each.as_json() for each in self.verified],
            "unresolved": [each.as_json() for each in self.unresolved],
            "not_done": [each.as_json() for each in self.not_done],
            "groups": [each.as_json() for each in self.groups],
            "frozen": [{"subject": each.subject, "reason": each.reason} for each in self.frozen],
            "older": self.older,
            "older_more": self.older_more,
        }

    def __bool__(self) -> NoReturn:
        raise HonestyError("A belief is neither true nor false.", remedy="Use belief.verified and belief.unresolved.")

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copying and pickling, as agent frameworks require."""
        kept = (self.run, self.tenant, dict(self.entries), self.groups, self.frozen, self.older, self.replaced)
        return _again, (*kept, self.older_more)

    def _items(self, standing: ItemStatus) -> tuple[Item, ...]:
        return tuple(each for each in self._listed() if isinstance(each, Item) and each.standing is standing)

    def _listed(self) -> tuple[Entry, ...]:
        """The entries without settled reversals of another action, and without failures repeated since."""
        reversals = {each.compensation for each in self.entries.values() if isinstance(each, Item)}
        left = [each for each in self.entries.values() if each.action_id not in self.replaced]
        last = {(each.contract, each.operation): each.action_id for each in left}
        touched = {widest(each.target): each.action_id for each in self.entries.values() if may_have_changed(each)}
        shown: list[Entry] = []
        for each in self.entries.values():
            unresolved = isinstance(each, Item) and each.standing is ItemStatus.UNRESOLVED
            latest = last.get((each.contract, each.operation), "") == each.action_id
            repeated = isinstance(each, Item) and not latest
            if unresolved or not (repeated or each.action_id in reversals):
                shown.append(_dated(each, touched))
        return tuple(shown)


def believe(
    run: str,
    outcomes: Iterable[Outcome],
    *,
    tenant: str = "",
    groups: Iterable[Group] = (),
    frozen: Iterable[FrozenSubject] = (),
    older: int = 0,
    replaced: frozenset[str] = frozenset(),
    older_more: bool = False,
) -> Belief:
    """Build the belief of a run from its outcomes, in any order. Raises HonestyError for any other type."""
    found = [entry_of(outcome) for outcome in outcomes]
    entries = _ordered({each.action_id: each for each in found})
    return Belief(run, tenant, entries, tuple(groups), tuple(frozen), older, replaced, older_more)


def entry_of(outcome: Outcome) -> Entry:
    """A fact for a standing verified success, else an item with its rule."""
    if not isinstance(outcome, Outcome):
        raise HonestyError(
            f"A {type(outcome).__name__} is not an Outcome. Only a reconciled outcome may change a belief.",
            remedy="Pass the result of run, wait or get.",
        )
    outcome = replace(outcome, replayed=False)
    chosen = plan_next(
        PlanningCase(
            state=outcome.state,
            standing=outcome.standing,
            contested=outcome.contested,
            attempted=outcome.attempted,
            discrepancy=outcome.discrepancy,
            hold=outcome.hold,
            code=outcome.code,
            attested=outcome.resolution,
        )
    )
    if chosen.rule is Planning.CONTINUE:
        return Fact.of(outcome)
    standing = ItemStatus.NOT_DONE if chosen.rule in _CLOSED else ItemStatus.UNRESOLVED
    return Item.of(outcome, standing, chosen.rule, chosen.why)


def _again(
    run: str,
    tenant: str,
    entries: dict[str, Entry],
    groups: tuple[Group, ...],
    frozen: tuple[FrozenSubject, ...],
    older: int,
    replaced: frozenset[str],
    older_more: bool = False,
) -> Belief:
    return Belief(run, tenant, MappingProxyType(entries), groups, frozen, older, replaced, older_more)


def _ordered(entries: Mapping[str, Entry]) -> Mapping[str, Entry]:
    """The oldest first: ids grow with time."""
    return MappingProxyType(dict(sorted(entries.items())))


def _dated(entry: Entry, touched: Mapping[str, str]) -> Entry:
    """Mark a fact possibly changed by a later action."""
    later = touched.get(widest(entry.target), "")
    return replace(entry, changed_by=later) if isinstance(entry, Fact) and later > entry.action_id else entry


def may_have_changed(entry: Entry) -> bool:
    """Whether the action may have changed its target: a mutation, sent, and not shown to be without effect."""
    if entry.kind == Kind.READ:
        return False
    if isinstance(entry, Fact):
        return not entry.unchanged
    return entry.attempted and not (entry.may_repeat and entry.state in (State.FAILED, State.ROLLED_BACK))
