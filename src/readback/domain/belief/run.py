"""What an agent may believe of a run: verified facts, what is unresolved, what was not done, and the rule for each.

Made of outcomes and nothing else, so that an observation can never change it: a tool's answer has no way in here.
Called by the clients and by `readback belief`; the words are in `belief.text`. It reads nothing and decides nothing:
the rules are `planning`'s, and the state is what the ledger says.

Source: the action verification specification, "Tool-result grounding model" and "Next-step planning".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.belief.entry import Entry, Fact, FrozenSubject, Group, Item, Standing
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
    """The reconciled state of one run, as far as the ledger knows it. It has no truth value.

    `older`: settled actions before these, whose outcomes were not loaded; `older_more`: there are more than were
    counted. `frozen`: what of this run's subjects is
    frozen now. `groups`: sagas, with the ids of their steps. `replaced`: failures whose operation is another action's
    by now, by the ledger's word; ids follow a clock, which may be set back between two processes.
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
        """What is reconciled as success and stands, the oldest first. The only facts."""
        return tuple(each for each in self._listed() if isinstance(each, Fact))

    @property
    def unresolved(self) -> tuple[Item, ...]:
        """What is pending, unknown, partial, frozen or with a person, the oldest first."""
        return self._items(Standing.UNRESOLVED)

    @property
    def not_done(self) -> tuple[Item, ...]:
        """What has ended otherwise: failed, refused, reversed or rolled back, the oldest first."""
        return self._items(Standing.NOT_DONE)

    @property
    def message(self) -> str:
        """The state of the run for a person, a line each."""
        return for_person(
            self.run, self.verified, self.unresolved, self.not_done, self.groups, self.older, self.older_more
        )

    def for_model(self, max_bytes: int = MODEL_BYTES_DEFAULT) -> str:
        """The state of the run for the model's next context, in at most so many bytes of ASCII.

        The oldest settled results are left out first, and how many is said; what is unresolved or frozen never is.
        Raises OversizeError where that alone does not fit.
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
        """What is believed of one action; None where this run has no such action."""
        return self.entries.get(action_id)

    def under(self, rule: Planning) -> tuple[Entry, ...]:
        """Every action to which this rule applies."""
        return tuple(each for each in self._listed() if each.rule is rule)

    def after(self, outcome: Outcome) -> Belief:
        """The belief with one more outcome. Raises HonestyError for anything else: nothing else may change it."""
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
        raise HonestyError(
            "A belief is neither true nor false.", remedy="Look at belief.verified and at belief.unresolved."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied, and sent to other processes: frameworks of agents do so with all that they keep."""
        kept = (self.run, self.tenant, dict(self.entries), self.groups, self.frozen, self.older, self.replaced)
        return _again, (*kept, self.older_more)

    def _items(self, standing: Standing) -> tuple[Item, ...]:
        return tuple(each for each in self._listed() if isinstance(each, Item) and each.standing is standing)

    def _listed(self) -> tuple[Entry, ...]:
        """Less what stands under another action: settled reversals, and failures that were repeated since."""
        reversals = {each.compensation for each in self.entries.values() if isinstance(each, Item)}
        left = [each for each in self.entries.values() if each.action_id not in self.replaced]
        last = {(each.contract, each.operation): each.action_id for each in left}
        touched = {widest(each.target): each.action_id for each in self.entries.values() if touches(each)}
        shown: list[Entry] = []
        for each in self.entries.values():
            unresolved = isinstance(each, Item) and each.standing is Standing.UNRESOLVED
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
    """The belief of a run from its outcomes, in any order. Raises HonestyError for what is no outcome."""
    found = [entry_of(outcome) for outcome in outcomes]
    entries = _ordered({each.action_id: each for each in found})
    return Belief(run, tenant, entries, tuple(groups), tuple(frozen), older, replaced, older_more)


def entry_of(outcome: Outcome) -> Entry:
    """A fact where the outcome stands as a verified success, an item with its rule everywhere else."""
    if not isinstance(outcome, Outcome):
        raise HonestyError(
            f"A {type(outcome).__name__} is no outcome: only what was reconciled may change what is believed.",
            remedy="Pass what run, wait or get returned.",
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
    standing = Standing.NOT_DONE if chosen.rule in _CLOSED else Standing.UNRESOLVED
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
    """A fact says when a later action may have changed what it tells of."""
    later = touched.get(widest(entry.target), "")
    return replace(entry, changed_by=later) if isinstance(entry, Fact) and later > entry.action_id else entry


def touches(entry: Entry) -> bool:
    """It may have changed its target: it mutates, was sent, and was not shown to have come to nothing."""
    if entry.kind == Kind.READ:
        return False
    if isinstance(entry, Fact):
        return not entry.unchanged
    return entry.attempted and not (entry.may_repeat and entry.state in (State.FAILED, State.ROLLED_BACK))
