"""Dataclasses that are made quickly: what `dataclasses.dataclass` makes, with one method compiled in place of six.

The standard decorator writes source for each method of each class and compiles it: on Python 3.11 and 3.12 that is half
of what a short process pays for its start, as a coding agent's hook is. Here `__init__` alone is compiled, and what
compares and hashes when that is first asked for; showing and refusing to change are the same few functions for every
class. Import `dataclass` from here, and `field`, `fields` and `replace` from where they are: a type checker sees the
standard one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from inspect import get_annotations
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

_KNOWN: Final = {"frozen", "slots"}
_OWN: Final = {
    "__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__",
}  # fmt: skip
_SET: Final = object.__setattr__
_EQUAL: Final = "return {own} == {others} if other.__class__ is self.__class__ else NotImplemented"
_HASHED: Final = "return hash({own})"


def _dataclass(cls: type[Any] | None = None, /, **asked: bool) -> Any:
    """As `dataclasses.dataclass`, which makes every class that is not of the plain kind."""
    if cls is None:
        return lambda given: _dataclass(given, **asked)
    return _made(cls, **asked) if asked.keys() <= _KNOWN and _is_plain(cls) else dataclasses.dataclass(cls, **asked)


if not TYPE_CHECKING:
    dataclass = _dataclass


def _is_plain(cls: type[Any]) -> bool:
    """No dataclass above it, no method of its own among those that are made, and nothing that only `__init__` takes."""
    derived = any(dataclasses.is_dataclass(each) for each in cls.__mro__[1:])
    taken = any("InitVar" in str(each) for each in get_annotations(cls).values())
    return not (derived or taken or _OWN & cls.__dict__.keys())


def _made(cls: type[Any], *, frozen: bool = False, slots: bool = False) -> Any:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else the standard one looks up its signature to write one
    # Not frozen for the standard one, which would compile what refuses a change; `_refuse_changes` puts it there.
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    every = fields(made)
    made.__init__ = _initial(made, every, frozen)
    made.__repr__ = _showing(tuple(f.name for f in every if f.repr))
    made.__eq__, made.__hash__ = _comparing(made, tuple(f.name for f in every if f.compare))
    if not frozen:
        made.__hash__ = None
        return made
    _refuse_changes(made, frozenset(f.name for f in every))
    if slots:
        made.__getstate__, made.__setstate__ = _carried(tuple(f.name for f in every))
    made.__dataclass_params__.frozen = True
    return made


def _initial(cls: type[Any], every: tuple[Any, ...], frozen: bool) -> Callable[..., None]:
    """Sets each field, in the order of the class; a frozen one past its own refusal."""
    known: dict[str, Any] = {"_set": _SET, "_absent": MISSING}
    given: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for f in every:
        name, value = f.name, f.name
        if f.default is not MISSING:
            known[f"_d_{name}"] = f.default
            parameter, default = f"{name}=_d_{name}", f"_d_{name}"
        elif f.default_factory is not MISSING:
            known[f"_f_{name}"] = f.default_factory
            parameter, default = f"{name}=_absent", f"_f_{name}()"
            value = f"{default} if {name} is _absent else {name}"
        else:
            parameter, default = name, ""
        if f.init:
            (by_name if f.kw_only else given).append(parameter)
        elif default:
            value = default
        else:
            continue  # `__post_init__` sets it
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *given, *(["*", *by_name] if by_name else [])])
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({parameters}):\n    {body}", known)
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{f.name: f.type for f in every if f.init}, "return": None}
    made: Callable[..., None] = init
    return made


def _showing(names: tuple[str, ...]) -> Callable[[Any], str]:
    def shown(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    shown.__name__ = "__repr__"
    return recursive_repr()(shown)


def _comparing(made: Any, names: tuple[str, ...]) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
    """Equal are two of the very same class whose fields are. Compiled when that is first asked: of most it never is."""

    def equal(self: Any, other: object) -> Any:
        made.__eq__ = _compiled("__eq__", "self, other", names, _EQUAL)
        return made.__eq__(self, other)

    def hashed(self: Any) -> int:
        made.__hash__ = _compiled("__hash__", "self", names, _HASHED)
        found: int = made.__hash__(self)
        return found

    equal.__name__, hashed.__name__ = "__eq__", "__hash__"
    return equal, hashed


def _compiled(name: str, parameters: str, names: tuple[str, ...], body: str) -> Callable[..., Any]:
    own, others = ("".join(f"{whose}.{each}, " for each in names) for whose in ("self", "other"))
    known: dict[str, Any] = {}
    exec(f"def {name}({parameters}):\n    " + body.format(own=f"({own})", others=f"({others})"), known)
    made: Callable[..., Any] = known[name]
    return made


def _refuse_changes(made: Any, names: frozenset[str]) -> None:
    def refuse_set(self: Any, name: str, value: object) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def refuse_delete(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    made.__setattr__, made.__delattr__ = refuse_set, refuse_delete


def _carried(names: tuple[str, ...]) -> tuple[Callable[[Any], list[Any]], Callable[[Any, list[Any]], None]]:
    """How one that is frozen and has slots is copied and pickled."""

    def state_of(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def take_state(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            _SET(self, name, value)

    return state_of, take_state
