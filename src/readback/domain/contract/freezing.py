"""Freezes: after what is severe, nothing new may act on what it touched until an operator lifts that.

Asked by the lifecycle when a judgement is recorded and before an attempt is made. It says what is frozen and when; the
store holds the rows, and refuses an attempt inside the transaction that would make it durable.

Source: the action verification specification, "Fail-closed hold"; what a freeze covers is ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from readback.domain.normal_form import widest
from readback.domain.side_effect import SideEffect
from readback.domain.state import State


class FreezeScope(StrEnum):
    """What a freeze covers, in the words of the contract's key `freeze`."""

    RESOURCE = "resource"
    """The action's target."""
    PRINCIPAL = "principal"
    """Everything that whoever acted does."""
    TOOL = "tool"
    """Every action of the contract."""
    TENANT = "tenant"
    """Everything in the tenant."""


_CRITICAL: Final = SideEffect.CRITICAL_MUTATION

DEFAULT_SCOPES: Final = (FreezeScope.RESOURCE,)
CODE: Final = "frozen"
"""The code of a refusal by a freeze."""

PLACE: Final = "place:"
"""Before a file's path with every link followed: a target that is a file is frozen under it too."""
INODE: Final = "inode:"
"""Before a file's device and inode."""
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
"""Where a critical mutation stands that was executed and is not verified. An open window is not among them (the next
reading may verify it), nor is a reversal under way: it would be stopped by its own freeze, and freezes if it fails."""


def subjects(
    scopes: Iterable[FreezeScope],
    *,
    tenant: str,
    principal: str,
    contract: str,
    target: str,
    places: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The texts under which something is frozen, in the order of `FreezeScope`: a target by its widest form, so that no
    other spelling of it slips by, and one that is a file by its places (`places`) too.
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


def touched(
    *, tenant: str, principal: str, contract: str, target: str, places: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Every subject that an action would act on: it may not where one of them is frozen. Its target is among them as
    it is written too: so it stands in ledgers that were written before there was a widest form.
    """
    others = (f"principal:{principal}", f"tool:{contract}", f"tenant:{tenant}")
    return *resource_names(target), *others, *places


def lifted_with(subject: str, frozen: Iterable[str]) -> tuple[str, ...]:
    """What else an action's lift of this subject lifts: with a target the places of it."""
    if not subject.startswith(f"{FreezeScope.RESOURCE.value}:"):
        return ()
    return places_among(frozen)


def places_among(texts: Iterable[str]) -> tuple[str, ...]:
    """Those that are places: an entry lifts nothing else beside the subject that a person named."""
    return tuple(each for each in texts if each.startswith(PLACES))


def resource_names(target: str) -> tuple[str, ...]:
    """The subjects under which a target may be frozen."""
    wide = widest(target)
    return (f"resource:{wide}",) if wide == target else (f"resource:{wide}", f"resource:{target}")


def freezes(side_effect: SideEffect, state: State, *, by_row: bool, executed: bool) -> bool:
    """Whether a judgement that leaves an action in `state` freezes what the contract names.

    `by_row`: the recovery table's row says so. `executed`: an attempt may have reached the tool.
    """
    return by_row or (executed and side_effect is _CRITICAL and state in UNSETTLED)
