"""Frozen values that are made quickly.

A frozen dataclass sets each field through `object.__setattr__`, which costs nine times a plain assignment; the hot path
makes some five hundred fields for an action. `swift` keeps the class frozen for everybody and lets its `__init__` alone
assign plainly, as an instance of a twin with the same slots. Use it above `@dataclass(frozen=True, slots=True)`.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def swift(cls: type[T]) -> type[T]:
    """The same class with a quicker `__init__`. Not for one with `__post_init__`: its fields are set by then."""
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} has a __post_init__; leave it as it is.")
    own = fields(cls)  # type: ignore[arg-type]
    twin = type(cls.__name__, cls.__bases__, {"__slots__": tuple(f.name for f in own)})
    known: dict[str, Any] = {"_set": object.__setattr__, "_twin": twin, "_own": cls, "_absent": MISSING}
    parameters, lines = [], ["_set(self, '__class__', _twin)"]
    for f in own:
        given = f.name
        if f.default is not MISSING:
            known[f"_d_{f.name}"] = f.default
            parameters.append(f"{f.name}=_d_{f.name}")
        elif f.default_factory is not MISSING:
            known[f"_f_{f.name}"] = f.default_factory
            parameters.append(f"{f.name}=_absent")
            given = f"_f_{f.name}() if {f.name} is _absent else {f.name}"
        else:
            parameters.append(f.name)
        lines.append(f"self.{f.name} = {given}")
    lines.append("self.__class__ = _own")
    body = "\n    ".join(lines)
    exec(f"def __init__(self, {', '.join(parameters)}):\n    {body}", known)
    init = known["__init__"]
    init.__qualname__, init.__doc__ = f"{cls.__qualname__}.__init__", cls.__init__.__doc__
    init.__annotations__ = dict(cls.__init__.__annotations__)
    cls.__init__ = init  # type: ignore[method-assign]
    return cls
