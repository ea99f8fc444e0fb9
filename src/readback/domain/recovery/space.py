"""The set of all situations, and its subsets as bits: so that a table is proven over every one of them, and quickly.

Called by `recovery.check`. There are some 74,000 situations; a subset is one integer with a bit for each, and what rows
match is found by `and` and `or` of such integers, a few microseconds each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import prod
from typing import Final

from readback.domain.recovery.row import DOMAINS, Condition, ConditionValue

_NAMES: Final = tuple(DOMAINS)
SIZE: Final = prod(len(values) for values in DOMAINS.values())
"""How many situations there are."""
ALL: Final = (1 << SIZE) - 1
"""The set of all of them."""


@lru_cache(maxsize=128)
def having(name: str, value: ConditionValue) -> int:
    """The situations in which this field has this value."""
    place = _NAMES.index(name)
    block = prod(len(DOMAINS[later]) for later in _NAMES[place + 1 :])
    period = block * len(DOMAINS[name])
    ones = ((1 << block) - 1) << (DOMAINS[name].index(value) * block)
    return ones * (ALL // ((1 << period) - 1))


def matching(condition: Condition) -> int:
    """The situations that meet a condition."""
    found = ALL
    for name, allowed in condition.items():
        found &= _union(having(name, value) for value in allowed)
    return found


def meeting(when: Iterable[Condition]) -> int:
    """The situations that meet any of the conditions."""
    return _union(matching(condition) for condition in when)


def described(subset: int) -> str:
    """The simplest description of a part of a set that is not empty: as few fields as tell it apart.

    Starts at one member and lets every field go that may have any value without leaving the set.
    """
    held = dict(_member(subset))
    for name in _NAMES:
        wider = {key: value for key, value in held.items() if key != name}
        if not matching({key: (value,) for key, value in wider.items()}) & ~subset:
            held = wider
    return " and ".join(_worded(name, value) for name, value in held.items())


def _member(subset: int) -> Mapping[str, ConditionValue]:
    """One situation of the set."""
    return dict(_digits((subset & -subset).bit_length() - 1))


def _digits(index: int) -> Iterator[tuple[str, ConditionValue]]:
    for name in reversed(_NAMES):
        index, digit = divmod(index, len(DOMAINS[name]))
        yield name, DOMAINS[name][digit]


def _worded(name: str, value: ConditionValue) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} is {value.value}"


def _union(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found
