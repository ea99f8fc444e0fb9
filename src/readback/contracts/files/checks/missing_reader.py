"""Whether a contract's readers can ever verify anything: a reading that is not strong counts when it is later than the
action, and something has to say so.

Called by build, on a contract that compiled. A reader in Python decides that when it is run; of a built-in source it is
known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from readback.contracts.files.contract import FittedReader
from readback.domain.contract.contract import NOT_OFFERED, Contract, ReaderTerms
from readback.domain.errors import ContractError, WeakReaderError
from readback.domain.side_effect import Consistency

_STAMPED: Final = frozenset({"imap"})
"""Sources that look for the stamp itself."""


def never_later(contract: Contract, readers: Sequence[FittedReader]) -> Iterator[tuple[str, ContractError]]:
    """The readers that can prove nothing, where too few of the others are left. Their places as the compiler's."""
    if not contract.readers or not contract.depth.needs_after_evidence or not contract.kind.mutates:
        return
    identity = dict(contract.identity)
    if identity.get("stamp", NOT_OFFERED) != NOT_OFFERED:
        return
    numbered = identity.get("version", NOT_OFFERED) != NOT_OFFERED
    unable = {
        terms.name: reason
        for terms, each in zip(contract.readers, readers, strict=False)
        if (reason := _why(contract, terms, each, numbered=numbered))
    }
    if len(contract.readers) - len(unable) >= contract.quorum:
        return
    for name, reason in unable.items():
        yield f"readers.{name}", WeakReaderError(reason)


def _why(contract: Contract, terms: ReaderTerms, each: FittedReader, *, numbered: bool) -> str:
    """Why nothing is ever verified by this reader; "" where something may be."""
    fixed = each.spec.fixed
    if terms.consistency is Consistency.STRONG or each.spec.kind in _STAMPED or fixed.get("stamp"):
        return ""
    if numbered or fixed.get("version"):
        if contract.needs_before:
            return ""
        said = "its version is compared with that of a reading before the action, and this contract takes none"
    else:
        said = "an ETag says that two readings differ, and not which of them is later"
    return (
        f"It is {terms.consistency.value}, and nothing that it shows can prove that a reading is later than the "
        f"action, so that nothing would ever be verified: {said}. Write `consistency: strong` where the source shows "
        "every write at once; else `version` where it numbers what it shows, or `stamp` (or `identity.stamp`) where it "
        "shows the attempt's stamp."
    )
