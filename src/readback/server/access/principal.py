"""The authenticated caller of a request: the tenant, the principal, and the rights.

Made by `tokens` and `oidc`. Every route reads its tenant from here alone, and never from the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from readback.canon.frozen import dataclass
from readback.errors import UsageError


class Right(StrEnum):
    """The rights of a token. `admin` includes no other right."""

    RUN = "run"
    """Start, continue, cancel and report actions."""
    READ = "read"
    """Read actions, events, reviews, claims, contracts and metrics of the tenant."""
    REVIEW = "review"
    """Decide reviews, hand in signed approvals, lift freezes, retract claims."""
    ADMIN = "admin"
    """List subscribers and dead letters, and resend messages."""


RIGHTS: Final = tuple(Right)


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `token`: the token's id for logs and limits; never the token itself."""

    tenant: str
    principal: str
    rights: frozenset[Right]
    token: str = ""
    rate_per_minute: int = 0
    """Requests allowed in each minute; 0 for the server's default."""


def rights_of(named: Iterable[str]) -> frozenset[Right]:
    """Return rights by name. Raises UsageError for an unknown name, and where none is named."""
    names = list(named)
    unknown = sorted({each for each in names if each not in tuple(Right)})
    if unknown or not names:
        said = f"Unknown right: {unknown[0]!r:.80}." if unknown else "A token needs at least one right."
        raise UsageError(said, remedy=f"Name one or more of: {', '.join(Right)}.")
    return frozenset(Right(each) for each in names)
