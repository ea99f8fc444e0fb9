"""The keys of a contract, checked one by one and converted to types.

One mapping serves both notations: a decorator's keywords and a file's keys. Called by compile; expressions and handlers
are unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from readback.canon.frozen import dataclass
from readback.canon.limits import ID_MAX_BYTES
from readback.contracts.functions.callables import Reader
from readback.contracts.problems import Problems, did_you_mean
from readback.domain.contract.approval import EXPIRES_DEFAULT_US, PEOPLE_MAX, ApprovalTerms
from readback.domain.contract.contract import NOT_OFFERED, POLLS_MAX, Noop
from readback.domain.contract.freezing import FreezeScope
from readback.domain.contract.shadowing import Mode
from readback.domain.contract.watch import EVERY_MIN_US, LOOKS_MAX, WatchTerms
from readback.domain.kind import Kind
from readback.domain.normal_form import NormalForm, form_of
from readback.domain.side_effect import SideEffect
from readback.errors import ContractFieldError

# Durations as people write them, turned into microseconds. Used by options; it must not know what they are for.

DURATION_MAX_US: Final = 400 * 86_400 * 1_000_000
_UNITS_US: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_PART: Final = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))? *(us|ms|s|m|h|d)")
_WHOLE: Final = re.compile(rf" *(?:{_PART.pattern} *)+")
"""Spaces are allowed between number and unit pairs only: `1 0s` would be ten seconds, and `1m s` a millisecond."""


def microseconds(value: object) -> int:
    """Convert `"500ms"`, `"10s"`, `"1m30s"`, `"1.5h"`, or a timedelta. Raises ContractFieldError."""
    if isinstance(value, timedelta):
        span = value // timedelta(microseconds=1)
    elif isinstance(value, str):
        span = _written(value)
    else:
        raise ContractFieldError(
            f"A duration must be text with a unit, such as '10s', '500ms', '2m' or '1h' (got {value!r:.40})."
        )
    if not 0 <= span <= DURATION_MAX_US:
        raise ContractFieldError(f"The duration {value!s:.40} is not between 0 and 400 days.")
    return span


def _written(text: str) -> int:
    if len(text) > 64 or not text.isascii() or _WHOLE.fullmatch(text) is None:
        raise ContractFieldError(f"{text[:40]!r} is not a duration. Write a number with a unit: us, ms, s, m, h or d.")
    total = 0
    for whole, fraction, unit in _PART.findall(text):
        size = _UNITS_US[unit]
        total += int(whole) * size
        if fraction:
            total += int(fraction) * size // 10 ** len(fraction)
    return total


NAME_MAX_CHARS: Final = 128
ENTRIES_MAX: Final = 64
REASON_MAX_CHARS: Final = 500
PROVES: Final = ("submitted", "delivered")
UNCHANGED: Final[Mapping[str, Noop]] = {
    "accept": Noop.ALLOW,
    "refuse": Noop.REFUSE,
    "equivalent": Noop.EQUIVALENT,
}
"""The words of `on_unchanged`, with the recorded words."""
EXECUTE_KEYS: Final = ("timeout", "honours_key", "key_valid_for", "reversible")
APPROVAL_KEYS: Final = ("people", "expires", "when")
COMPARED_KEYS: Final = ("path", "as")
WATCH_KEYS: Final = ("after", "every", "for", "ensure")
OPTION_KEYS: Final = (
    "name", "version", "kind", "side_effect", "target", "identity", "require", "expected_version", "execute",
    "readers", "quorum", "ensure", "fails_when", "intermediate", "may_change", "on_unchanged", "noop", "within",
    "polls", "stable_for", "deadline", "late_window", "key_fields", "key_kept", "key_valid_for", "principals", "scopes",
    "redact", "tell", "unverifiable",
    "proves", "approval",
    "freeze", "watch", "mode",
)  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
DOTTED: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$\-]*(?:\.[A-Za-z_$][A-Za-z0-9_$\-]*)*")
REDACT_ROOTS: Final = ("requested", "intended", "observed", "before", "authoritative")

E = TypeVar("E", bound=StrEnum)


@dataclass(slots=True)
class Options:
    """A contract's keys with their types. None: left out, so the class's default applies. Durations in microseconds."""

    name: str = ""
    version: str = "1"
    kind: Kind | None = None
    side_effect: SideEffect | None = None
    target: str = ""
    identity: dict[str, str] = field(default_factory=dict)
    forms: dict[str, NormalForm] = field(default_factory=dict)
    require: Mapping[str, object] = field(default_factory=dict)
    expected_version: str = ""
    timeout_us: int | None = None
    honours_key: bool = False
    key_valid_for_us: int | None = None
    reversible: bool | None = None
    readers: tuple[Reader, ...] = ()
    quorum: int | None = None
    ensure: Mapping[str, object] = field(default_factory=dict)
    fails_when: Mapping[str, object] = field(default_factory=dict)
    intermediate: Mapping[str, object] = field(default_factory=dict)
    may_change: tuple[str, ...] | None = None
    noop: Noop | None = None
    noop_key: str = "noop"
    """The key's name as written."""
    within_us: int | None = None
    polls_us: tuple[int, ...] | None = None
    stable_for_us: int = 0
    deadline_us: int | None = None
    late_window_us: int | None = None
    key_fields: tuple[str, ...] = ()
    key_kept_us: int | None = None
    principals: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()
    unverifiable: str = ""
    proves: str = ""
    approval: ApprovalTerms | None = None
    freeze: tuple[FreezeScope, ...] | None = None
    watch: WatchTerms | None = None
    mode: Mode | None = None


