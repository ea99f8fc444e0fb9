"""Compare two contracts, term by term: stricter, looser, other, or unchanged.

Called by the gate `predicate-diff`, over the recorded form of each contract (`domain.contract.describe`). A term is
looser if more is verified, or less proof is demanded. Syntax trees decide about conditions. A term without a rule here
is `other`, so no term is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Final

import readback.bootstrap as bootstrap
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.contract import NOT_OFFERED, Noop
from readback.domain.normal_form import NormalForm
from readback.domain.side_effect import Consistency, Independence, SideEffect
from readback.errors import ExpressionError
from readback.ports.predicates import Compared, Strength

SAME: Final = Compared(Strength.UNCHANGED)
STRICTER: Final = Compared(Strength.STRICTER)
LOOSER: Final = Compared(Strength.LOOSER)
OTHER: Final = Compared(Strength.OTHER)
UNDECIDED: Final = Compared(Strength.LOOSER, decided=False)
_OPPOSITE: Final = {Strength.STRICTER: Strength.LOOSER, Strength.LOOSER: Strength.STRICTER}


@dataclass(frozen=True, slots=True)
class TermChange:
    """One changed term. `key`: its place in a contract file. `code`: the kind of term, for a finding."""

    key: str
    code: str
    compared: Compared
    old: Json
    new: Json
    more: Mapping[str, Json] = field(default_factory=dict)


Rule = Callable[[Json, Json], Compared]


def term_changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[TermChange]:
    """Yield every changed term of a contract, in the order of the contract."""
    for key, inverted in _CLAUSES.items():
        yield from _clauses(key, _clause_map(old.get(key)), _clause_map(new.get(key)), inverted=inverted)
    yield from _identity(_texts(old.get("identity")), _texts(new.get("identity")))
    yield from _expression(
        "expected_version", str(old.get("expected_version", "")), str(new.get("expected_version", ""))
    )
    yield from _readers(_reader_map(old), _reader_map(new))
    execute_then, execute_now = _texts(old.get("execute")), _texts(new.get("execute"))
    for key in dict.fromkeys([*execute_then, *execute_now]):
        yield from _term(f"execute.{key}", _EXECUTE.get(key, _other), execute_then.get(key), execute_now.get(key))
    for key in dict.fromkeys([*old, *new]):
        if key not in _APART:
            yield from _term(key, _RULES.get(key, _other), old.get(key), new.get(key))


def _term(key: str, rule: Rule, old: Json, new: Json) -> Iterator[TermChange]:
    if old != new:
        named = _FILE_KEYS.get(key, key)
        yield TermChange(named, _CODES.get(key, "diff.term"), rule(old, new), old, new)


# --- conditions ----------------------------------------------------------------------------------------------------

_CLAUSES: Final = {"require": False, "ensure": False, "fails_when": True, "intermediate": False}
"""Lists of conditions. Inverted: a condition true in more states verifies less (`fails_when`). With more `intermediate`
states, a mismatch is refuted less often; see `_clauses`."""


def _clauses(
    key: str, old: Mapping[str, tuple[str, str]], new: Mapping[str, tuple[str, str]], *, inverted: bool
) -> Iterator[TermChange]:
    code = "diff.postcondition" if key == "ensure" else "diff.condition"
    for name in dict.fromkeys([*old, *new]):
        then, now = old.get(name), new.get(name)
        if then == now:
            continue
        at = f"{key}.{name}"
        if then is None or now is None:
            added = LOOSER if key == "intermediate" else STRICTER
            dropped = STRICTER if key == "intermediate" else LOOSER
            source_then, source_now = (None if one is None else one[0] for one in (then, now))
            yield TermChange(at, code, added if then is None else dropped, source_then, source_now)
        elif then[0] != now[0]:
            compared = compared_expressions(then[0], now[0])
            yield TermChange(at, code, _inverted(compared) if inverted else compared, then[0], now[0])
        else:
            yield TermChange(f"{at}.group", code, OTHER, then[1], now[1])


def compared_expressions(old: str, new: str, *, boolean: bool = True) -> Compared:
    """Compare two conditions. A Python callable is known by name and version alone, so a change is undecided."""
    if old == new:
        return SAME
    try:
        return bootstrap.compare_expressions(old, new, boolean=boolean)
    except ExpressionError:
        return UNDECIDED


def _inverted(compared: Compared) -> Compared:
    """Return the relation for a refuting condition. An undecided relation stays looser."""
    if not compared.decided:
        return compared
    strength = _OPPOSITE.get(compared.strength, compared.strength)
    return Compared(strength, compared.decided, compared.lost, compared.gained)


def _identity(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[TermChange]:
    for name in dict.fromkeys([*old, *new]):
        then, now = old.get(name), new.get(name)
        if then == now:
            continue
        gone, came = now in (None, NOT_OFFERED), then in (None, NOT_OFFERED)
        if gone and came:
            compared = OTHER
        elif gone:
            compared = LOOSER
        elif came:
            compared = STRICTER
        else:
            compared = _found_value(str(then), str(now))
        yield TermChange(f"identity.{name}", "diff.identity", compared, then, now)


def _found_value(old: str, new: str) -> Compared:
    """Compare two identity expressions: conditions by their truth, and values by their text alone."""
    try:
        predicates = [bootstrap.predicate_engine().compile(each, boolean=False) for each in (old, new)]
    except ExpressionError:
        return UNDECIDED
    return compared_expressions(old, new, boolean=all(each.always_boolean for each in predicates))


def _expression(key: str, old: str, new: str) -> Iterator[TermChange]:
    if old == new:
        return
    compared = STRICTER if not old else LOOSER if not new else compared_expressions(old, new, boolean=False)
    if compared.strength is not Strength.UNCHANGED:
        yield TermChange(key, "diff.condition", compared, old, new)


# --- readers -------------------------------------------------------------------------------------------------------


def _readers(old: Mapping[str, Mapping[str, Json]], new: Mapping[str, Mapping[str, Json]]) -> Iterator[TermChange]:
    for name in dict.fromkeys([*old, *new]):
        then, now = old.get(name), new.get(name)
        key = name if name in ("find", "lookup") else f"readers.{name}"
        if then is None or now is None:
            yield TermChange(key, "diff.reader", OTHER if then is None else LOOSER, _whole(then), _whole(now))
            continue
        for term in dict.fromkeys([*then, *now]):
            if then.get(term) != now.get(term):
                code = "diff.reading-strength" if term in ("consistency", "independence") else "diff.reader"
                compared = _READER.get(term, _other)(then.get(term), now.get(term))
                yield TermChange(f"{key}.{term}", code, compared, then.get(term), now.get(term))


def _whole(terms: Mapping[str, Json] | None) -> Json:
    return None if terms is None else dict(terms)


# --- rules ---------------------------------------------------------------------------------------------------------


def _other(old: Json, new: Json) -> Compared:
    return OTHER


def _number(old: Json, new: Json) -> tuple[int, int]:
    return (old if isinstance(old, int) else 0), (new if isinstance(new, int) else 0)


def _longer_is_stricter(old: Json, new: Json) -> Compared:
    then, now = _number(old, new)
    return STRICTER if now > then else LOOSER


def _longer_is_looser(old: Json, new: Json) -> Compared:
    then, now = _number(old, new)
    return LOOSER if now > then else STRICTER


def _shorter_is_looser(old: Json, new: Json) -> Compared:
    """A shorter window judges an effect as missing too early. A longer window tells of a missing effect later."""
    then, now = _number(old, new)
    return OTHER if now > then else LOOSER


def _flag_is_looser(old: Json, new: Json) -> Compared:
    return LOOSER if new is True else STRICTER


def _declared(old: Json, new: Json) -> Compared:
    """A reader without its author's declaration verifies nothing. Only `false` is recorded."""
    return STRICTER if new is False else LOOSER


