"""Static types of an expression. A mismatch for all possible data is rejected at load.

`engine` calls the checker after the parser. A kind known only with data is `None` here, and is checked with the data.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from readback.adapters.cel.faults import refused
from readback.adapters.cel.functions import FUNCTIONS, Kinds
from readback.adapters.cel.syntax.tree import Form, Node
from readback.adapters.cel.syntax.words import unknown_function
from readback.adapters.cel.values.kinds import LIST, NUMBER, OBJECT, kind_of
from readback.adapters.cel.values.moments import ACCESSORS, is_zone
from readback.adapters.cel.values.texts import unfit_pattern
from readback.errors import ExpressionError

BOOLEAN: Final = "a boolean"
NULL: Final = "null"
_TIMES: Final = ("a timestamp", "a duration")
_ORDERED: Final = (NUMBER, "a text", "bytes", BOOLEAN, *_TIMES)
_JOINED: Final = ("a text", "bytes", LIST)


class Static:
    """A kind, if known, and the kind of a list's values."""

    __slots__ = ("kind", "of")

    def __init__(self, kind: str | None, of: Static | None = None) -> None:
        self.kind = kind
        self.of = of


_UNKNOWN: Final = Static(None)


def check(node: Node, source: str) -> Static:
    """Return the static type of an expression. Raises ExpressionError."""
    return _Checker(source).of(node, ())