def read_options(raw: Mapping[str, object], problems: Problems) -> Options:
    """Read every valid key; an invalid key is a problem, with its default in place until all problems are raised."""
    options = Options()
    for key in raw:
        if key not in OPTION_KEYS:
            problems.add(str(key), ContractFieldError(f"Unknown key.{did_you_mean(str(key), OPTION_KEYS)}"))
    for key in OPTION_KEYS:
        value = raw.get(key)
        if value is None:
            if key in ("kind", "side_effect"):
                problems.add(key, ContractFieldError(f"It is required.{did_you_mean('', _words(key))}"))
            continue
        if key == "execute":
            _execute(value, options, problems)
            continue
        if key == "identity":
            _identity(value, options, problems)
            continue
        attribute, read = _READ[key]
        try:
            setattr(options, attribute, read(value))
        except ContractFieldError as error:
            problems.add(key, error)
    if raw.get("on_unchanged") is not None and raw.get("noop") is not None:
        problems.add("noop", ContractFieldError("This is the older name of `on_unchanged`. Write one of the two."))
    if raw.get("on_unchanged") is not None:
        options.noop_key = "on_unchanged"
    return options


def _words(key: str) -> list[str]:
    return [str(member) for member in (Kind if key == "kind" else SideEffect)]


def _execute(value: object, options: Options, problems: Problems) -> None:
    if not isinstance(value, Mapping):
        reason = f"Must be a mapping of {', '.join(EXECUTE_KEYS)} (got {value!r:.40})."
        problems.add("execute", ContractFieldError(reason))
        return
    for key, each in value.items():
        try:
            match key:
                case "timeout":
                    options.timeout_us = _positive(each)
                case "honours_key":
                    options.honours_key = _flag(each)
                case "key_valid_for":
                    options.key_valid_for_us = _positive(each)
                case "reversible":
                    options.reversible = _flag(each)
                case _:
                    raise ContractFieldError(f"Unknown key.{did_you_mean(str(key), EXECUTE_KEYS)}")
        except ContractFieldError as error:
            problems.add(f"execute.{key}", error)


# --- one value ---------------------------------------------------------------------------------------------------


