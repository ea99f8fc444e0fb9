"""Compile the tree to Python closures. Each closure takes the frame and returns a value, or raises `Fault`.

`engine` compiles each expression once. A frame is a list: the six roots, the remaining steps, the loop variables. A
loop pays the steps of all rounds before the first round.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from readback.adapters.cel.faults import FAULT, MESSAGE_MAX_CHARS, METER, VISIT, Fault, Frame, spend, wrong
from readback.adapters.cel.functions import FUNCTIONS
from readback.adapters.cel.syntax.tree import Form, Node, path_of, walk
from readback.adapters.cel.values.alike import before, differ, same, within
from readback.adapters.cel.values.exact import exact, is_number, minus, modulo, negated, over, plus, times
from readback.adapters.cel.values.kinds import NUMBER, kind_of
from readback.adapters.cel.values.moments import Duration, Timestamp, moment, span
from readback.adapters.cel.values.texts import joined
from readback.canon.limits import VALUE_MAX_NODES
from readback.ports.predicates import ROOTS

Run = Callable[[Frame], Any]
VARIABLES: Final = METER + 1
_ROOT_AT: Final = {name: at for at, name in enumerate(ROOTS)}


def compiled(node: Node) -> Run:
    """Return the evaluator of a tree over a frame."""
    match node.form:
        case Form.LITERAL:
            value = node.value
            return lambda frame: value
        case Form.ROOT:
            return _slot(_ROOT_AT[str(node.value)])
        case Form.VARIABLE:
            assert isinstance(node.value, int)
            return _slot(VARIABLES + node.value)
        case Form.SELECT:
            return _select(node)
        case Form.HAS:
            return _has(compiled(node.parts[0]), str(node.value), _shown(node))
        case Form.AND:
            return _joined(tuple(map(compiled, node.parts)), "`&&`", False)
        case Form.OR:
            return _joined(tuple(map(compiled, node.parts)), "`||`", True)
        case Form.LOOP:
            return _loop(node)
        case Form.CALL:
            return _call(node)
        case Form.BINARY:
            return _binary(str(node.value), *map(compiled, node.parts))
        case _:
            return _other(node, tuple(map(compiled, node.parts)))


def _other(node: Node, parts: tuple[Run, ...]) -> Run:
    match node.form:
        case Form.INDEX:
            return _index(parts[0], parts[1], _shown(node))
        case Form.LIST:
            return lambda frame: [part(frame) for part in parts]
        case Form.MAP:
            return _map(parts)
        case Form.NOT:
            return _not(*parts)
        case Form.NEGATE:
            inner = parts[0]
            return lambda frame: negated(inner(frame))
        case _:
            return _choose(*parts)


def _shown(node: Node) -> str:
    path = path_of(node)
    return "" if path is None else path.text


def _slot(at: int) -> Run:
    return lambda frame: frame[at]


# --- fields and indices ---


def _select(node: Node) -> Run:
    path = path_of(node)
    names = [] if path is None else path.steps[1:]
    if path is None or not all(type(name) is str for name in names):
        return _field(compiled(node.parts[0]), str(node.value), _shown(node))
    at, text = _ROOT_AT[str(path.steps[0])], path.text
    if len(names) == 1:
        name = names[0]

        def one(frame: Frame) -> Any:
            try:
                return frame[at][name]
            except (KeyError, TypeError):
                raise _no_field(frame[at], name, text) from None

        return one

    def several(frame: Frame) -> Any:
        here, name = frame[at], names[0]
        try:
            for name in names:
                here = here[name]
        except (KeyError, TypeError):
            raise _no_field(here, name, text) from None
        return here

    return several


def _field(inner: Run, name: str, text: str) -> Run:
    def field(frame: Frame) -> Any:
        here = inner(frame)
        try:
            return here[name]
        except (KeyError, TypeError):
            raise _no_field(here, name, text) from None

    return field


def _no_field(here: object, name: object, text: str) -> Fault:
    where = f" ({text})" if text else ""
    if isinstance(here, dict):
        return Fault("missing", f"Key not found: there is no field {name!r:.80}{where}", text)
    said = f"The field {name!r:.80} was looked for in {kind_of(here)}, which has no fields{where}"
    return Fault("missing", said, text)


def _has(inner: Run, name: str, text: str) -> Run:
    def has(frame: Frame) -> bool:
        here = inner(frame)
        if isinstance(here, dict):
            return name in here
        raise _no_field(here, name, text)

    return has


def _index(inner: Run, key_of: Run, text: str) -> Run:
    def index(frame: Frame) -> Any:
        here, key = inner(frame), key_of(frame)
        if isinstance(here, list):
            return _of_list(here, key, text)
        if not isinstance(here, dict):
            if here is None:
                raise Fault("missing", f"An index was looked for in null{f' ({text})' if text else ''}", text)
            raise wrong(f"{kind_of(here)} has no index")
        if isinstance(key, str) or is_number(key):
            key = key if isinstance(key, str) else exact(key)
            if key in here:
                return here[key]
            raise _no_field(here, key if isinstance(key, str) and text else "that was computed", text)
        raise wrong(f"{kind_of(key)} is no index of an object")

    return index


def _of_list(here: list[Any], key: Any, text: str) -> Any:
    if type(key) is not int:
        if not is_number(key):
            raise wrong(f"{kind_of(key)} is no index of a list")
        number = exact(key)
        if isinstance(number, Decimal) and number.adjusted() < 18:
            if number != number.to_integral_value():
                raise wrong("a fraction is no index of a list")
            number = int(number)
        key = number if type(number) is int else -1
    if 0 <= key < len(here):
        return here[key]
    raise Fault("missing", f"An index is outside of the list{f' ({text})' if text else ''}", text)


# --- operators ---


def _joined(parts: tuple[Run, ...], sign: str, settles: bool) -> Run:
    """`&&` and `||`: a settling value decides the result, also beside a part without a value."""
    if len(parts) == 2:
        return _two(*parts, sign, settles)

    def several(frame: Frame) -> Any:
        fault: Fault | None = None
        for part in parts:
            try:
                value = part(frame)
                if value is settles:
                    return settles
                if value is not True and value is not False:
                    raise wrong(f"{sign} takes booleans, not {kind_of(value)}")
            except Fault as found:
                fault = _past(frame, found, fault)
        if fault is not None:
            raise fault
        return not settles

    return several


def _two(one: Run, other: Run, sign: str, settles: bool) -> Run:
    goes_on = not settles

    def both(frame: Frame) -> Any:
        fault: Fault | None = None
        try:
            value = one(frame)
            if value is settles:
                return settles
            if value is not goes_on:
                raise wrong(f"{sign} takes booleans, not {kind_of(value)}")
        except Fault as found:
            fault = _past(frame, found, fault)
        try:
            value = other(frame)
            if value is settles:
                return settles
            if value is not goes_on:
                raise wrong(f"{sign} takes booleans, not {kind_of(value)}")
        except Fault as found:
            raise _past(frame, found, fault) from None
        if fault is not None:
            raise fault
        return goes_on

    return both


def _past(frame: Frame, found: Fault, first: Fault | None) -> Fault:
    """Keep a fault while another part may still decide the result. The first fault is reported."""
    if found.kind == "limit" and frame[METER] < 0:
        raise found  # no steps remain for the other part
    spend(frame, FAULT)
    if first is None:
        return found
    if found.reason not in first.also and len(first.also) < MESSAGE_MAX_CHARS:
        first.also += f"; {found.reason}"
    return first


def _not(inner: Run) -> Run:
    def negate(frame: Frame) -> bool:
        value = inner(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise wrong(f"`!` takes a boolean, not {kind_of(value)}")

    return negate


def _choose(asked: Run, then: Run, other: Run) -> Run:
    def choose(frame: Frame) -> Any:
        value = asked(frame)
        if value is True:
            return then(frame)
        if value is False:
            return other(frame)
        raise wrong(f"the condition of `?` is {kind_of(value)}")

    return choose


def _binary(sign: str, left: Run, right: Run) -> Run:
    match sign:
        case "==":
            return _equality(left, right)
        case "!=":
            return lambda frame: differ(frame, left(frame), right(frame))
        case "in":
            return lambda frame: within(frame, left(frame), right(frame))
        case "<":
            return lambda frame: before(frame, left(frame), right(frame))
        case ">":
            return _turned(left, right, False)
        case "<=":
            return _turned(left, right, True)
        case ">=":
            return lambda frame: not before(frame, left(frame), right(frame))
        case "+":
            return lambda frame: _plus(frame, left(frame), right(frame))
        case "-":
            return lambda frame: _minus(frame, left(frame), right(frame))
        case _:
            does = _CALCULATING[sign]
            return lambda frame: _numbers(frame, f"`{sign}`", does, left(frame), right(frame))


def _turned(left: Run, right: Run, negated_: bool) -> Run:
    """`>` is `<` with swapped values, and `<=` is the negation of `>`. The left side is still evaluated first."""

    def turned(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        return before(frame, other, one) is not negated_

    return turned


def _equality(left: Run, right: Run) -> Run:
    def equality(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        if type(one) is int is type(other):
            return bool(one == other)
        return same(frame, one, other)

    return equality


def _plus(frame: Frame, one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return joined(frame, one, other)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) + len(other) > VALUE_MAX_NODES:
            raise Fault("limit", "a list that is put together is too long")
        spend(frame, 16 * (len(one) + len(other)))
        return [*one, *other]
    if type(one) in (Timestamp, Duration) and type(other) in (Timestamp, Duration):
        if type(one) is Timestamp is type(other):
            raise wrong("two timestamps are not added")
        made = moment if Timestamp in (type(one), type(other)) else span
        return made(one.ns + other.ns)
    if isinstance(one, bytes) and isinstance(other, bytes):
        spend(frame, len(one) + len(other))
        return one + other
    return _numbers(frame, "`+`", plus, one, other)


def _minus(frame: Frame, one: Any, other: Any) -> Any:
    if type(one) in (Timestamp, Duration) and type(other) in (Timestamp, Duration):
        if type(one) is Duration and type(other) is Timestamp:
            raise wrong("no timestamp is taken from a duration")
        return (span if type(one) is type(other) else moment)(one.ns - other.ns)
    return _numbers(frame, "`-`", minus, one, other)


_CALCULATING: Final = {"*": times, "/": over, "%": modulo}


def _numbers(frame: Frame, sign: str, does: Callable[[Frame, Any, Any], Any], one: Any, other: Any) -> Any:
    spend(frame, 2 * VISIT if type(one) is int is type(other) else 16 * VISIT)
    if kind_of(one) != NUMBER or kind_of(other) != NUMBER:
        raise wrong(f"No matching overload: {sign} is asked of {kind_of(one)} and {kind_of(other)}")
    return does(frame, one, other)


def _map(parts: tuple[Run, ...]) -> Run:
    pairs = tuple(zip(parts[::2], parts[1::2], strict=True))

    def made(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_of, value_of in pairs:
            key = key_of(frame)
            if not isinstance(key, str):
                if not is_number(key):
                    raise wrong(f"{kind_of(key)} is no key of an object")
                key = exact(key)
            if key in found:
                raise Fault("error", "an object has one key twice")
            found[key] = value_of(frame)
        return found

    return made


def _call(node: Node) -> Run:
    assert isinstance(node.value, tuple)
    does = FUNCTIONS[node.value[0]].does
    parts = tuple(map(compiled, node.parts))
    if len(parts) == 1:
        one = parts[0]
        return lambda frame: does(frame, one(frame))
    if len(parts) == 2:
        first, second = parts
        return lambda frame: does(frame, first(frame), second(frame))
    return lambda frame: does(frame, *[part(frame) for part in parts])


# --- loops ---


def _loop(node: Node) -> Run:
    assert isinstance(node.value, tuple)
    name, depth = node.value
    items = _items(compiled(node.parts[0]), name, sum(VISIT for body in node.parts[1:] for _ in walk(body)))
    bodies = tuple(map(compiled, node.parts[1:]))
    at = VARIABLES + int(depth)
    match name:
        case "all":
            return _sought(items, bodies[0], at, False)
        case "exists":
            return _sought(items, bodies[0], at, True)
        case "exists_one":
            return lambda frame: sum(1 for _ in _kept(frame, items(frame), bodies[0], at, name)) == 1
        case "filter":
            return lambda frame: list(_kept(frame, items(frame), bodies[0], at, name))
        case _:
            return _mapped(items, bodies, at)


def _items(over_: Run, name: str, weight: int) -> Callable[[Frame], list[Any]]:
    """Return the values of a loop, after paying the steps of all rounds."""

    def items(frame: Frame) -> list[Any]:
        found = over_(frame)
        if isinstance(found, dict):
            found = list(found)
        elif not isinstance(found, list):
            raise wrong(f"`{name}` goes through a list, not {kind_of(found)}")
        spend(frame, (VISIT + weight) * len(found))
        return found

    return items


def _sought(items: Callable[[Frame], list[Any]], body: Run, at: int, settles: bool) -> Run:
    """`all` looks for one false, `exists` for one true. A find decides the result."""
    sign = "`exists`" if settles else "`all`"

    def sought(frame: Frame) -> Any:
        fault: Fault | None = None
        for item in items(frame):
            frame[at] = item
            try:
                value = body(frame)
                if value is settles:
                    return settles
                if value is not True and value is not False:
                    raise wrong(f"{sign} takes a boolean, not {kind_of(value)}")
            except Fault as found:
                fault = _past(frame, found, fault)
        if fault is not None:
            raise fault
        return not settles

    return sought


def _kept(frame: Frame, items: list[Any], body: Run, at: int, name: str) -> Any:
    for item in items:
        frame[at] = item
        value = body(frame)
        if value is True:
            yield item
        elif value is not False:
            raise wrong(f"`{name}` takes a boolean, not {kind_of(value)}")


def _mapped(items: Callable[[Frame], list[Any]], bodies: tuple[Run, ...], at: int) -> Run:
    body = bodies[-1]

    def mapped(frame: Frame) -> list[Any]:
        found = []
        for item in items(frame):
            frame[at] = item
            found.append(body(frame))
        return found

    if len(bodies) == 1:
        return mapped
    asked = bodies[0]

    def some(frame: Frame) -> list[Any]:
        found = []
        for item in _kept(frame, items(frame), asked, at, "map"):
            frame[at] = item
            found.append(body(frame))
        return found

    return some
