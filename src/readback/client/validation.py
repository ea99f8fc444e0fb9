"""Type checks of a program's parameters for opening a client or naming an action.

Called by sessions and by claim look-ups. A wrong type is reported with the expected one, before anything is opened or
queried. A type checker reports the same earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from readback.canon import Json, json_value
from readback.client.proposal import Definition
from readback.domain.contract.approval import Approver
from readback.domain.contract.limits import TenantLimits
from readback.domain.contract.shadowing import NO_SHADOW, ShadowTerms
from readback.domain.state import State
from readback.engine.compiled_contract import CompiledContract
from readback.errors import SettingsError, UsageError

T = TypeVar("T")
STATES: Final = frozenset(each.value for each in State)
COUNT_MAX: Final = 2**53
"""Above every real count, and within a database's integers."""


def address(url: object) -> str | None:
    """Return the ledger's address, if given. Raises UsageError."""
    if url is None or isinstance(url, str):
        return url
    remedy = "Write sqlite:///file.db, sqlite:////absolute/file.db, or postgresql://user@host/database."
    raise UsageError(f"The ledger's URL must be text (got {type(url).__name__}).", remedy=remedy)


def named(what: str, name: object) -> str:
    """Return a given id. Raises UsageError."""
    return _text(f"The id of {what}", name, "Pass the id alone, such as outcome.id or claim.id.")


def sought(what: str, value: object) -> str:
    """Return a search text; "" for anything. Raises UsageError."""
    return "" if value is None else _text(f"The {what}", value, f"Pass {what} as text.")


def spending(budget: object) -> dict[str, Json]:
    """Return the value of `scope.budget` in `require`. Raises UsageError, UnsupportedValueError."""
    if not isinstance(budget, Mapping | None):
        raise UsageError(f"budget must be a mapping (got {type(budget).__name__}).", remedy="Pass names and values.")
    return {str(key): json_value(value) for key, value in (budget or {}).items()}


def plans_of(actions: Iterable[Definition]) -> list[CompiledContract]:
    """Return the plans of actions declared in advance. Raises UsageError, ContractError."""
    remedy = "Pass actions=[...] of decorated functions, or contract_files(...).values()."
    return [each.plan for each in _all(actions, "actions", _has_plan, UsageError, remedy)]


def people(approvers: Iterable[Approver]) -> tuple[Approver, ...]:
    """Return the approvers. Raises SettingsError."""
    return _all(approvers, "approvers", _may_approve, SettingsError, "Pass approvers=[Approver(...)].")


def at_most(limits: object) -> TenantLimits | None:
    """Return the limits of a program's own tenant. Raises SettingsError."""
    if limits is None or isinstance(limits, TenantLimits):
        return limits
    raise SettingsError(
        f"limits must be TenantLimits (got {type(limits).__name__}).", remedy="Pass limits=TenantLimits(...)."
    )


def shadow_terms(allowed: tuple[str, ...], asked: object) -> ShadowTerms:
    """Return the shadow terms of a client. Raises UsageError; SettingsError where the settings allow no contract."""
    if not isinstance(asked, bool):
        raise UsageError(f"shadow must be True or False (got {type(asked).__name__}).", remedy="Pass shadow=True.")
    if asked and not allowed:
        raise SettingsError(
            "shadow=True has no effect: the operator's settings allow no contract in shadow mode.",
            remedy='Write shadow = ["*"], or names of contracts, into the user\'s own config.toml.',
        )
    return ShadowTerms(allowed, asked) if allowed else NO_SHADOW


def several(name: str, given: Iterable[T], kind: type | tuple[type, ...], remedy: str) -> tuple[T, ...]:
    """Return a list of items of one type; a single item or a text is no list. Raises SettingsError."""
    return _all(given, name, lambda each: isinstance(each, kind), SettingsError, remedy)


def listed(steps: object) -> list[Any]:
    """Return a saga's steps; the caller checks each step."""
    return list(steps) if isinstance(steps, Iterable) else [steps]


def opened(session: T) -> T:
    """Return a client's session. Raises UsageError for a client constructed from an address."""
    if hasattr(session, "store"):
        return session
    raise UsageError(
        "Use Readback.open(...); the constructor takes a Session.",
        remedy="Write Readback.open(...), or AsyncReadback.open(...).",
    )


def state_named(value: object) -> str:
    """Return an existing state, or none. Raises UsageError for an unknown state."""
    state = sought("state", value)
    if state and state not in STATES:
        raise UsageError(f"{state!r} is not a state.", remedy=f"There are: {', '.join(sorted(STATES))}.")
    return state


def count(name: str, number: object) -> int:
    """Return a maximum count. Raises UsageError."""
    if isinstance(number, int) and not isinstance(number, bool):
        return min(number, COUNT_MAX)
    raise UsageError(f"{name}={number!r} is not a whole number.", remedy=f"Pass {name} as a whole number.")


def _text(what: str, value: object, remedy: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be text (got {type(value).__name__}).", remedy=remedy)
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise UsageError(f"{what} holds half a character (a lone surrogate).", remedy="Pass text that is UTF-8.")
    return value


def _has_plan(each: object) -> bool:
    return hasattr(type(each), "plan")  # not of itself: that would compile its contract


def _may_approve(each: object) -> bool:
    return isinstance(each, Approver)


def _all(
    given: Iterable[T], name: str, fits: Callable[[object], bool], fault: type[UsageError | SettingsError], remedy: str
) -> tuple[T, ...]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise fault(f"{name} must be a list (got {type(given).__name__}).", remedy=remedy)
    found = tuple(given)
    for each in found:
        if not fits(each):
            raise fault(f"{name} contains a wrong item: {type(each).__name__}.", remedy=remedy)
    return found