def _late(old: Json, new: Json) -> Compared:
    """How long an effect may land late. None: without end."""
    if old is None or new is None:
        return LOOSER if old is None else STRICTER
    return _longer_is_stricter(old, new)


def _ranked(words: type[Consistency] | type[Independence] | type[SideEffect]) -> Rule:
    def rule(old: Json, new: Json) -> Compared:
        ranks = {each.value: each.rank for each in words}
        then, now = ranks.get(str(old)), ranks.get(str(new))
        if then is None or now is None:
            return UNDECIDED
        return STRICTER if now > then else LOOSER

    return rule


def _fewer_is_stricter(old: Json, new: Json) -> Compared:
    """A list of permissions: fewer entries are stricter. No list at all permits everything."""
    return _sets(old, new, fewer=STRICTER, more=LOOSER)


def _fewer_is_looser(old: Json, new: Json) -> Compared:
    """A list of demands."""
    return _sets(old, new, fewer=LOOSER, more=STRICTER)


def _sets(old: Json, new: Json, *, fewer: Compared, more: Compared) -> Compared:
    then = {str(each) for each in old} if isinstance(old, list) else set[str]()
    now = {str(each) for each in new} if isinstance(new, list) else set[str]()
    if now < then:
        return fewer
    return more if then < now else OTHER


def _frame(old: Json, new: Json) -> Compared:
    """The fields allowed to change. None: any field."""
    if old is None or new is None:
        return STRICTER if old is None else LOOSER
    return _fewer_is_stricter(old, new)