class _Checker:
    """One recursive walk over the tree. The tree's depth is bounded."""

    def __init__(self, source: str) -> None:
        self.source = source

    def of(self, node: Node, scope: tuple[Static, ...]) -> Static:
        found = self._of(node, scope)
        node.kind = found.kind
        return found

    def _of(self, node: Node, scope: tuple[Static, ...]) -> Static:
        match node.form:
            case Form.LITERAL:
                return Static(kind_of(node.value))
            case Form.ROOT:
                return _UNKNOWN
            case Form.VARIABLE:
                assert isinstance(node.value, int)
                return scope[node.value]
            case Form.SELECT | Form.HAS:
                return self._field(node, scope)
            case Form.LIST:
                return Static(LIST, _one_of([self.of(part, scope) for part in node.parts]))
            case Form.CALL:
                return self._call(node, [self.of(part, scope) for part in node.parts])
            case Form.LOOP:
                return self._loop(node, scope)
            case _:
                return self._operation(node, [self.of(part, scope) for part in node.parts])

    def _operation(self, node: Node, kinds: list[Static]) -> Static:
        match node.form:
            case Form.INDEX:
                return self._index(node, kinds)
            case Form.MAP:
                for key, kind in zip(node.parts[::2], kinds[::2], strict=True):
                    self._held(key, kind, ("a text", NUMBER), "A key of an object")
                return Static(OBJECT, _one_of(kinds[1::2]))
            case Form.NOT:
                self._held(node.parts[0], kinds[0], (BOOLEAN,), "`!`")
                return Static(BOOLEAN)
            case Form.NEGATE:
                self._held(node.parts[0], kinds[0], (NUMBER,), "`-`")
                return Static(NUMBER)
            case Form.AND | Form.OR:
                for part, kind in zip(node.parts, kinds, strict=True):
                    self._held(part, kind, (BOOLEAN,), "`&&`" if node.form is Form.AND else "`||`")
                return Static(BOOLEAN)
            case Form.CHOOSE:
                self._held(node.parts[0], kinds[0], (BOOLEAN,), "The condition of `?`")
                return _one_of(kinds[1:])
            case _:
                return self._binary(node, *kinds)

    def _refuse(self, node: Node, reason: str) -> ExpressionError:
        return refused("type", f"No matching overload: {reason}", self.source, node.at + 1)

    def _held(self, node: Node, found: Static, kinds: Kinds, who: str) -> None:
        if kinds and found.kind is not None and found.kind not in kinds:
            raise self._refuse(node, f"{who} takes {' or '.join(kinds)}, not {found.kind}.")

    def _field(self, node: Node, scope: tuple[Static, ...]) -> Static:
        found = self.of(node.parts[0], scope)
        self._held(node, found, (OBJECT, NULL), f"The field {node.value!r:.80}")
        return Static(BOOLEAN) if node.form is Form.HAS else found.of or _UNKNOWN

    def _index(self, node: Node, kinds: list[Static]) -> Static:
        whole, key = kinds
        self._held(node, whole, (LIST, OBJECT, NULL), "An index")
        wanted: Kinds = (NUMBER,) if whole.kind == LIST else (NUMBER, "a text")
        self._held(node.parts[1], key, wanted, "An index")
        return whole.of or _UNKNOWN

    def _binary(self, node: Node, left: Static, right: Static) -> Static:
        sign = str(node.value)
        if sign in ("==", "!="):
            if not _comparable(left, right):
                raise self._refuse(node, f"{left.kind} is compared with {right.kind}.")
            return Static(BOOLEAN)
        if sign == "in":
            self._held(node, right, (LIST, OBJECT), "`in`")
            if right.kind == LIST and right.of is not None and not _comparable(left, right.of):
                raise self._refuse(node, f"{left.kind} is looked for in a list of {right.of.kind}.")
            return Static(BOOLEAN)
        if sign in ("<", "<=", ">", ">="):
            for part, kind in zip(node.parts, (left, right), strict=True):
                self._held(part, kind, _ORDERED, f"`{sign}`")
            if None not in (left.kind, right.kind) and left.kind != right.kind:
                raise self._refuse(node, f"{left.kind} is compared with {right.kind}.")
            return Static(BOOLEAN)
        return self._arithmetic(node, sign, left, right)

    def _arithmetic(self, node: Node, sign: str, left: Static, right: Static) -> Static:
        takes: Kinds = (NUMBER,)
        if sign in ("+", "-"):
            takes = (NUMBER, *_TIMES) + (_JOINED if sign == "+" else ())
        for part, kind in zip(node.parts, (left, right), strict=True):
            self._held(part, kind, takes, f"`{sign}`")
        kinds = (left.kind, right.kind)
        if sign == "%":
            for part in node.parts:
                if part.form is Form.LITERAL and isinstance(part.value, Decimal):
                    raise self._refuse(part, "`%` takes whole numbers.")
        if None in kinds:
            known = next((kind for kind in kinds if kind is not None), None)
            return Static(known if known in (NUMBER, "a text", "bytes") else LIST if known == LIST else None)
        if kinds[0] == kinds[1] and kinds[0] not in _TIMES:
            return Static(kinds[0], _one_of([left.of, right.of]) if kinds[0] == LIST and left.of and right.of else None)
        given = _times(sign, kinds)
        if given is None:
            raise self._refuse(node, f"`{sign}` is asked of {kinds[0]} and {kinds[1]}.")
        return Static(given)

    def _call(self, node: Node, kinds: list[Static]) -> Static:
        assert isinstance(node.value, tuple)
        name, behind = node.value
        function = FUNCTIONS.get(name)
        if function is None:
            raise refused("unknown-name", unknown_function(name, tuple(FUNCTIONS)), self.source, node.at + 1)
        if not (function.behind if behind else function.plain):
            form = function.says.partition(":")[0]
            raise self._refuse(node, f"`{name}` is written as {form}.")
        wanted = (*function.takes, *function.more)
        if not len(function.takes) <= len(kinds) <= len(wanted):
            raise self._refuse(node, f"`{name}` takes {len(function.takes)} values, and {len(kinds)} are given.")
        for part, kind, takes in zip(node.parts, kinds, wanted, strict=False):
            self._held(part, kind, takes, f"`{name}`")
        self._literals(node, name)
        return Static(function.gives or None)

    def _literals(self, node: Node, name: str) -> None:
        """Check literals once, here: invalid patterns, zones and numbers."""
        last = node.parts[-1] if node.parts else node
        if last.form is not Form.LITERAL or not isinstance(last.value, str):
            return
        if name == "matches":
            why = unfit_pattern(last.value)
            if why:
                raise refused("type", why, self.source, last.at + 1)
        elif name in ACCESSORS and not is_zone(last.value):
            said = "A time zone is an offset such as '+02:00', or 'UTC': a place's name means what the machine says."
            raise refused("forbidden", said, self.source, last.at + 1)
        elif name == "double" and last.value.strip("+-").lower() in ("nan", "inf", "infinity"):
            said = "There is neither infinity nor a number that is none; compare with null, or with a bound."
            raise refused("forbidden", said, self.source, last.at + 1)

    def _loop(self, node: Node, scope: tuple[Static, ...]) -> Static:
        assert isinstance(node.value, tuple)
        name, _ = node.value
        over = self.of(node.parts[0], scope)
        self._held(node, over, (LIST, OBJECT), f"`{name}`")
        each = over.of if over.kind == LIST and over.of is not None else _UNKNOWN
        bodies = [self.of(body, (*scope, each)) for body in node.parts[1:]]
        asks = bodies if name not in ("map",) else bodies[:-1]
        for body, kind in zip(node.parts[1:], asks, strict=False):
            self._held(body, kind, (BOOLEAN,), f"`{name}`")
        if name == "map":
            return Static(LIST, bodies[-1])
        return Static(LIST, each) if name == "filter" else Static(BOOLEAN)


def _one_of(kinds: list[Static] | list[Static | None]) -> Static:
    """Return the common kind of all, or None. Null goes with each kind."""
    found = {each.kind for each in kinds if each is not None and each.kind != NULL}
    return _UNKNOWN if len(found) != 1 else next(each for each in kinds if each is not None and each.kind != NULL)


def _comparable(left: Static, right: Static) -> bool:
    if None in (left.kind, right.kind) or NULL in (left.kind, right.kind):
        return True
    if left.kind != right.kind:
        return False
    return left.kind != LIST or left.of is None or right.of is None or _comparable(left.of, right.of)


def _times(sign: str, kinds: tuple[str | None, ...]) -> str | None:
    """Return the kind of an operation on timestamps and durations."""
    if kinds == ("a duration", "a duration"):
        return "a duration"
    if kinds == ("a timestamp", "a timestamp"):
        return "a duration" if sign == "-" else None
    if kinds == ("a timestamp", "a duration"):
        return "a timestamp"
    return "a timestamp" if kinds == ("a duration", "a timestamp") and sign == "+" else None
