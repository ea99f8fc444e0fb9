"""Unicode's normal forms, in time linear in the text.

The standard library sorts a run of combining characters by insertion. A run of 100,000 characters takes ten seconds,
and texts come from models and tools. Here a long run is sorted first, so that the standard library finds an ordered
run. Results are the same as the results of `unicodedata.normalize`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Final, Literal, TypeAlias
from unicodedata import combining, normalize

Form: TypeAlias = Literal["NFC", "NFD", "NFKC", "NFKD"]
SHORT_MAX_CHARACTERS: Final = 512
"""A shorter text takes less than a millisecond with any content."""
RUN_MAX_CHARACTERS: Final = 30
"""Unicode's stream-safe texts have no longer run of combining characters."""
_IOTA: Final = "\u0345"
_REPLACED_MAX: Final = 16
"""The number of characters removed one after the other. Beyond, a pattern is quicker."""
_REMOVED_MAX: Final = 4
"""With so few different characters, removing the others is quicker than a pass over the text."""
_FIRST, _AFTER_LAST = 0x300, 0x20000
"""The range of combining characters, and of characters that decompose into nothing else."""


def normalized(form: Form, text: str) -> str:
    """Return a text in a normal form."""
    if len(text) > SHORT_MAX_CHARACTERS and not text.isascii():
        full: Form = "NFKD" if "K" in form else "NFD"
        marks = _marks(full).intersection(set(text))
        if len({combining(part) for each in marks for part in normalize(full, each)}) > 1:  # else there is no order
            text = _long_run(marks).sub(lambda run: _in_order(full, run[0]), text)
    return normalize(form, text)


def has_long_run(text: str) -> bool:
    """Whether more than `RUN_MAX_CHARACTERS` combining characters stand in a row."""
    marks = frozenset() if text.isascii() else _marks("NFD").intersection(set(text))
    return bool(marks) and _long_run(marks).search(text) is not None


def without_marks(text: str) -> str:
    """Remove characters that decompose into combining characters only, apart from U+0345, which has a capital letter.

    A short text stays as it is.
    """
    if len(text) <= SHORT_MAX_CHARACTERS or text.isascii():
        return text
    marks = _marks("NFKD").intersection(set(text)) - {_IOTA}
    if len(marks) > _REPLACED_MAX:
        return re.sub(f"[{''.join(sorted(marks))}]+", "", text)
    for each in marks:
        text = text.replace(each, "")
    return text


def _in_order(full: Form, run: str) -> str:
    """Return the run decomposed, and in canonical order: by combining class, and within a class as before."""
    whole = {each: normalize(full, each) for each in set(run)}
    parts = run
    for each, decomposed in whole.items():  # few characters decompose, and none into another one of them
        if decomposed != each:
            parts = parts.replace(each, decomposed)
    classes = {each: combining(each) for each in set(parts)}
    if len(set(classes.values())) == len(classes):  # equal characters have no order among themselves
        return "".join([each * parts.count(each) for each in sorted(classes, key=classes.__getitem__)])
    if len(classes) <= _REMOVED_MAX:
        return "".join([_of_class(parts, classes, each) for each in sorted(set(classes.values()))])
    of_class: dict[int, list[str]] = {each: [] for each in sorted(classes.values())}
    add = {each: of_class[classes[each]].append for each in classes}
    for each in parts:
        add[each](each)
    return "".join(chain.from_iterable(of_class.values()))


def _of_class(parts: str, classes: dict[str, int], kept: int) -> str:
    for each, its_class in classes.items():
        if its_class != kept:
            parts = parts.replace(each, "")
    return parts


def _long_run(marks: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"[{''.join(sorted(marks))}]{{{RUN_MAX_CHARACTERS + 1},}}")


@cache
def _marks(full: Form) -> frozenset[str]:
    """The characters that decompose into combining characters only.

    U+0F73 is no combining character by its own class, and decomposes into two.
    """
    characters = map(chr, range(_FIRST, _AFTER_LAST))
    return frozenset(each for each in characters if all(map(combining, normalize(full, each))))


__all__ = ["RUN_MAX_CHARACTERS", "Form", "has_long_run", "normalized", "without_marks"]
