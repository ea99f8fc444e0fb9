"""Readings: what a system of record said, and how much that is worth.

A `Reading` is what a reader returns; a `TakenReading` is that reading in its place, with the path it came by
and the times of our clock around it. Used by readers (authors), lifecycle.verify and reconciliation. It judges
nothing.

Source: the action verification specification, "State Reconciliation Model", and the reading rules of ARCHITECTURE.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final

from readback.canon import Json, json_value
from readback.canon.frozen import dataclass
from readback.domain.normal_form import NormalForm
from readback.domain.side_effect import Consistency, Independence

_STRONG: Final = Consistency.STRONG


class Presence(StrEnum):
    """Whether the source showed the object. Only the first two are statements about the world."""

    PRESENT = "present"
    ABSENT = "absent"
    NOT_VISIBLE = "not_visible"
    """Not shown, and we cannot tell whether it is hidden from us (a 404 that missing permission would give too)."""
    UNAVAILABLE = "unavailable"
    """The source did not answer: down, 5xx, timeout."""


_PRESENT: Final = Presence.PRESENT
_ABSENT: Final = Presence.ABSENT
_UNAVAILABLE: Final = Presence.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at a system of record found.

    `value` is plain JSON. `version` and `as_of_us` are the source's own; `stamp` is the stamp found inside the
    artefact; `author` is who the source says made it so; `created_after_dispatch` is the source's own word that the
    object is newer than the attempt: it proves freshness, and not whose the object is. `consistency` overrides what
    the reader declared, for one that knows better at run time. `commit_token_honoured`: the source waited for the
    write's own token. `forms`: by which rules the source itself compares a field, named by its dotted path, as the
    database does a column of UUIDs.
    """

    presence: Presence
    value: Json = None
    version: int | str | None = None
    as_of_us: int | None = None
    stamp: str | None = None
    author: str | None = None
    created_after_dispatch: bool = False
    commit_token_honoured: bool = False
    complete: bool = True
    consistency: Consistency | None = None
    detail: str = ""
    forms: tuple[tuple[str, tuple[NormalForm, ...]], ...] = ()

    @classmethod
    def of(
        cls,
        value: object,
        *,
        version: int | str | None = None,
        as_of_us: int | None = None,
        stamp: str | None = None,
        author: str | None = None,
        created_after_dispatch: bool = False,
        commit_token_honoured: bool = False,
        complete: bool = True,
        consistency: Consistency | str | None = None,
        forms: Mapping[str, str | Sequence[str]] | None = None,
    ) -> Reading:
        """The object is there, and looks so. `value`: a mapping, a database row, or any JSON value.

        Raises UnsupportedValueError or ValueTooLargeError for what cannot be written down exactly.
        """
        return cls(
            _PRESENT,
            json_value(value),
            version,
            as_of_us,
            stamp,
            author,
            created_after_dispatch,
            commit_token_honoured,
            complete,
            None if consistency is None else Consistency(consistency),
            forms=_forms(forms) if forms else (),
        )

    @classmethod
    def absent(cls, *, complete: bool = True, consistency: Consistency | str | None = None) -> Reading:
        """The object is not there, and we would have seen it. Say `not_visible` where you are not sure of that."""
        level = None if consistency is None else Consistency(consistency)
        return cls(_ABSENT, complete=complete, consistency=level)

    @classmethod
    def not_visible(cls, detail: str = "") -> Reading:
        """Nothing was shown, which may also be a question of permission. Never taken for absence."""
        return cls(Presence.NOT_VISIBLE, detail=detail)

    @classmethod
    def unavailable(cls, detail: str = "") -> Reading:
        """The source did not answer. Never taken for absence."""
        return cls(_UNAVAILABLE, detail=detail)


def _forms(said: Mapping[str, str | Sequence[str]]) -> tuple[tuple[str, tuple[NormalForm, ...]], ...]:
    return tuple(
        (field, tuple(NormalForm(one) for one in ([forms] if isinstance(forms, str) else forms)))
        for field, forms in said.items()
    )


UNREADABLE: Final = "source.unreadable"
"""The code of a refusal of what no look could ever read."""


class Role(StrEnum):
    """What a reading was taken for."""

    BEFORE = "before"
    CHECK = "check"
    FIND = "find"
    STAGED = "staged"


class Fault(StrEnum):
    """Why a reader gave no reading."""

    NONE = "none"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    VERIFIER_ERROR = "verifier_error"
    IMPOSSIBLE = "impossible"
    """No look can read what is asked for: it lies outside of what the reader may see, or the reader is not set up."""


_NO_FAULT: Final = Fault.NONE


@dataclass(frozen=True, slots=True)
class TakenReading:
    """A reading with its provenance. Times are of our clock, around the call."""

    role: Role
    reader: str
    source: str
    consistency: Consistency
    independence: Independence
    reading: Reading
    started_us: int
    finished_us: int
    fault: Fault = Fault.NONE
    error: str = ""

    @property
    def ran(self) -> bool:
        """The reader really ran and said something: only then it may count for anything."""
        return self.fault is _NO_FAULT and self.reading.presence is not _UNAVAILABLE

    @property
    def strong(self) -> bool:
        return self.consistency is _STRONG

    @property
    def believable_absence(self) -> bool:
        """Absence with proof of sight, from a strong and complete reading."""
        return self.ran and self.strong and self.reading.complete and self.reading.presence is _ABSENT


@dataclass(frozen=True, slots=True)
class Lookup:
    """What became of the attempt with our key, by the word of the system that honours keys.

    `status`: `landed` (with `value`), `failed` (final: it will not land), `pending`, or `unknown_key`.
    """

    status: str
    value: Json = None
    detail: str = ""

    @classmethod
    def landed(cls, value: object = None) -> Lookup:
        return cls("landed", json_value(value))

    @classmethod
    def failed(cls, detail: str = "") -> Lookup:
        """Final: the attempt is dead and left no effect."""
        return cls("failed", detail=detail)

    @classmethod
    def pending(cls) -> Lookup:
        return cls("pending")

    @classmethod
    def unknown_key(cls) -> Lookup:
        """The system does not know the key: it may still arrive."""
        return cls("unknown_key")

    @classmethod
    def by_word(
        cls, word: Json, landed: Collection[object], failed: Collection[object], value: object = None
    ) -> Lookup:
        """By the word with which the system says what became of it: any that is none of these is pending. A whole
        number that is itself none of them is its digits: a contract file names words alone.
        """
        known = str(word) if type(word) is int and word not in landed and word not in failed else word
        if known in landed:
            return cls.landed(value)
        return cls.failed(str(word)) if known in failed else cls.pending()
