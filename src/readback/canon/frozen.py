"""Dataclasses that are native: `dataclasses.dataclass` to look at, and made, compared and guarded in C by msgspec.

The hot path makes some seventy values an action, and the standard decorator's frozen ones cost more than what is done
with them; a short process, as a coding agent's hook, pays for the source of six methods of each class besides, which
the standard decorator writes and compiles. Import `dataclass` from here, and `field`, `fields`, `replace` and `asdict`
from where they are: a type checker sees the standard one. A class of another kind than `slots=True`, frozen or not, is
the standard decorator's.

A frozen one whose fields hold nothing but values, by their types, cannot come to hold itself, so that Python's
collector of garbage in circles need not know of it: with many actions in flight it would look through all of them
again and again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import MISSING
from enum import EnumMeta
from inspect import get_annotations, getmodule
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
"""Names in an annotation that stand for a value, or for a holder of what is named beside it."""
_NAMES: Final = re.compile(r"[\w.]*\w")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_LEFT_BEHIND: Final = {"__dict__", "__weakref__", "__dataclass_fields__", "__dataclass_params__"}


def _dataclass(cls: type[Any] | None = None, /, **asked: bool) -> Any:
    """As `dataclasses.dataclass`, which makes every class that is not of the plain kind.

    One that is derived from a native one has to be made here too.
    """
    if cls is None:
        return lambda given: _dataclass(given, **asked)
    if asked in _OURS and (isinstance(cls, StructMeta) or _is_plain(cls)):
        return _native(cls, frozen=asked.get("frozen", False))
    return dataclasses.dataclass(cls, **asked)


if not TYPE_CHECKING:
    dataclass = _dataclass


def settle(value: Any, name: str, settled: object) -> None:
    """Puts a field of one that is frozen right, in its `__post_init__`: nobody has seen it yet."""
    force_setattr(value, name, settled)


def _is_plain(cls: type[Any]) -> bool:
    """Nothing above it, no method of its own among those that are made, and each field is given, shown and compared."""
    annotated = get_annotations(cls)
    taken = any("InitVar" in str(each) or "KW_ONLY" in str(each) for each in annotated.values())
    given = [value for name in annotated if isinstance(value := cls.__dict__.get(name), dataclasses.Field)]
    usual = all(each.init and each.repr and each.compare and each.kw_only is MISSING for each in given)
    return _PARENTS.issuperset(cls.__bases__) and usual and not (taken or _STANDARD & cls.__dict__.keys())


def _native(cls: type[Any], *, frozen: bool) -> Any:
    derived = isinstance(cls, StructMeta)
    if derived and cls.__struct_config__.frozen is not frozen:
        raise TypeError(f"{cls.__name__} has to be frozen, or not, as what it is derived from is.")
    given = _given(cls) if derived else cls
    if given.__doc__ is None:
        given.__doc__ = cls.__name__  # else the standard one looks up its signature to write one
    # The standard one finds the fields, what they are by default, and what is wrong with them; it writes no method.
    described: Any = dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(given)
    parents = cls.__bases__ if derived else (Struct, *(each for each in cls.__bases__ if each is not object))
    made = _struct(described, parents, frozen)
    above = cls.__dataclass_fields__ if derived else {}
    made.__dataclass_fields__ = {**above, **described.__dataclass_fields__}
    made.__dataclass_params__ = described.__dataclass_params__
    made.__dataclass_params__.frozen = frozen
    return made


def _given(cls: Any) -> type[Any]:
    """A derived class as it was written: msgspec has read it already, to which a `field` is a value like any other."""
    last_first = zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False)
    own = get_annotations(cls)
    values = {name: value for name, value in last_first if name in own and value is not NODEFAULT}
    rest = {name: value for name, value in cls.__dict__.items() if name not in own and name not in _OF_STRUCT}
    return type(cls.__name__, (), rest | values)


def _struct(described: Any, parents: tuple[type, ...], frozen: bool) -> Any:
    """The class again, with its fields in C."""
    found = dataclasses.fields(described)
    held = {f.name for f in found} | _LEFT_BEHIND
    names = {name: value for name, value in described.__dict__.items() if name not in held}
    names |= {f.name: f.default for f in found if f.default is not MISSING}
    names |= {
        f.name: native_field(default_factory=f.default_factory) for f in found if f.default_factory is not MISSING
    }
    names |= {"__annotations__": {f.name: f.type for f in found}, "__qualname__": described.__qualname__}
    around = getattr(getmodule(described), "__dict__", {})
    acyclic = frozen and all(_holds_values(f.type, around) for f in found)
    return StructMeta(described.__name__, parents, names, frozen=frozen, gc=not acyclic)


def _holds_values(annotation: object, around: Mapping[str, object]) -> bool:
    """Whether every name in it is known and stands for values; what is not known yet may hold anything."""
    if not isinstance(annotation, str):
        return False
    names = (annotation,) if annotation in _PLAIN else _NAMES.findall(_QUOTED.sub("", annotation))
    return all(name in _PLAIN or (name in around and _is_of_values(around[name])) for name in names)


def _is_of_values(kind: object) -> bool:
    if isinstance(kind, StructMeta):
        return not kind.__struct_config__.gc
    if isinstance(kind, UnionType):
        return all(map(_is_of_values, kind.__args__))
    return isinstance(kind, EnumMeta) or any(kind is each for each in _VALUES)
