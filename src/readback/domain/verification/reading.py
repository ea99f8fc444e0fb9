"""Readings: a system of record's answer, and its strength as evidence.

A reader returns a `Reading`. A `TakenReading` adds the source, the path, and the times of our clock before and after
the call. Values only; reconciliation judges.

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
    """Not shown, and possibly hidden from us. A 404 may also mean a missing permission."""
    UNAVAILABLE = "unavailable"
    """No answer from the source: down, 5xx, timeout."""


_PRESENT: Final = Presence.PRESENT
_ABSENT: Final = Presence.ABSENT
_UNAVAILABLE: Final = Presence.UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a system of record.

    `value` is plain JSON. `version` and `as_of_us` are the source's own; `stamp` is the stamp found inside the
    artefact; `author` is the writer according to the source. `created_after_dispatch`: the source states that the
    object is newer than the attempt. Newness proves freshness, not authorship. `consistency` overrides the reader's
    declaration at run time. `commit_token_honoured`: the source waited for the write's own token. `forms`: the source's
    own comparison rules by dotted field path, for example for a database column of UUIDs.

    Example:
        >>> from readback import Reading
        >>> found = Reading.of({"id": "o-17", "status": "shipped"}, version=3)
        >>> print(found.presence.value, found.value["status"], found.version)
        present shipped 3
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
        """Report an existing object. `value`: a mapping, a database row, or any JSON value.

        Raises UnsupportedValueError or ValueTooLargeError for a value without an exact JSON form.

        Example:
            >>> from readback import Reading
            >>> Reading.of({"id": 7, "status": "shipped"}, version=3).value
            {'id': 7, 'status': 'shipped'}
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
        """Report a visible absence: an existing object would have been seen. Use `not_visible` in any doubt.

        Example:
            >>> from readback import Reading
            >>> Reading.absent().presence.value
            'absent'
        """
        level = None if consistency is None else Consistency(consistency)
        return cls(_ABSENT, complete=complete, consistency=level)

    @classmethod
    def not_visible(cls, detail: str = "") -> Reading:
        """Report an object as not shown, possibly for lack of permission. Never counts as absence."""
        return cls(Presence.NOT_VISIBLE, detail=detail)

    @classmethod
    def unavailable(cls, detail: str = "") -> Reading:
        """Report a source without an answer. Never counts as absence."""
        return cls(_UNAVAILABLE, detail=detail)


def _forms(said: Mapping[str, str | Sequence[str]]) -> tuple[tuple[str, tuple[NormalForm, ...]], ...]:
    return tuple(
        (field, tuple(NormalForm(one) for one in ([forms] if isinstance(forms, str) else forms)))
        for field, forms in said.items()
    )


UNREADABLE: Final = "source.unreadable"
"""The code of a refusal where no look could ever read the target."""


class Role(StrEnum):
    """Purpose of a reading."""

    BEFORE = "before"
    CHECK = "check"
    FIND = "find"
    STAGED = "staged"


class Fault(StrEnum):
    """Why a reader returned no reading."""

    NONE = "none"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    VERIFIER_ERROR = "verifier_error"
    IMPOSSIBLE = "impossible"
    """No look can succeed: the target is outside the reader's permissions, or the reader is not configured."""


_NO_FAULT: Final = Fault.NONE


@dataclass(frozen=True, slots=True)
class TakenReading:
    """A reading with its provenance. Times are from our clock, around the call."""

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
        """The reader ran and answered. Only then does the reading count."""
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
    """The result of a look-up by key, in a system with idempotency keys.

    `status`: `landed` (with `value`), `failed` (final: no effect will land), `pending`, or `unknown_key`.

    Example:
        >>> from readback import Lookup
        >>> Lookup.by_word("done", landed={"done"}, failed={"rejected"}, value={"id": 7}).status
        'landed'
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
        """The system does not know the key. The request may still arrive."""
        return cls("unknown_key")

    @classmethod
    def by_word(
        cls, word: Json, landed: Collection[object], failed: Collection[object], value: object = None
    ) -> Lookup:
        """Translate the system's status word. An unlisted word means pending.

        An unlisted integer is compared by its digits, since a contract file names words only.
        """
        known = str(word) if type(word) is int and word not in landed and word not in failed else word
        if known in landed:
            return cls.landed(value)
        return cls.failed(str(word)) if known in failed else cls.pending()
