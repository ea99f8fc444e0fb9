"""Schedule of signed checkpoints: after a number of entries, or seconds after the first entry not covered.

Read from the settings' `[seal]` table and from `Readback.open(seal=...)`, by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.canon.frozen import dataclass
from readback.errors import SettingsError

ENTRIES_DEFAULT: Final = 4_096
ENTRIES_MAX: Final = 1_000_000
SECONDS_DEFAULT: Final = 10.0
SECONDS_MAX: Final = 86_400.0
ANCHORS_MAX: Final = 16
_KEYS: Final = ("anchors", "entries", "off", "secret", "seconds")


@dataclass(frozen=True, slots=True)
class SealSchedule:
    """When to sign a checkpoint, and where to store copies outside the ledger.

    `anchors`: URLs of places for each checkpoint. `secret`: the location of the bearer token for anchors over HTTP
    (`env:NAME`, `file:PATH`). `off`: no automatic signing.
    """

    entries: int = ENTRIES_DEFAULT
    seconds: float = SECONDS_DEFAULT
    anchors: tuple[str, ...] = ()
    secret: str = ""
    off: bool = False


SEAL_DEFAULT: Final = SealSchedule()


def seal_schedule_of(given: Mapping[str, object], where: str) -> SealSchedule:
    """Return the schedule of a table. Raises SettingsError, with the table's location."""
    odd = sorted(set(given) - set(_KEYS))
    if odd:
        raise SettingsError(f"{where} has the unknown key {odd[0]!r}.", remedy=f"Known keys: {', '.join(_KEYS)}.")
    entries, seconds = given.get("entries", ENTRIES_DEFAULT), given.get("seconds", SECONDS_DEFAULT)
    if type(entries) is not int or not 1 <= entries <= ENTRIES_MAX:
        raise SettingsError(
            f"{where}: entries must be a whole number from 1 to {ENTRIES_MAX}.", remedy="Correct the value."
        )
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= SECONDS_MAX:
        raise SettingsError(
            f"{where}: seconds must be a number from 0 to {SECONDS_MAX:.0f}.", remedy="Correct the value."
        )
    anchors, secret, off = given.get("anchors", ()), given.get("secret", ""), given.get("off", False)
    if not isinstance(anchors, list | tuple) or not all(isinstance(each, str) and each for each in anchors):
        raise SettingsError(f"{where}: anchors must be a list of URLs.", remedy="Correct the value.")
    if len(anchors) > ANCHORS_MAX or len(set(anchors)) < len(anchors):
        raise SettingsError(f"{where}: anchors are at most {ANCHORS_MAX}, each named once.", remedy="Correct the list.")
    if not isinstance(secret, str) or not isinstance(off, bool):
        raise SettingsError(f"{where}: secret must be a text, and off true or false.", remedy="Correct the value.")
    return SealSchedule(entries, float(seconds), tuple(anchors), secret, off)
