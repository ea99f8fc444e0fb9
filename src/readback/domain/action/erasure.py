"""Erasure: what of an action's record may be taken away again, who ordered it, and what came of that.

Used by lifecycle.keeping.erase, which does it, by the folds, which remember it, and by the audit, which accepts that
bytes are gone only where an entry of the action itself says so. Entries are never erased: an erased payload
keeps its digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.events import Event, EventKind, Opened

KEPT_REFS: Final = frozenset({"contract", "token"})
"""What is never erased: the contract's text, which is the operator's, and signatures, which hold no payload."""
DIGESTS_AN_ENTRY_MAX: Final = 256
"""So many digests one entry names; more stand in several, so that each fits into an entry of a log."""
AT_WORK_NAMED_MAX: Final = 100
ERASED: Final[Mapping[str, Json]] = {"$erased": True}
"""What is shown in place of what was erased."""


@dataclass(frozen=True, slots=True)
class Erasing:
    """What is to be erased: the named actions, or all that was last moved before `before_us`, or (neither) all.

    Always of one tenant. `who` orders it, `reason` says why; both stay in the ledger.
    """

    tenant: str
    who: str
    reason: str
    action_ids: tuple[str, ...] = ()
    before_us: int | None = None


@dataclass(frozen=True, slots=True)
class AtWork:
    """An action that is not erased yet, and why."""

    action_id: str
    why: str


@dataclass(slots=True)
class Erased:
    """What came of it. `actions` and `pieces` of evidence were erased; of `already` actions nothing was left; those
    `at_work` are left for later.

    `gone`: nothing of it is left in the store's own files. False where somebody was reading: erase again then.
    """

    dry_run: bool = False
    actions: int = 0
    pieces: int = 0
    already: int = 0
    at_work: list[AtWork] = field(default_factory=list)
    """The first of them."""
    at_work_total: int = 0
    gone: bool = True

    def left(self, action_id: str, why: str) -> None:
        """One more that is left for later."""
        self.at_work_total += 1
        if len(self.at_work) < AT_WORK_NAMED_MAX:
            self.at_work.append(AtWork(action_id, why))

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
    """The digests of an entry's payloads: what of its evidence may be erased."""
    return (digest for name, digest in event.refs.items() if name not in KEPT_REFS)


def let_go(before: tuple[str, ...], event: Event) -> tuple[str, ...]:
    """The digests that an action has let go of, after one more of its entries.

    One that a later entry refers to again was recorded again, and is the action's again.
    """
    if event.kind is EventKind.ERASED:
        named = event.data["digests"]
        return tuple(dict.fromkeys((*before, *(str(each) for each in named)))) if isinstance(named, list) else before
    if before and event.refs:
        again = frozenset(event.refs.values())
        return tuple(digest for digest in before if digest not in again)
    return before


def let_go_by(opened: Iterable[Opened]) -> frozenset[str]:
    """The same over all entries of an action."""
    found: tuple[str, ...] = ()
    for one in opened:
        found = let_go(found, one.event)
    return frozenset(found)
