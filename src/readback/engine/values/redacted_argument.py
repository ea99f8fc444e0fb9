"""A stand-in for an argument with a redacted value, after a resume: it can be passed on, and not used.

Placed by resume, for readers, searches and look-ups. A usable mark would make a reader look for the wrong object and
find nothing, and the result would count as absence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from readback.canon import Json, UnsupportedValueError
from readback.domain.verification.change import is_withheld


class RedactedArgument:
    """Raises UnsupportedValueError on any use: the reading is then undetermined."""

    __slots__ = ()

    def _refuse(self, *_given: object) -> NoReturn:
        raise UnsupportedValueError("This argument is recorded as redacted only; its value is unknown.")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = __str__ = __repr__ = __format__ = __bool__ = __len__ = __iter__ = _refuse
    __getitem__ = __contains__ = __getattr__ = __int__ = __float__ = __index__ = __bytes__ = __fspath__ = _refuse
    __add__ = __radd__ = __mod__ = __rmod__ = __call__ = _refuse


WITHHELD = RedactedArgument()


def arguments_of(requested: Mapping[str, Json]) -> dict[str, object]:
    """The recorded arguments, with a stand-in for each redaction mark."""
    return {name: _known(value) for name, value in requested.items()}


def _known(value: Json) -> object:
    if is_withheld(value):
        return WITHHELD
    if isinstance(value, dict):
        return arguments_of(value)
    return [_known(part) for part in value] if isinstance(value, list) else value
