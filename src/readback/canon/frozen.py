"""Dataclasses with native methods: the interface of `dataclasses.dataclass`, with construction, comparison and freezing
in C by msgspec.

The hot path creates about seventy values an action, and the standard decorator's frozen classes cost more than the work
on them. A short process, such as a coding agent's hook, also pays for the source of six methods of each class, which
the standard decorator writes and compiles. Import `dataclass` from here. Import `field`, `fields`, `replace` and
`asdict` from `dataclasses`: a type checker sees the standard decorator. Only `slots=True` classes, frozen or not, are
native. The standard decorator makes all others.

A frozen class is exempt from Python's cyclic garbage collector if its field types hold only values. Such an object
cannot contain itself, and with many actions in flight the collector would scan all of them repeatedly.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from enum import EnumMeta
from inspect import get_annotations, getmodule
from operator import attrgetter
from reprlib import recursive_repr
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Generic

from msgspec import NODEFAULT, Struct, StructMeta
from msgspec import field as native_field
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

__all__ = ["dataclass", "settle"]

_OURS: Final = ({"slots": True}, {"slots": True, "frozen": True})
_PARENTS: Final[frozenset[type]] = frozenset({object, Generic})
_STANDARD: Final = {
    "__init__", "__new__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__",
    "__setstate__",
}  # fmt: skip
_OF_STRUCT: Final = {*StructMeta("_", (Struct,), {}).__dict__} - {"__module__", "__doc__"}
_VALUES: Final = (bool, bytes, float, int, str, NoneType)
_PLAIN: Final = {
    "None", "bool", "bytes", "float", "int", "str", "Json", "Literal", "Mapping", "dict", "frozenset", "list", "tuple",
}  # fmt: skip
"""Names in an annotation for a value, or for a container of the values named beside it."""
_NAMES: Final = re.compile(r"[\w.]*\w")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_LEFT_BEHIND: Final = {"__dict__", "__weakref__", "__dataclass_fields__", "__dataclass_params__"}


def _dataclass(cls: type[Any] | None = None, /, **asked: bool) -> Any:
    """Like `dataclasses.dataclass`, and delegating to it for every class outside the native kind.

    A subclass of a native class must use this decorator too.
    """
    if cls is None:  # used with options: @dataclass(frozen=True, slots=True)
        return lambda given: _dataclass(given, **asked)
    # msgspec has already built the layout of a subclass of a native class, so the subclass is native in any case.
    if asked in _OURS and (isinstance(cls, StructMeta) or _is_plain(cls)):
        return _native(cls, frozen=asked.get("frozen", False))
    return dataclasses.dataclass(cls, **asked)


if not TYPE_CHECKING:
    dataclass = _dataclass


def settle(value: Any, name: str, settled: object) -> None:
    """Set a field of a frozen object in its `__post_init__`, before other code sees the object."""
    force_setattr(value, name, settled)


def _is_plain(cls: type[Any]) -> bool:
    """Return whether a class has no base, no own version of a generated method, and only positional fields."""
    annotated = get_annotations(cls)
    taken = any("InitVar" in str(each) or "KW_ONLY" in str(each) for each in annotated.values())
    given = [value for name in annotated if isinstance(value := cls.__dict__.get(name), dataclasses.Field)]
    usual = all(each.init and each.kw_only is MISSING for each in given)
    return _PARENTS.issuperset(cls.__bases__) and usual and not (taken or _STANDARD & cls.__dict__.keys())


def _native(cls: type[Any], *, frozen: bool) -> Any:
    derived = isinstance(cls, StructMeta)
    # Frozen and mutable classes cannot inherit from each other, as with the standard decorator.
    if derived and cls.__struct_config__.frozen is not frozen:
        raise TypeError(f"{cls.__name__} must be frozen exactly if its base class is.")
    given = _given(cls) if derived else cls
    if given.__doc__ is None:
        given.__doc__ = cls.__name__  # else the standard decorator computes a signature for the text
    # The standard decorator finds fields, defaults and errors (a mutable default), but generates no method.
    described: Any = dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(given)
    parents = cls.__bases__ if derived else (Struct, *(each for each in cls.__bases__ if each is not object))
    made = _struct(described, parents, frozen)
    # `fields`, `replace` and `asdict` read these two attributes. Inherited fields come first.
    above = cls.__dataclass_fields__ if derived else {}
    made.__dataclass_fields__ = {**above, **described.__dataclass_fields__}
    made.__dataclass_params__ = described.__dataclass_params__
    made.__dataclass_params__.frozen = frozen
    return made


def _given(cls: Any) -> type[Any]:
    """Return a derived class as written. msgspec has read the class already, and treats a `field` as any value."""
    last_first = zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False)
    own = get_annotations(cls)
    values = {name: value for name, value in last_first if name in own and value is not NODEFAULT}
    rest = {name: value for name, value in cls.__dict__.items() if name not in own and name not in _OF_STRUCT}
    return type(cls.__name__, (), rest | values)


def _struct(described: Any, parents: tuple[type, ...], frozen: bool) -> Any:
    """Return the class again, with its fields in C."""
    found = dataclasses.fields(described)
    held = {f.name for f in found} | _LEFT_BEHIND
    names = {name: value for name, value in described.__dict__.items() if name not in held}
    names |= {f.name: f.default for f in found if f.default is not MISSING}
    # msgspec needs its own field object for a factory, and would take dataclasses' field as a default value.
    names |= {
        f.name: native_field(default_factory=f.default_factory) for f in found if f.default_factory is not MISSING
    }
    names |= {"__annotations__": {f.name: f.type for f in found}, "__qualname__": described.__qualname__}
    names |= _partial(found)
    # Annotations are texts (`from __future__ import annotations`): their names are resolved in the class's module. A
    # name unknown there, such as a later class, keeps the collector on.
    around = getattr(getmodule(described), "__dict__", {})
    acyclic = frozen and all(_holds_values(f.type, around) for f in found)
    return StructMeta(described.__name__, parents, names, frozen=frozen, gc=not acyclic)


def _partial(found: Sequence[dataclasses.Field[Any]]) -> dict[str, Any]:
    """Return the methods of a class with fields outside comparison or display: msgspec knows neither option."""
    methods: dict[str, Any] = {}
    if not all(each.compare for each in found):
        # At least two names, so that the getter returns a tuple.
        compared = attrgetter("__class__", *(each.name for each in found if each.compare))
        methods["__eq__"] = lambda one, two: (
            compared(one) == compared(two) if type(one) is type(two) else NotImplemented
        )
        methods["__hash__"] = lambda one: hash(compared(one))
    if not all(each.repr for each in found):
        shown = tuple(each.name for each in found if each.repr)
        methods["__repr__"] = recursive_repr()(
            lambda one: f"{type(one).__qualname__}({', '.join([f'{name}={getattr(one, name)!r}' for name in shown])})"
        )
    return methods


def _holds_values(annotation: object, around: Mapping[str, object]) -> bool:
    """Return whether every name in the annotation is known and names values. An unknown name may hold anything."""
    if not isinstance(annotation, str):
        return False
    names = (annotation,) if annotation in _PLAIN else _NAMES.findall(_QUOTED.sub("", annotation))
    return all(name in _PLAIN or (name in around and _is_of_values(around[name])) for name in names)


def _is_of_values(kind: object) -> bool:
    if isinstance(kind, StructMeta):  # a native class holds values only if it was built without the collector
        return not kind.__struct_config__.gc
    if isinstance(kind, UnionType):
        return all(map(_is_of_values, kind.__args__))
    return isinstance(kind, EnumMeta) or any(kind is each for each in _VALUES)
