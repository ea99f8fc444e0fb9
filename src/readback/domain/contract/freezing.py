"""Freezes: after a severe finding, no new action on the affected subjects until an operator lifts the freeze.

Called when a judgement is recorded and before an attempt. This module names the subjects and the times. The store holds
the rows, and refuses an attempt inside the transaction that would commit the attempt.

Source: the action verification specification, "Fail-closed hold"; the scope of a freeze is ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Final

from readback.domain.normal_form import widest
from readback.domain.side_effect import SideEffect
from readback.domain.state import State


class FreezeScope(StrEnum):
    """The scope of a freeze, in the words of the contract's key `freeze`."""

    RESOURCE = "resource"
    """The action's target."""
    PRINCIPAL = "principal"
    """Every action of the principal."""
    TOOL = "tool"
    """Every action of the contract."""
    TENANT = "tenant"
    """Everything in the tenant."""


_CRITICAL: Final = SideEffect.CRITICAL_MUTATION

DEFAULT_SCOPES: Final = (FreezeScope.RESOURCE,)
CODE: Final = "frozen"
"""The code of a refusal by a freeze."""

PLACE: Final = "place:"
"""Prefix of a file's path with every link resolved. A freeze of a file target also covers this subject."""
INODE: Final = "inode:"
"""Prefix of a file's device and inode."""
PLACES: Final = (PLACE, INODE)

UNSETTLED: Final = frozenset(
    {
        State.UNKNOWN,
        State.REVIEW_REQUIRED,
        State.FAILED,
        State.VERIFICATION_TIMEOUT,
        State.PARTIALLY_COMMITTED,
        State.COMPENSATION_FAILED,
        State.FORWARD_RECOVERY,
    }
)
"""States of an executed, unverified critical mutation. An open window is excluded: the next reading may verify the
action.

A reversal under way is excluded too: its own freeze would stop it. A failed reversal freezes.
"""


def subjects(
    scopes: Iterable[FreezeScope],
    *,
    tenant: str,
    principal: str,
    contract: str,
    target: str,
    places: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Return the subjects of a freeze, in the order of `FreezeScope`. A target appears in its widest form.

    The widest form covers every other spelling. A file target appears under its `places` too.
    """
    named = {
        FreezeScope.RESOURCE: widest(target),
        FreezeScope.PRINCIPAL: principal,
        FreezeScope.TOOL: contract,
        FreezeScope.TENANT: tenant,
    }
    wanted = frozenset(scopes)
    found = tuple(f"{scope.value}:{name}" for scope, name in named.items() if scope in wanted and name)
    return (*found, *places) if FreezeScope.RESOURCE in wanted else found


def freeze_subjects(
    *, tenant: str, principal: str, contract: str, target: str, places: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return every subject of an action. A freeze of any subject blocks the action.

    The target appears as written, too, for ledgers older than the widest form.
    """
    others = (f"principal:{principal}", f"tool:{contract}", f"tenant:{tenant}")
    return *resource_names(target), *others, *places


def lifted_with(subject: str, frozen: Iterable[str]) -> tuple[str, ...]:
    """The other subjects lifted with this subject: for a target, its places."""
    if not subject.startswith(f"{FreezeScope.RESOURCE.value}:"):
        return ()
    return places_among(frozen)


def places_among(texts: Iterable[str]) -> tuple[str, ...]:
    """The places among the texts. An entry lifts only places besides the named subject."""
    return tuple(each for each in texts if each.startswith(PLACES))


@lru_cache(maxsize=1_024)  # asked before the proposal, and again before the attempt
def resource_names(target: str) -> tuple[str, ...]:
    """The subjects for a freeze of a target."""
    wide = widest(target)
    return (f"resource:{wide}",) if wide == target else (f"resource:{wide}", f"resource:{target}")


def freezes(side_effect: SideEffect, state: State, *, by_row: bool, executed: bool) -> bool:
    """Decide whether a judgement with this `state` freezes the contract's scopes.

    `by_row`: the recovery table's row freezes. `executed`: an attempt may have reached the tool.
    """
    return by_row or (executed and side_effect is _CRITICAL and state in UNSETTLED)
