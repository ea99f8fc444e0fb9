"""Erasure: the erasable parts of an action's record, the order to erase, and its result.

Maintenance carries the order out, and the folds record each erasure. Audit accepts missing bytes only where an entry of
the action records their erasure. Entries are never erased: an erased payload keeps its digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.events import Event, EventKind, ParsedEnvelope

KEPT_REFS: Final = frozenset({"contract", "token"})
"""Never erased: the contract's text, owned by the operator, and signatures, without any payload."""
DIGESTS_AN_ENTRY_MAX: Final = 256
"""Largest number of digests in one entry. More digests go into further entries, so that each fits into a log."""
AT_WORK_NAMED_MAX: Final = 100
ERASED: Final[Mapping[str, Json]] = {"$erased": True}
"""Shown in place of erased content."""


@dataclass(frozen=True, slots=True)
class ErasureOrder:
    """The selection to erase within one tenant: the named actions, or all last changed before `before_us`, or all.

    `who` gives the order, `reason` explains it. The ledger keeps both.
    """

    tenant: str
    who: str
    reason: str
    action_ids: tuple[str, ...] = ()
    before_us: int | None = None


@dataclass(frozen=True, slots=True)
class BusyAction:
    """An action left out of an erasure, and the reason."""

    action_id: str
    why: str


@dataclass(slots=True)
class ErasureResult:
    """The result of an erasure: erased `actions` and `pieces` of evidence, and actions left for later (`at_work`).

    `already`: actions without anything left to erase. `gone`: no copy remains in the store's own files. False while
    another process reads the store; erase again later.
    """

    dry_run: bool = False
    actions: int = 0
    pieces: int = 0
    already: int = 0
    at_work: list[BusyAction] = field(default_factory=list)
    """The first such actions."""
    at_work_total: int = 0
    gone: bool = True

    def left(self, action_id: str, why: str) -> None:
        """Add an action left for later."""
        self.at_work_total += 1
        if len(self.at_work) < AT_WORK_NAMED_MAX:
            self.at_work.append(BusyAction(action_id, why))

    def as_json(self) -> dict[str, Json]:
        return {
            "dry_run": self.dry_run,
            "actions": self.actions,
            "pieces": self.pieces,
            "already": self.already,
            "at_work": [{"id": each.action_id, "why": each.why} for each in self.at_work],
            "at_work_total": self.at_work_total,
            "gone": self.gone,
        }


def payloads(event: Event) -> Iterable[str]:
    """The digests of an entry's erasable payloads."""
    return (digest for name, digest in event.refs.items() if name not in KEPT_REFS)


def erased_after(before: tuple[str, ...], event: Event) -> tuple[str, ...]:
    """The action's erased digests after one more entry.

    A digest referred to by a later entry was recorded again and is no longer erased.
    """
    if event.kind is EventKind.ERASED:
        named = event.data["digests"]
        return tuple(dict.fromkeys((*before, *(str(each) for each in named)))) if isinstance(named, list) else before
    if before and event.refs:
        again = frozenset(event.refs.values())
        return tuple(digest for digest in before if digest not in again)
    return before


def erased_digests(opened: Iterable[ParsedEnvelope]) -> frozenset[str]:
    """The erased digests after all entries of an action."""
    found: tuple[str, ...] = ()
    for one in opened:
        found = erased_after(found, one.event)
    return frozenset(found)
