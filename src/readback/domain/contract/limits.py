"""What an operator lets one tenant take of a ledger that several share.

Read from settings or given to `Readback.open`; asked by the engine before something new is begun, and when the next
look is set. A new action over a limit is refused before anything acts; one that has begun is slowed, and never dropped:
its looks come later, and its record is always kept whole.
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

    `in_flight`: actions that wait for something. `polls_per_minute`: looks at systems of record. `evidence_bytes`: what
    is kept of requests, answers and readings, all together.
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
        """Of each limit the tighter one: what a program asks for widens nothing that the operator set."""
        return TenantLimits(*(_tighter(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of every tenant: its own, key by key, over the default."""

    default: TenantLimits = field(default_factory=TenantLimits)
    tenants: Mapping[str, TenantLimits] = field(default_factory=lambda: _NONE)

    def of(self, tenant: str) -> TenantLimits:
        return self.tenants.get(tenant, self.default)

    def stricter(self, other: TenantLimits) -> Limits:
        """Every tenant's, with those as a bound."""
        own = {tenant: limits.stricter(other) for tenant, limits in self.tenants.items()}
        return Limits(self.default.stricter(other), MappingProxyType(own))

    @property
    def any(self) -> bool:
        """Whether there is one at all: where there is none, nothing is asked."""
        nothing = TenantLimits()
        return any(limits != nothing for limits in (self.default, *self.tenants.values()))


NO_LIMITS: Final = Limits()


def in_force(operators: Limits, own: TenantLimits | None) -> Limits | None:
    """The operator's limits, as far as a program's own make them stricter; None where there is none at all."""
    found = operators if own is None else operators.stricter(own)
    return found if found.any else None


def limits_of(table: Mapping[str, object]) -> Limits:
    """Limits as a settings file has them: keys of the default, and a table for each tenant.

    A tenant's table takes what it does not say from the default. Raises SettingsError.
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