def _principals(old: Json, new: Json) -> Compared:
    """The principals allowed to act. An empty list: everyone."""
    if not old or not new:
        return STRICTER if not old else LOOSER
    return _fewer_is_stricter(old, new)


def _noop(old: Json, new: Json) -> Compared:
    ranks = {Noop.ALLOW.value: 0, Noop.EQUIVALENT.value: 1, Noop.REFUSE.value: 2}
    return STRICTER if ranks.get(str(new), 0) > ranks.get(str(old), 0) else LOOSER


def _forms(old: Json, new: Json) -> Compared:
    """Comparison rules of identity keys. `exact` is the strictest; other pairs are not ordered."""
    then, now, exact = _texts(old), _texts(new), NormalForm.EXACT.value
    changed = {key for key in {*then, *now} if then.get(key, exact) != now.get(key, exact)}
    if all(now.get(key, exact) == exact for key in changed):
        return STRICTER
    return LOOSER if all(then.get(key, exact) == exact for key in changed) else UNDECIDED


def _approval(old: Json, new: Json) -> Compared:
    if old is None or new is None:
        return STRICTER if old is None else LOOSER
    then, now = _texts(old), _texts(new)
    people_then, people_now = _number(then.get("people"), now.get("people"))
    if then.get("when") == now.get("when") and then.get("expires_us") == now.get("expires_us"):
        return STRICTER if people_now > people_then else LOOSER
    return LOOSER if people_now < people_then else UNDECIDED


def _dropped_is_looser(old: Json, new: Json) -> Compared:
    return LOOSER if not new else STRICTER if not old else OTHER


def _reason(old: Json, new: Json) -> Compared:
    """The stated reason against any verification."""
    return LOOSER if not old else STRICTER if not new else OTHER


_EXECUTE: Final[Mapping[str, Rule]] = {"honours_key": _flag_is_looser, "reversible": _flag_is_looser}
_READER: Final[Mapping[str, Rule]] = {
    "consistency": _ranked(Consistency),
    "independence": _ranked(Independence),
    "whole_region": _flag_is_looser,
    "declared": _declared,
}
_RULES: Final[Mapping[str, Rule]] = {
    "side_effect": _ranked(SideEffect),
    "quorum": _longer_is_stricter,
    "may_change": _frame,
    "noop": _noop,
    "within_us": _shorter_is_looser,
    "polls_us": _other,
    "stable_for_us": _longer_is_stricter,
    "deadline_us": _other,
    "late_window_us": _late,
    "key_kept_us": _longer_is_stricter,
    "key_valid_for_us": _longer_is_looser,
    "principals": _principals,
    "scopes": _fewer_is_looser,
    "freeze": _fewer_is_looser,
    "unverifiable": _reason,
    "find": _dropped_is_looser,
    "lookup": _dropped_is_looser,
    "find_complete": _flag_is_looser,
    "approval": _approval,
    "watch": _dropped_is_looser,
    "identity_as": _forms,
}
_APART: Final = frozenset(
    {
        *_CLAUSES,
        "identity",
        "expected_version",
        "execute",
        "readers",
        "find_by",
        "lookup_by",
        "name",
        "version",
        "assumed",
    }
)
"""Terms with a separate comparison, labels, and `assumed`, a list of other terms' values."""
_WINDOWS: Final = ("within_us", "stable_for_us", "deadline_us", "late_window_us", "polls_us")
_CODES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_WINDOWS, "diff.window"),
    "identity_as": "diff.identity",
    "quorum": "diff.reading-strength",
}
_FILE_KEYS: Final[Mapping[str, str]] = {
    "within_us": "within",
    "stable_for_us": "stable_for",
    "deadline_us": "deadline",
    "late_window_us": "late_window",
    "polls_us": "polls",
    "key_kept_us": "key_kept",
    "key_valid_for_us": "key_valid_for",
    "noop": "on_unchanged",
    "identity_as": "identity",
    "execute.timeout_us": "execute.timeout",
}


# --- recorded forms ------------------------------------------------------------------------------------------------


def _texts(raw: Json) -> Mapping[str, Json]:
    return raw if isinstance(raw, dict) else {}


def _clause_map(raw: Json) -> dict[str, tuple[str, str]]:
    listed = raw if isinstance(raw, list) else []
    return {str(each[0]): (str(each[1]), str(each[2])) for each in listed if isinstance(each, list) and len(each) == 3}


def _reader_map(body: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    listed = body.get("readers")
    found = (
        {str(each.get("name")): each for each in listed if isinstance(each, dict)} if isinstance(listed, list) else {}
    )
    made: dict[str, Mapping[str, Json]] = {**found}
    for use, key in (("find", "find_by"), ("lookup", "lookup_by")):
        by = body.get(key)
        if isinstance(by, dict):
            made[use] = by
    return made