def _text(value: object, chars_max: int = NAME_MAX_CHARS) -> str:
    if not isinstance(value, str):
        raise ContractFieldError(f"Must be text (got {value!r:.40}).")
    if not value.strip() or not value.isprintable():
        raise ContractFieldError("The text is empty or contains control characters.")
    if len(value) > chars_max:
        raise ContractFieldError(f"The text has {len(value)} characters, more than {chars_max}.")
    return value


def _name(value: object) -> str:
    text = _text(value)
    if _NAME.fullmatch(text) is None:
        raise ContractFieldError(
            f"{text!r} is not a valid name. Use letters, digits, '_', '.' and '-', and no digit first."
        )
    return text


def _reason(value: object) -> str:
    return _text(value, REASON_MAX_CHARS)


def _raw_text(value: object) -> str:
    """Return text checked by another compiler: a template, an expression."""
    if not isinstance(value, str):
        raise ContractFieldError(f"Must be text (got {value!r:.40}).")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ContractFieldError(f"Must be true or false (got {value!r:.40}).")
    return value


def _positive(value: object) -> int:
    span = microseconds(value)
    if span == 0:
        raise ContractFieldError("The duration must be greater than zero.")
    return span


def _member(kind: type[E]) -> Callable[[object], E]:
    def read(value: object) -> E:
        for member in kind:
            if value == member.value:
                return member
        # The nearest word may be a weaker class: all are named, and the author chooses.
        choices = f" There are: {', '.join(kind)}." if kind is SideEffect else did_you_mean(str(value), list(kind))
        raise ContractFieldError(f"{value!r:.40} is not a valid value.{choices}")

    return read


def _on_unchanged(value: object) -> Noop:
    """The word `accept` is recorded as `allow`, so that contracts keep their hashes from the older key."""
    if isinstance(value, str) and value in UNCHANGED:
        return UNCHANGED[value]
    raise ContractFieldError(f"{value!r:.40} is not a valid value.{did_you_mean(str(value), UNCHANGED)}")


def _proves(value: object) -> str:
    if value not in PROVES:
        raise ContractFieldError(f"{value!r:.40} is not a valid value.{did_you_mean(str(value), PROVES)}")
    return str(value)


def _freeze(value: object) -> tuple[FreezeScope, ...]:
    """Return the scope of a freeze; the resource is always included."""
    named = {_member(FreezeScope)(each) for each in _list(value)}
    if not named:
        raise ContractFieldError("The list is empty. Omit the key to freeze the resource alone.")
    return tuple(scope for scope in FreezeScope if scope in named or scope is FreezeScope.RESOURCE)


