"""Rebuild a reading from its ledger entry and its evidence: the inverse of `verify.record_reading`.

Called by resume after a crash, and by replay. A missing field is an error, and never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

from readback.canon import Json
from readback.domain.normal_form import NormalForm
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verification.reading import Fault, Presence, Reading, Role, TakenReading
from readback.errors import StoreCorruptError


def taken_as_recorded(data: Mapping[str, Json], value: Json) -> TakenReading:
    """The reading of a `read` entry, with its content from the evidence. Raises StoreCorruptError."""
    try:
        return _taken(data, value)
    except (KeyError, ValueError, TypeError) as wrong:
        raise StoreCorruptError(f"A recorded reading cannot be read back: {wrong}.") from wrong


def _taken(data: Mapping[str, Json], value: Json) -> TakenReading:
    as_of, error = data["source_as_of"], str(data["error"])
    reading = Reading(
        Presence(str(data["presence"])),
        value,
        version=_version(data),
        as_of_us=as_of if isinstance(as_of, int) else None,
        stamp=_text(data["stamp"]),
        author=_text(data["author"]),
        created_after_dispatch=data["newer"] is True,
        commit_token_honoured=data["token"] is True,
        complete=data["complete"] is True,
        detail=error,
        forms=_forms(data.get("forms")),
    )
    return TakenReading(
        Role(str(data["role"])),
        str(data["reader"]),
        str(data["source"]),
        Consistency(str(data["consistency"])),
        Independence(str(data["independence"])),
        reading,
        _whole(data["started"]),
        _whole(data["finished"]),
        Fault(str(data["fault"])),
        error,
    )


def _version(data: Mapping[str, Json]) -> int | str | None:
    version = data["source_version"]
    if isinstance(version, str) and data.get("wide") is True:
        return int(version)
    if version is None or (isinstance(version, int | str) and not isinstance(version, bool)):
        return version
    raise TypeError(f"a version of type {type(version).__name__}")


def _forms(raw: Json) -> tuple[tuple[str, tuple[NormalForm, ...]], ...]:
    said = raw if isinstance(raw, dict) else {}
    return tuple(
        (field, tuple(NormalForm(str(form)) for form in forms))
        for field, forms in said.items()
        if isinstance(forms, list)
    )


def _text(value: Json) -> str | None:
    return value if value is None else str(value)


def _whole(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a time of type {type(value).__name__}")
    return value
