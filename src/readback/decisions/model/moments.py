"""Times as the formats of decisions write them: RFC 3339, in UTC. Reads them too, without any clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORM: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def written_moment(at_us: int) -> str:
    """`2026-02-11T06:34:13.250000Z`."""
    at = _EPOCH + timedelta(microseconds=at_us)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond:06d}Z"


def read_moment(text: str) -> int | None:
    """Microseconds since the epoch; None where the text is no moment of RFC 3339."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
    away = 0
    if found[8]:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 23 or minutes > 59:
            return None
        away = (hours * 60 + minutes) * (1 if found[8] == "+" else -1)
    try:
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    if second > 60 or (second == 60 and (minute - away) % 60 != 59):
        return None
    micros = int((found[7] or "0").ljust(6, "0")[:6])
    leap_us = (second - min(second, 59)) * 1_000_000
    return (at - _EPOCH) // timedelta(microseconds=1) + micros + leap_us - away * 60_000_000
