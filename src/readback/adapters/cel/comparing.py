"""Compare two expressions by their syntax trees: is the new expression true in the same, fewer, more or other states?

Used by the release gate for changed predicates, through `bootstrap`. A proof covers every state. A state found by
trial refutes a proof. Where neither is found, the answer is `looser` and not decided.

1. Each tree becomes a formula of atoms without negation. An atom is a comparison, a loop, or an opaque term.
2. "New implies old" is proven by cases: each case of the new formula implies each demand of the old formula.
3. Where neither direction is proven, both expressions are evaluated over states made of the constants in both.

The formula keeps exactly the states in which an expression is true. An error is not true, so no step may use "a or not
a". Implication by cases needs no such step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import islice, product
from typing import Any, Final, TypeAlias

from readback.adapters.cel.syntax.parser import parse
from readback.adapters.cel.syntax.tree import Form, Node, paths, walk
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.ports.predicates import Compared, Predicate, PredicateEngine, Strength

CASES_MAX: Final = 256
"""Most cases or demands of one formula. A larger formula is not decided."""
STATES_MAX: Final = 4_096
VALUES_MAX: Final = 8
"""Most values tried for one path."""

Key: TypeAlias = "tuple[Any, ...]"
Formula: TypeAlias = "tuple[str, Any]"
"""("and", formulas), ("or", formulas) or ("atom", Atom)."""
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "in": "not in", "not in": "in"}
_ORDERED: Final = frozenset({"<", "<=", ">", ">="})
_TOO_MANY: Final = None


@dataclass(frozen=True, slots=True)
class Atom:
    """A part of a formula. `sign`: an operator, "all", "exists", "true", "false", "is" or "is not" (opaque)."""

    sign: str
    left: Any = None
    right: Any = None


# --- keys of terms -------------------------------------------------------------------------------------------------


def _key(node: Node) -> Key:
    """Return the canonical form of a term: places and spellings are gone, and equal numbers are equal."""
    if node.form is Form.LITERAL:
        return _constant(node.value)
    parts = tuple(_key(part) for part in node.parts)
    if node.form in (Form.AND, Form.OR):
        parts = tuple(sorted(set(parts), key=repr))
    elif node.form is Form.BINARY and node.value in _FLIPPED:
        sign = str(node.value)
        if sign in (">", ">=") or (sign in ("==", "!=") and repr(parts[0]) > repr(parts[1])):
            return (Form.BINARY.name, _FLIPPED[sign], (parts[1], parts[0]))
        return (Form.BINARY.name, sign, parts)
    elif node.form is Form.INDEX and parts[1][0] == "text":
        return (Form.SELECT.name, parts[1][1], parts[:1])
    return (node.form.name, node.value, parts)


def _constant(value: object) -> Key:
    if isinstance(value, bool):
        return ("flag", value)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value).normalize())
    if isinstance(value, str):
        return ("text", value)
    return ("null",) if value is None else ("other", repr(value))


def _is_constant(key: Key) -> bool:
    return key[0] in ("flag", "number", "text", "null")


# --- formulas ------------------------------------------------------------------------------------------------------


def _formula(node: Node, *, positive: bool = True) -> Formula:
    """Return the states in which the node is true, or is false (`positive` False), without negation."""
    if node.form is Form.NOT:
        return _formula(node.parts[0], positive=not positive)
    if node.form in (Form.AND, Form.OR):
        joined = "and" if (node.form is Form.AND) is positive else "or"
        return (joined, tuple(_formula(part, positive=positive) for part in node.parts))
    if node.form is Form.CHOOSE:
        asked, then, other = node.parts
        first = ("and", (_formula(asked), _formula(then, positive=positive)))
        second = ("and", (_formula(asked, positive=False), _formula(other, positive=positive)))
        return ("or", (first, second))
    return ("atom", _atom(node, positive))


def _atom(node: Node, positive: bool) -> Atom:
    if node.form is Form.LITERAL and isinstance(node.value, bool):
        return Atom("true" if node.value is positive else "false")
    if node.form is Form.BINARY and (node.value in _FLIPPED or node.value == "in"):
        return _comparison(node, positive)
    if node.form is Form.LOOP and isinstance(node.value, tuple) and node.value[0] in ("all", "exists"):
        word = str(node.value[0])
        sign = word if positive else {"all": "exists", "exists": "all"}[word]
        body = _formula(node.parts[1], positive=positive)
        return Atom(sign, (_key(node.parts[0]), node.value[1]), body)
    return Atom("is" if positive else "is not", _key(node))


def _comparison(node: Node, positive: bool) -> Atom:
    sign = str(node.value) if positive else _NEGATED[str(node.value)]
    left, right = _key(node.parts[0]), _key(node.parts[1])
    if sign in ("in", "not in"):
        return Atom(sign, left, _members(right) or right)
    if (_is_constant(left) and not _is_constant(right)) or (not _is_constant(right) and repr(left) > repr(right)):
        left, right, sign = right, left, _FLIPPED[sign]
    if sign == "==" and right[0] == "flag":
        return Atom("is" if right[1] else "is not", left)
    if sign == "in" and len(right) == 1:
        return Atom("==", left, right[0])
    return Atom(sign, left, right)


def _members(key: Key) -> frozenset[Key] | None:
    """Return the constants of a list; None for any other, and for constants of several kinds."""
    if key[0] != Form.LIST.name or not key[2] or not all(map(_is_constant, key[2])):
        return None
    return frozenset(key[2]) if len({each[0] for each in key[2]}) == 1 else None


def _normal(formula: Formula) -> Any:
    """Return a form that is equal for formulas that differ in order, nesting and repetition alone."""
    sign, parts = formula
    if sign == "atom":
        return _settled(parts)
    flat: set[Any] = set()
    for part in parts:
        inner = _normal(part)
        flat |= inner[1] if isinstance(inner, tuple) and inner[0] == sign else {inner}
    return next(iter(flat)) if len(flat) == 1 else (sign, frozenset(flat))


def _settled(atom: Atom) -> Any:
    if atom.sign in ("all", "exists"):
        return (atom.sign, atom.left, _normal(atom.right))
    return (atom.sign, atom.left, atom.right)


# --- proofs --------------------------------------------------------------------------------------------------------


def _implies(first: Formula, second: Formula) -> bool:
    """Whether every state in which the first is true makes the second true. False where no proof is found."""
    cases, demands = _expanded(first, "or"), _expanded(second, "and")
    if cases is _TOO_MANY or demands is _TOO_MANY:
        return False
    return all(_contradicts(case) or all(_meets(case, demand) for demand in demands) for case in cases)


def _expanded(formula: Formula, outer: str) -> list[frozenset[Atom]] | None:
    """Return the formula as alternatives of conjunctions (`outer` "or"), or the reverse; None for too many."""
    sign, parts = formula
    if sign == "atom":
        return [frozenset({parts})]
    expanded = [_expanded(part, outer) for part in parts]
    if any(each is _TOO_MANY for each in expanded):
        return _TOO_MANY
    found: list[frozenset[Atom]] = []
    if sign == outer:
        for each in expanded:
            found += each or []
    else:
        found = [frozenset()]
        for each in expanded:
            if len(found) * len(each or []) > CASES_MAX:
                return _TOO_MANY
            found = [one | other for one in found for other in each or []]
    return found if len(found) <= CASES_MAX else _TOO_MANY


def _meets(case: frozenset[Atom], demand: frozenset[Atom]) -> bool:
    return any(_atom_implies(given, wanted) for given in case for wanted in demand) or any(
        wanted.sign == "true" for wanted in demand
    )


def _contradicts(case: frozenset[Atom]) -> bool:
    """Whether no state makes all atoms true."""
    return any(each.sign == "false" for each in case) or any(
        _atom_implies(one, opposite) for one in case for other in case if (opposite := _opposite(other)) is not None
    )


def _opposite(atom: Atom) -> Atom | None:
    if atom.sign in _NEGATED:
        return Atom(_NEGATED[atom.sign], atom.left, atom.right)
    if atom.sign in ("is", "is not"):
        return Atom("is not" if atom.sign == "is" else "is", atom.left)
    return None


def _atom_implies(given: Atom, wanted: Atom) -> bool:
    """Whether one true atom makes another true. Two atoms of different terms prove nothing about each other."""
    if given.sign == "false" or wanted.sign == "true" or given == wanted:
        return True
    if given.left != wanted.left:
        return False
    if given.sign in ("all", "exists"):
        return given.sign == wanted.sign and _implies(given.right, wanted.right)
    if given.sign in ("in", "not in") and wanted.sign in ("in", "not in"):
        return _of_sets(given, wanted)
    return _of_values(given, wanted)


def _of_sets(given: Atom, wanted: Atom) -> bool:
    """Compare two memberships of one term. A list that is no set of alike constants proves nothing."""
    if not isinstance(given.right, frozenset) or not isinstance(wanted.right, frozenset):
        return False
    if given.sign == "not in":  # outside of [a, b], so outside of [a]
        return wanted.sign == "not in" and wanted.right <= given.right and _alike(given.right | wanted.right)
    if wanted.sign == "in":  # in [a], so in [a, b]
        return given.right <= wanted.right
    return not given.right & wanted.right and _alike(given.right | wanted.right)  # in [a], so outside of [b]


def _alike(keys: frozenset[Key]) -> bool:
    """Whether all constants are of one kind, so that no comparison of one with another is an error."""
    return len({key[0] for key in keys}) == 1


def _of_values(given: Atom, wanted: Atom) -> bool:
    """Compare two comparisons of one term, at least one of them with a single value."""
    if given.sign in ("is", "is not"):  # a flag is a value, and the value is not null
        return wanted.sign == "!=" and wanted.right in (("null",), ("flag", given.sign != "is"))
    if given.sign == "not in":  # outside of [a, b], so not a
        return wanted.sign == "!=" and isinstance(given.right, frozenset) and wanted.right in given.right
    if isinstance(given.right, frozenset):  # in [a, b]: what holds at a and at b
        return given.sign == "in" and all(_of_values(Atom("==", given.left, one), wanted) for one in given.right)
    if not isinstance(given.right, tuple) or not _is_constant(given.right):
        # Two terms, such as `x < requested.n`. `x == y` does not give `x <= y`: two nulls are equal and have no order.
        return given.right == wanted.right and given.sign in ("<", ">") and wanted.sign in (f"{given.sign}=", "!=")
    if given.sign == "==":
        return _holds_at(given.right, wanted)
    if wanted.right == ("null",):  # null has no order, so a value with an order is not null
        return wanted.sign == "!=" and given.sign in _ORDERED
    if given.sign == "!=":  # a value other than a may be null, or of another kind
        return False
    return _of_orders(given, wanted)


def _holds_at(value: Key, wanted: Atom) -> bool:
    """Whether the comparison is true of this one value."""
    if isinstance(wanted.right, frozenset):
        alike = _alike(wanted.right | {value})
        return alike and (value in wanted.right) is (wanted.sign == "in")
    if not isinstance(wanted.right, tuple) or not _is_constant(wanted.right):
        return False
    if "null" in (value[0], wanted.right[0]):  # null compares with anything, by equality alone
        return wanted.sign in ("==", "!=") and (value == wanted.right) is (wanted.sign == "==")
    return value[0] == wanted.right[0] and _ordered(value, wanted.sign, wanted.right)


_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _ordered(one: Key, sign: str, other: Key) -> bool:
    return sign in _ORDERS and len(one) > 1 and bool(_ORDERS[sign](one[1], other[1]))


def _of_orders(given: Atom, wanted: Atom) -> bool:
    """Compare `x < 5` with `x < 7`: a bound implies wider bounds, and a difference from values beyond the bound."""
    if given.sign not in _ORDERED or isinstance(wanted.right, frozenset) or not _is_constant(wanted.right):
        return False
    if given.right[0] != wanted.right[0]:
        return False
    beyond = _ordered(wanted.right, ">" if given.sign in ("<", "<=") else "<", given.right)
    same = given.right == wanted.right
    if wanted.sign == "!=":
        return beyond or (same and given.sign in ("<", ">"))
    if wanted.sign not in _ORDERED or wanted.sign[0] != given.sign[0]:
        return False
    return beyond or (same and (wanted.sign == given.sign or wanted.sign.endswith("=")))


# --- states found by trial -----------------------------------------------------------------------------------------


def _states(trees: tuple[Node, Node]) -> Iterator[dict[str, Json]]:
    """Yield states over the paths of both trees, made of their constants and of values beside the constants."""
    found = list(dict.fromkeys(path.steps for tree in trees for path in paths(tree)))
    values = _values(trees)
    for chosen in islice(product(values, repeat=min(len(found), 6)), STATES_MAX):
        state: dict[str, Json] = {}
        for steps, value in zip(found, chosen, strict=False):
            _put(state, steps, value)
        yield state


def _values(trees: tuple[Node, Node]) -> list[Json]:
    """Return the tried values: every constant, numbers beside numbers, another text, both flags, and null."""
    found: dict[str, Json] = {}
    for tree in trees:
        for node in walk(tree):
            if node.form is Form.LITERAL and isinstance(node.value, str | bool | int):
                found[repr(node.value)] = node.value
                if type(node.value) is int:
                    found |= {repr(node.value - 1): node.value - 1, repr(node.value + 1): node.value + 1}
    more: list[Json] = ["another text", 1, True, False, None]
    kept = [*found.values()][: VALUES_MAX - 2]
    return [*kept, *(each for each in more if each not in kept)][:VALUES_MAX]


def _put(state: dict[str, Json], steps: tuple[str | int, ...], value: Json) -> None:
    here: dict[str, Json] = state
    for step in steps[:-1]:
        inner = here.get(str(step))
        if not isinstance(inner, dict):
            inner = {}
            here[str(step)] = inner
        here = inner
    if not isinstance(here.get(str(steps[-1])), dict):
        here[str(steps[-1])] = value


def _true(engine: PredicateEngine, predicate: Predicate, state: Mapping[str, Json]) -> bool:
    found = predicate.evaluate(engine.bind(state))
    return found.kind == "value" and found.value is True


def _witnesses(
    engine: PredicateEngine, old: str, new: str, trees: tuple[Node, Node]
) -> tuple[Mapping[str, Json] | None, Mapping[str, Json] | None]:
    first, second = engine.compile(old), engine.compile(new)
    gained: Mapping[str, Json] | None = None
    lost: Mapping[str, Json] | None = None
    for state in _states(trees):
        then, now = _true(engine, first, state), _true(engine, second, state)
        gained = state if now and not then and gained is None else gained
        lost = state if then and not now and lost is None else lost
        if gained is not None and lost is not None:
            break
    return gained, lost


def compare(engine: PredicateEngine, old: str, new: str, *, boolean: bool = True) -> Compared:
    """Compare a new expression with an old one. `boolean` False: expressions that return a value.

    Raises ExpressionError where either does not compile.
    """
    engine.compile(old, boolean=boolean)
    engine.compile(new, boolean=boolean)
    trees = parse(old), parse(new)
    if not boolean:
        same = _key(trees[0]) == _key(trees[1])
        return Compared(Strength.UNCHANGED) if same else Compared(Strength.LOOSER, decided=False)
    first, second = _formula(trees[0]), _formula(trees[1])
    if _normal(first) == _normal(second):
        return Compared(Strength.UNCHANGED)
    gained, lost = _witnesses(engine, old, new, trees)
    if gained is None and _implies(second, first):
        if lost is None and _implies(first, second) and _same_when_false(trees):
            return Compared(Strength.UNCHANGED)
        return Compared(Strength.STRICTER, lost=lost)
    if gained is not None and lost is not None:
        return Compared(Strength.OTHER, gained=gained, lost=lost)
    return Compared(Strength.LOOSER, decided=gained is not None or _implies(first, second), gained=gained, lost=lost)


def _same_when_false(trees: tuple[Node, Node]) -> bool:
    """Whether both are false in the same states. Otherwise one of them is undetermined more often."""
    old, new = (_formula(tree, positive=False) for tree in trees)
    return _implies(old, new) and _implies(new, old)