def _quorum(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= ENTRIES_MAX:
        raise ContractFieldError(f"Must be a number of readers, at least 1 (got {value!r:.40}).")
    return value


def _list(value: object) -> list[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ContractFieldError(f"Must be a list (got {value!r:.40}).")
    if len(value) > ENTRIES_MAX:
        raise ContractFieldError(f"There are {len(value)} entries, more than {ENTRIES_MAX}.")
    return list(value)


def _texts(value: object) -> tuple[str, ...]:
    found = tuple(_text(each, ID_MAX_BYTES) for each in _list(value))
    if len(set(found)) != len(found):
        raise ContractFieldError("An entry is listed twice.")
    return found


def _principals(value: object) -> tuple[str, ...]:
    found = _texts(value)
    if not found:
        raise ContractFieldError("The list is empty. Omit the key to allow everyone.")
    return found


def _paths_under(root: str) -> Callable[[object], tuple[str, ...]]:
    """Return dotted paths within one root; the root itself is optional."""

    def read(value: object) -> tuple[str, ...]:
        return tuple(_dotted(each.removeprefix(f"{root}.")) for each in _texts(value))

    return read


def _tell(value: object) -> tuple[str, ...]:
    """Return dotted paths within the reading, with an optional root; paths of the reading before the call keep their
    root.
    """
    return tuple(_dotted(_short(each)) for each in _texts(value))


def _short(path: str) -> str:
    rest = path.removeprefix("authoritative.")
    return path if rest.startswith("before.") else rest


def _redact(value: object) -> tuple[str, ...]:
    found = tuple(_dotted(each) for each in _texts(value))
    for path in found:
        root, _, rest = path.partition(".")
        if root not in REDACT_ROOTS or not rest:
            raise ContractFieldError(
                f"{path!r} is not a path such as 'requested.card' under one of {', '.join(REDACT_ROOTS)}."
            )
    return found


def _dotted(path: str) -> str:
    if DOTTED.fullmatch(path) is None:
        raise ContractFieldError(f"{path!r:.80} is not a dotted path.")
    return path


def _polls(value: object) -> tuple[int, ...]:
    found = tuple(microseconds(each) for each in _list(value))
    if not found or len(found) > POLLS_MAX:
        raise ContractFieldError(f"There are {len(found)} entries, but 1 to {POLLS_MAX} are allowed.")
    return found


def _readers(value: object) -> tuple[Reader, ...]:
    found = _list(value)
    for each in found:
        if not isinstance(each, Reader):
            raise ContractFieldError(f"{each!r:.60} is not a reader. Create a reader with `@reader(source=...)`.")
    return tuple(each for each in found if isinstance(each, Reader))


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ContractFieldError(f"Must be a mapping of names (got {value!r:.40}).")
    if len(value) > ENTRIES_MAX:
        raise ContractFieldError(f"There are {len(value)} entries, more than {ENTRIES_MAX}.")
    return {_text(key): each for key, each in value.items()}


def _clauses(label: str) -> Callable[[object], dict[str, object]]:
    """Return named conditions; a single unnamed condition has its key's name."""

    def read(value: object) -> dict[str, object]:
        return {label: value} if isinstance(value, str) or callable(value) else _mapping(value)

    return read


def _identity(value: object, options: Options, problems: Problems) -> None:
    """Return each key as an expression, or as `path` with `as`: the comparison rule of the found value."""
    try:
        mapped = _mapping(value)
    except ContractFieldError as error:
        problems.add("identity", error)
        return
    for name, each in mapped.items():
        key = f"identity.{name}"
        try:
            if isinstance(each, Mapping):
                _compared(name, each, options)
            else:
                options.identity[name] = _raw_text(each)
        except _AtError as error:
            problems.add(f"{key}.{error.at}", ContractFieldError(error.said))
        except ContractFieldError as error:
            problems.add(key, error)


class _AtError(Exception):
    """Carries the faulty key below."""

    def __init__(self, at: str, said: str) -> None:
        super().__init__(said)
        self.at, self.said = at, said


def _compared(name: str, given: Mapping[object, object], options: Options) -> None:
    if "path" not in given:
        raise ContractFieldError(
            "`path` is missing. Add the expression for the found value, such as `authoritative.id`."
        )
    options.identity[name] = _raw_text(given["path"])
    for key in given:
        if key not in COMPARED_KEYS:
            raise _AtError(str(key), f"Unknown key.{did_you_mean(str(key), COMPARED_KEYS)}")
    word = given.get("as", NormalForm.EXACT.value)
    form = form_of(word)
    if form is None:
        raise _AtError("as", f"{word!r:.40} is not a normal form.{did_you_mean(str(word), list(NormalForm))}")
    if options.identity[name] == NOT_OFFERED:
        raise _AtError("as", "'not_offered' is never compared. Write 'not_offered' alone.")
    if name == "version":
        raise _AtError("as", "A version is compared unchanged. Remove `as`.")
    if form is not NormalForm.EXACT or "as" in given:
        options.forms[name] = form


def _approval(value: object) -> ApprovalTerms:
    """Return the terms: `"required"`, or the number of people, the validity, and the condition."""
    if value == "required":
        return ApprovalTerms()
    if not isinstance(value, Mapping):
        raise ContractFieldError(f"Must be 'required', or a mapping of {', '.join(APPROVAL_KEYS)} (got {value!r:.40}).")
    for key in value:
        if key not in APPROVAL_KEYS:
            raise ContractFieldError(f"Unknown key {key!r:.40}.{did_you_mean(str(key), APPROVAL_KEYS)}")
    people = value.get("people", 1)
    if not isinstance(people, int) or isinstance(people, bool) or not 1 <= people <= PEOPLE_MAX:
        raise ContractFieldError(f"'people' must be 1 or {PEOPLE_MAX} (got {people!r:.40}).")
    expires = _positive(value["expires"]) if "expires" in value else EXPIRES_DEFAULT_US
    return ApprovalTerms(people, expires, _raw_text(value.get("when", "")))


def _watch(value: object) -> WatchTerms:
    """Return the times of later readings: once after a time, or repeatedly until a time."""
    if not isinstance(value, Mapping):
        return WatchTerms(_positive(value))
    for key in value:
        if key not in WATCH_KEYS:
            raise ContractFieldError(f"Unknown key {key!r:.40}.{did_you_mean(str(key), WATCH_KEYS)}")
    if ("every" in value) != ("for" in value):
        raise ContractFieldError("'every' (the interval) and 'for' (the period) need each other.")
    if "after" not in value and "every" not in value:
        raise ContractFieldError("No time is given. Add 'after', or 'every' and 'for'.")
    every = _positive(value["every"]) if "every" in value else 0
    terms = WatchTerms(
        after_us=_positive(value["after"]) if "after" in value else every,
        every_us=every,
        for_us=_positive(value["for"]) if "for" in value else 0,
        ensure=_texts(value["ensure"]) if "ensure" in value else (),
    )
    if "ensure" in value and not terms.ensure:
        raise ContractFieldError("'ensure' is empty. Omit 'ensure' to check every postcondition.")
    return _bounded(terms)


def _bounded(terms: WatchTerms) -> WatchTerms:
    if not terms.every_us:
        return terms
    if terms.every_us < EVERY_MIN_US:
        raise ContractFieldError(f"'every' must be at least {EVERY_MIN_US} us (got {terms.every_us} us).")
    if terms.for_us < terms.after_us:
        raise ContractFieldError("'for' counts from the success, and would end before 'after' begins.")
    if terms.looks > LOOKS_MAX:
        raise ContractFieldError(
            f"The watch needs {terms.looks} readings, more than {LOOKS_MAX}. Use a longer 'every' or a shorter 'for'."
        )
    return terms


_READ: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    "name": ("name", _name),
    "version": ("version", _text),
    "kind": ("kind", _member(Kind)),
    "side_effect": ("side_effect", _member(SideEffect)),
    "target": ("target", _raw_text),
    "require": ("require", _clauses("require")),
    "expected_version": ("expected_version", _raw_text),
    "readers": ("readers", _readers),
    "quorum": ("quorum", _quorum),
    "ensure": ("ensure", _clauses("ensure")),
    "fails_when": ("fails_when", _clauses("fails_when")),
    "intermediate": ("intermediate", _clauses("intermediate")),
    "may_change": ("may_change", _paths_under("authoritative")),
    "on_unchanged": ("noop", _on_unchanged),
    "noop": ("noop", _member(Noop)),
    "within": ("within_us", _positive),
    "polls": ("polls_us", _polls),
    "stable_for": ("stable_for_us", microseconds),
    "deadline": ("deadline_us", _positive),
    "late_window": ("late_window_us", microseconds),
    "key_fields": ("key_fields", _texts),
    "key_kept": ("key_kept_us", _positive),
    "key_valid_for": ("key_valid_for_us", _positive),
    "principals": ("principals", _principals),
    "scopes": ("scopes", _texts),
    "redact": ("redact", _redact),
    "tell": ("tell", _tell),
    "unverifiable": ("unverifiable", _reason),
    "proves": ("proves", _proves),
    "approval": ("approval", _approval),
    "freeze": ("freeze", _freeze),
    "watch": ("watch", _watch),
    "mode": ("mode", _member(Mode)),
}
