"""An operator's limits for one tenant of a shared ledger.

From settings, or given to `Readback.open`. The engine checks the limits before a new action begins and when it
schedules a read. A new action over a limit is refused before any effect. A running action is slowed down and never
dropped: its reads come later, and its record stays complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.errors import SettingsError

LIMIT_MAX: Final = 2**53 - 1
_NONE: Final[Mapping[str, TenantLimits]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """The limits of one tenant; 0 is no limit.

    `in_flight`: unfinished actions. `polls_per_minute`: reads of systems of record. `evidence_bytes`: stored bytes of
    requests, answers and readings together.

    Example:
        >>> from readback import TenantLimits
        >>> TenantLimits(in_flight=10).stricter(TenantLimits(in_flight=50)).in_flight
        10
    """

    in_flight: int = 0
    polls_per_minute: int = 0
    evidence_bytes: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            value: object = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LIMIT_MAX:
                raise SettingsError(
                    f"The limit {each.name!r} is {value!r}.", remedy="Give a whole number; 0 is no limit."
                )

    def stricter(self, other: TenantLimits) -> TenantLimits:
        """The tighter of each pair of limits. A program's limits never widen the operator's."""
        return TenantLimits(*(_tighter(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of every tenant: its own, key by key, over the default."""

    default: TenantLimits = field(default_factory=TenantLimits)
    tenants: Mapping[str, TenantLimits] = field(default_factory=lambda: _NONE)

    def of(self, tenant: str) -> TenantLimits:
        return self.tenants.get(tenant, self.default)

    def stricter(self, other: TenantLimits) -> Limits:
        """Every tenant's limits, bounded by the other limits."""
        own = {tenant: limits.stricter(other) for tenant, limits in self.tenants.items()}
        return Limits(self.default.stricter(other), MappingProxyType(own))

    @property
    def any(self) -> bool:
        """Whether any limit exists. Without limits the engine skips the checks."""
        nothing = TenantLimits()
        return any(limits != nothing for limits in (self.default, *self.tenants.values()))


NO_LIMITS: Final = Limits()


def in_force(operators: Limits, own: TenantLimits | None) -> Limits | None:
    """The operator's limits, made stricter by the program's own; None without any limit."""
    found = operators if own is None else operators.stricter(own)
    return found if found.any else None


def limits_of(table: Mapping[str, object]) -> Limits:
    """Return the limits of a settings file: default keys, and a table for each tenant.

    A tenant's table inherits missing keys from the default. Raises SettingsError.
    """
    known = tuple(each.name for each in fields(TenantLimits))
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    default = _checked(plain, known, "[limits]")
    tenants = {
        tenant: TenantLimits(**{**plain, **_values(own, known, f"[limits.{tenant}]")})  # type: ignore[arg-type]
        for tenant, own in table.items()
        if isinstance(own, Mapping)
    }
    return Limits(default, MappingProxyType(tenants))


def _checked(values: Mapping[str, object], known: Iterable[str], where: str) -> TenantLimits:
    return TenantLimits(**_values(values, known, where))  # type: ignore[arg-type]


def _values(values: Mapping[str, object], known: Iterable[str], where: str) -> dict[str, object]:
    for name in values:
        if name not in known:
            raise SettingsError(f"{where} has the unknown key {name!r}.", remedy=f"Its keys are: {', '.join(known)}.")
    return dict(values)


def _tighter(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other
