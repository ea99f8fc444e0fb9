"""Copies of an action's values for user code, so that no call changes another's values.

Called by a run before each call. The tool, the readers and the searches share no mutable value. Otherwise a tool
emptying its list of work would leave its reader an empty list, and the reader would find nothing missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Final

from readback.canon import Json, json_value
from readback.canon.values import short_copy
from readback.domain.verification.observation import guarded

_UNCHANGING: Final = frozenset({str, int, float, bool, bytes, type(None)})


def has_mutable(arguments: Mapping[str, object]) -> bool:
    """Whether any value is mutable. Most arguments are not."""
    return not _UNCHANGING.issuperset(map(type, arguments.values()))


def copy_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments for one call."""
    return {name: _own(value) for name, value in arguments.items()}


def own_json(values: Mapping[str, Json]) -> dict[str, Json]:
    """The same for plain values."""
    return {name: _own_plain(value) for name, value in values.items()}


def own_value(value: Json) -> Json:
    """A copy of a plain value, such as the tool's answer, for one call."""
    plain = short_copy(value) if type(value) is dict else None
    return json_value(value) if plain is None else plain


def _own_plain(value: Json) -> Json:
    if type(value) is dict:
        return own_json(value)
    return [_own_plain(part) for part in value] if type(value) is list else value


def _own(value: object) -> object:
    """A copy; for uncopyable values, such as a redacted argument, the object itself."""
    if type(value) in _UNCHANGING:
        return value
    if type(value) is dict:
        return {key: _own(part) for key, part in value.items()}
    if type(value) is list:
        return [_own(part) for part in value]
    copied, made = guarded(deepcopy, value)
    return made if copied else value
