"""Timestamps and durations: exact to the nanosecond, as integers. No time zone data of the machine is read.

`timestamp` accepts RFC 3339 with an offset, to the nanosecond. A finer fraction is refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from readback.adapters.cel.faults import Fault, wrong
from readback.canon.frozen import dataclass

NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_NS: Final = -62_135_596_800 * NS
_LAST_NS: Final = 253_402_300_800 * NS - 1
_DURATION_MAX_NS: Final = 315_576_000_000 * NS
TEXT_MAX_CHARS: Final = 64
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,32}))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_PART: Final = re.compile(r"([0-9]+)?(?:\.([0-9]*))?(ns|us|\N{MICRO SIGN}s|ms|h|m|s)")
_UNITS: Final = {
    "h": 3_600 * NS, "m": 60 * NS, "s": NS, "ms": 1_000_000, "us": 1_000, "\N{MICRO SIGN}s": 1_000, "ns": 1,
}  # fmt: skip
_OFFSET: Final = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")


def _fraction(ns: int) -> str:
    """Return the fraction of a second, in groups of three digits."""
    if not ns:
        return ""
    digits = f"{ns:09d}"
    return "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits)


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time: nanoseconds since 1970 in UTC."""

    ns: int

    def __str__(self) -> str:
        whole, part = divmod(self.ns, NS)
        base = (_EPOCH + timedelta(seconds=whole)).strftime("%m-%dT%H:%M:%S")
        year = (_EPOCH + timedelta(seconds=whole)).year
        return f"{year:04d}-{base}{_fraction(part)}Z"


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in nanoseconds."""

    ns: int

    def __str__(self) -> str:
        whole, part = divmod(abs(self.ns), NS)
        return f"{'-' if self.ns < 0 else ''}{whole}{_fraction(part)}s"


def moment(ns: int) -> Timestamp:
    """Raises Fault outside the years 1 to 9999."""
    if not _FIRST_NS <= ns <= _LAST_NS:
        raise Fault("limit", "a timestamp is outside the years 1 to 9999")
    return Timestamp(ns)


def span(ns: int) -> Duration:
    """Raises Fault beyond some ten thousand years."""
    if not -_DURATION_MAX_NS <= ns <= _DURATION_MAX_NS:
        raise Fault("limit", "a duration is longer than ten thousand years")
    return Duration(ns)


def timestamp_of(text: str) -> Timestamp:
    """Parse an RFC 3339 text."""
    found = _RFC3339.fullmatch(text) if len(text) <= TEXT_MAX_CHARS else None
    if found is None:
        raise wrong("a text is no timestamp with its offset, such as 2026-01-31T08:30:00Z")
    fraction = (found[7] or "").rstrip("0")
    if len(fraction) > 9:
        raise wrong("a timestamp says more than nanoseconds")
    try:
        year, month, day, hour, minute, second = map(int, found.groups()[:6])
        local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise wrong("a text is no timestamp: there is no such day or time") from error
    seconds = (local - _EPOCH) // timedelta(seconds=1)
    offset = found[8]
    if offset != "Z":
        hours, minutes = int(offset[1:3]), int(offset[4:])
        if hours > 23 or minutes > 59:
            raise wrong("a text is no timestamp: there is no such offset")
        seconds -= (hours * 3_600 + minutes * 60) * (-1 if offset[0] == "-" else 1)
    return moment(seconds * NS + int(fraction.ljust(9, "0") or "0"))


def duration_of(text: str) -> Duration:
    """Parse a text such as `1h30m` or `-1.5s`."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    total, at = 0, 0
    if len(text) > TEXT_MAX_CHARS or not rest:
        raise wrong("a text is no duration, such as 1h30m or 1.5s")
    while rest != "0" and at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            raise wrong("a text is no duration, such as 1h30m or 1.5s")
        unit, fraction = _UNITS[part[3]], part[2] or ""
        total += int(part[1] or "0") * unit
        finer = int(fraction or "0") * unit
        if finer % 10 ** len(fraction):
            raise wrong("a duration says less than nanoseconds")
        total += finer // 10 ** len(fraction)
        at = part.end()
    return span(-total if text[0] == "-" else total)


def is_zone(zone: str) -> bool:
    """Return whether a text is a supported time zone: a fixed offset, or UTC."""
    found = _OFFSET.fullmatch(zone) if len(zone) <= TEXT_MAX_CHARS else None
    return zone in ("UTC", "Z") or (found is not None and int(found[2]) < 24 and int(found[3]) < 60)


def _local(at: Timestamp, zone: str) -> datetime:
    """Return the local time, to the second, at a fixed offset."""
    offset = 0
    if zone not in ("UTC", "Z"):
        found = _OFFSET.fullmatch(zone) if is_zone(zone) else None
        if found is None:
            raise wrong("a time zone is an offset such as +02:00, or UTC; names of places are not known here")
        offset = (int(found[2]) * 3_600 + int(found[3]) * 60) * (-1 if found[1] == "-" else 1)
    try:
        return _EPOCH + timedelta(seconds=at.ns // NS + offset)
    except OverflowError as error:
        raise Fault("limit", "a timestamp is outside the years 1 to 9999") from error


_PARTS: Final = {
    "getFullYear": lambda t: t.year,
    "getMonth": lambda t: t.month - 1,
    "getDate": lambda t: t.day,
    "getDayOfMonth": lambda t: t.day - 1,
    "getDayOfWeek": lambda t: t.isoweekday() % 7,
    "getDayOfYear": lambda t: t.timetuple().tm_yday - 1,
    "getHours": lambda t: t.hour,
    "getMinutes": lambda t: t.minute,
    "getSeconds": lambda t: t.second,
}
ACCESSORS: Final = (*_PARTS, "getMilliseconds")
_OF_SPANS: Final = {"getHours": 3_600 * NS, "getMinutes": 60 * NS, "getSeconds": NS}


def part_of(name: str, value: object, zone: object = "UTC") -> int:
    """Return one part of a timestamp in a zone, or a duration in a unit."""
    if type(value) is Duration and zone == "UTC":
        whole = abs(value.ns)
        if name == "getMilliseconds":
            found = whole % NS // 1_000_000
        elif name in _OF_SPANS:
            found = whole // _OF_SPANS[name]
        else:
            raise wrong(f"a duration has no {name}")
        return -found if value.ns < 0 else found
    if type(value) is not Timestamp or not isinstance(zone, str):
        raise wrong(f"{name} takes a timestamp")
    if name == "getMilliseconds":
        _local(value, zone)
        return value.ns % NS // 1_000_000
    return int(_PARTS[name](_local(value, zone)))
