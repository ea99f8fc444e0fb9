"""Names of operations for calls whose contract has none: the same call gets the same name after a crash.

A framework's call id alone is no name: providers restart their counters in each conversation, and draw new ids after a
crash. The name states the run, the tool, the arguments, and the number of results of the same call in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from readback.canon import Json, json_value, payload_bytes, sha256_hex
from readback.domain.outcome.planning_words import NEW_OPERATION, REPETITION
from readback.domain.state import ReportKey
from readback.kit.wording import is_result_text

SHOWN_MAX: Final = 100_000
"""Largest number of earlier results in a history."""
_RUN_MAX_BYTES: Final = 96
"""The name holds the SHA-256 of a longer run."""
_PART_MAX_BYTES: Final = 64
_REPETITION: Final = "Repetition: "
_ENDED: Final = (REPETITION[ReportKey.COMPLETED], NEW_OPERATION, "allowed:", "not as it is", "not now")
"""Beginnings of the repetition's line after an end without doubt."""


class ShownCall(NamedTuple):
    """A result in the model's history, named by the tool and the arguments of the call.

    `text`: the result as the model saw it. With a text, only ended results of Readback count. A result in doubt does
    not count, so that a repeated call joins the first one. Without a text the entry counts.

    Example:
        >>> from readback.kit import ShownCall
        >>> ShownCall("ship_order", {"order_id": "o-17"}).tool
        'ship_order'
    """

    tool: str
    arguments: Mapping[str, Any] | str
    text: str = ""


def canonical_hash(arguments: Mapping[str, Json]) -> str:
    """Return the SHA-256 (hex) of arguments in canonical form."""
    return sha256_hex(payload_bytes(json_value(dict(arguments))))


def derived(run: str, tool: str, hashed: str, occurrence: int) -> str:
    """Return the name of a call's occurrence, the first being 0."""
    return f"{short(run, _RUN_MAX_BYTES)}/{short(tool, _PART_MAX_BYTES)}/{hashed}/{occurrence}"


def by_ids(run: str, tool: str, hashed: str, *, message_id: str, call_id: str) -> str | None:
    """Return a name by the framework's ids; None without a call id. A message's id makes a call's id unique."""
    if not call_id:
        return None
    between = f"{short(tool, _PART_MAX_BYTES)}/{hashed}" if not message_id else short(message_id, _PART_MAX_BYTES)
    return f"{short(run, _RUN_MAX_BYTES)}/{between}/{short(call_id, _PART_MAX_BYTES)}"


def short(text: str, most: int) -> str:
    """Return a plain short text unchanged, and the SHA-256 of any other text: a part of an operation's name."""
    plain = text.isascii() and text.isprintable() and "/" not in text
    return text if plain and text.strip() and len(text) <= most else sha256_hex(text.encode(errors="replace"))


def occurrences(shown: Iterable[Any], tool: str, same: Callable[[Any], bool]) -> int:
    """Return how many ended results of this tool with the same arguments are in the history.

    `same` compares arguments. Raises TypeError or ValueError for an entry of another form.
    """
    found = 0
    for each in islice(shown, SHOWN_MAX):
        name, arguments, text = each if len(each) > 2 else (*each, "")
        if name == tool and has_ended(text) and same(arguments):
            found += 1
    return found


def has_ended(text: str) -> bool:
    """Return whether a result's text states an end without doubt: then the same call again is a new intent."""
    if not text:
        return True
    if not is_result_text(text):
        return False
    line = next((each for each in text.split("\n") if each.startswith(_REPETITION)), "")
    return line.removeprefix(_REPETITION).startswith(_ENDED)
