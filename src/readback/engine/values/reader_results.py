"""Results of readers, searches and look-ups in exact form: plain types, or the reason for a rejection.

Called by verify. User code and external systems may return anything. This module returns a value of known types and
sizes, or a fault. No input raises an error here, and nothing is guessed.
"""

from __future__ import annotations

from itertools import product
from operator import attrgetter

from readback.canon import Json, ReadbackError, json_value, stored_bytes
from readback.canon.limits import ID_MAX_BYTES, INTEGER_SAFE_MAX, INTEGER_WIRE_MAX, INTEGER_WIRE_MIN, PAYLOAD_MAX_BYTES
from readback.domain.normal_form import NormalForm
from readback.domain.side_effect import Consistency
from readback.domain.verification.observation import guarded, one_line
from readback.domain.verification.reading import Lookup, Presence, Reading

ERROR_TEXT_MAX = 300
FORMS_MAX = 64
_FIELDS = attrgetter(
    "presence", "version", "as_of_us", "consistency", "stamp", "author", "created_after_dispatch",
    "commit_token_honoured", "complete", "detail",
)  # fmt: skip
_NONE = type(None)
_USUAL = frozenset(
    (Presence, _NONE, _NONE, _NONE, stamp, author, bool, bool, bool, str)
    for stamp, author in product((_NONE, str), repeat=2)
)
"""Types of the fields of a reading without version and age: most readings."""
_FLAGS = ("created_after_dispatch", "commit_token_honoured", "complete")
LOOKUP_STATUSES = frozenset({"landed", "failed", "pending", "unknown_key"})


def reading_of(value: object) -> tuple[Reading | None, str]:
    """A reading in plain types; otherwise None and the reason."""
    if type(value) is not Reading:
        return None, f"returned {type(value).__name__}; it has to return a Reading"
    looked, made = guarded(_made_plain, value)
    return made if looked and made is not None else (None, "returned a Reading that cannot be looked at")


def _made_plain(value: Reading) -> tuple[Reading | None, str]:
    wrong = _wrong_field(value) or ("" if not value.forms or _are_forms(value.forms) else "forms")
    if wrong:
        return None, f"returned a Reading with a wrong {wrong}"
    try:
        plain = json_value(value.value)
    except ReadbackError as error:
        return None, one_line(f"returned a value that cannot be written down: {error}", ERROR_TEXT_MAX)
    if not fits(plain):
        return None, "returned a value over the size limit"
    return (
        Reading(
            value.presence,
            plain,
            value.version,
            value.as_of_us,
            _name(value.stamp),
            _name(value.author),
            value.created_after_dispatch,
            value.commit_token_honoured,
            value.complete,
            value.consistency,
            one_line(value.detail, ERROR_TEXT_MAX),
            value.forms,
        ),
        "",
    )


def lookup_of(value: object) -> Lookup | None:
    """A look-up's answer in plain types, None for an invalid answer. The answer's value decides nothing, and is not
    kept.
    """
    if type(value) is not Lookup or type(value.status) is not str or value.status not in LOOKUP_STATUSES:
        return None
    detail = value.detail
    return Lookup(value.status, detail=one_line(detail, ERROR_TEXT_MAX) if type(detail) is str else "")


def fits(value: Json) -> bool:
    """Whether the value is small enough for evidence."""
    try:
        return len(stored_bytes(value)) <= PAYLOAD_MAX_BYTES
    except ReadbackError:
        return False


def text_of(error: BaseException) -> str:
    """An exception's text, empty if the exception cannot produce a text."""
    return guarded(str, error)[1] or ""


def _are_forms(forms: object) -> bool:
    """Rules for each field, as written by `Reading.of`."""
    if type(forms) is not tuple or len(forms) > FORMS_MAX:
        return False
    for each in forms:
        if type(each) is not tuple or len(each) != 2 or type(each[0]) is not str or type(each[1]) is not tuple:
            return False
        if len(each[0]) > ERROR_TEXT_MAX or not all(type(form) is NormalForm for form in each[1]):
            return False
    return True


def _wrong_field(reading: Reading) -> str:
    """The name of the first field with a wrong type or size."""
    version, as_of_us, detail = reading.version, reading.as_of_us, reading.detail
    if (*map(type, _FIELDS(reading)),) in _USUAL:
        return ""
    if type(reading.presence) is not Presence:
        return "presence"
    if not (version is None or _is_version(version)):
        return "version"
    if not (as_of_us is None or (type(as_of_us) is int and abs(as_of_us) <= INTEGER_SAFE_MAX)):
        return "as_of_us"
    if not (reading.consistency is None or type(reading.consistency) is Consistency):
        return "consistency"
    if not (reading.stamp is None or type(reading.stamp) is str):
        return "stamp"
    if not (reading.author is None or type(reading.author) is str):
        return "author"
    flags: tuple[object, ...] = (reading.created_after_dispatch, reading.commit_token_honoured, reading.complete)
    for name, flag in zip(_FLAGS, flags, strict=True):
        if type(flag) is not bool:
            return name
    return "" if type(detail) is str else "detail"


def _is_version(version: object) -> bool:
    """A cut version could equal another version, so a long version is invalid."""
    if type(version) is int:
        return INTEGER_WIRE_MIN <= version <= INTEGER_WIRE_MAX
    return type(version) is str and version.isprintable() and len(version.encode()) <= ID_MAX_BYTES


def _name(text: str | None) -> str | None:
    """A stamp or an author from the artefact, possibly written by others. A foreign name stays foreign after cutting or
    cleaning.
    """
    return text if text is None else one_line(text, ID_MAX_BYTES)
