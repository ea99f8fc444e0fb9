"""Durations of verification, read by read. The figures show a delivery fault before a user reports the fault.

For authors and operators of recipes. `readback doctor --json` shows the same counts. The module reads only the ledger.

Source: "The Verification Ledger Pattern", its results: verified actions end early, lost actions use up every read.
"""

from __future__ import annotations

from collections import Counter

from readback.audit.feedback.fold import feedback_of
from readback.audit.feedback.tally import ContractFeedback, Feedback, Spread
from readback.canon.frozen import dataclass
from readback.client.async_client import AsyncReadback
from readback.client.client import Readback

# Counts of contracts, tools and sources in a client's ledger; see `audit.feedback`.


def feedback(client: Readback | AsyncReadback) -> Feedback:
    """Return counts and durations, by contract, tool and source. Raises UsageError where the client is closed."""
    session = client._session  # noqa: SLF001 - of this room
    session.check_open()
    return feedback_of(session.store.scan(), session.scope.tenant)


@dataclass(frozen=True, slots=True)
class Timings:
    """Timings of one contract's executed actions. Durations start at the attempt, in microseconds.

    Attributes:
        contract: Name of the contract.
        executed: Number of executed actions.
        verified: Durations by the number of the verifying read.
        unverified: Durations until the window closed without a result.
        retracted: Number of retracted claims by acting principal, the sender's lane.

    Example:
        >>> from readback import Readback
        >>> with Readback.open("memory:") as rb:
        ...     print(timings_of(rb, "ship_order"))
        ship_order: 0 executed
        unverified: 0
        retracted: 0
    """

    contract: str
    executed: int
    verified: dict[int, Spread]
    unverified: Spread
    retracted: Counter[str]

    def __str__(self) -> str:
        lines = [f"{self.contract}: {self.executed} executed"]
        lines += [f"verified at look {look}: {_said(self.verified[look])}" for look in sorted(self.verified)]
        lines.append(f"unverified: {_said(self.unverified)}")
        by = ", ".join(f"{lane} {count}" for lane, count in self.retracted.most_common())
        lines.append(f"retracted: {self.retracted.total()}" + (f" ({by})" if by else ""))
        return "\n".join(lines)


def timings_of(client: Readback | AsyncReadback, contract: str) -> Timings:
    """Return the timings of a contract from the ledger, for the client's tenant. Reads the whole log.

    Example:
        >>> from readback import Readback
        >>> with Readback.open("memory:") as rb:
        ...     timings_of(rb, "ship_order").executed
        0
    """
    one = feedback(client).contracts.get(contract, ContractFeedback())
    return Timings(contract, one.executed, one.verified_at, one.unverified_after, Counter(one.retracted))


def _said(spread: Spread) -> str:
    if not spread.count:
        return "0"
    return f"{spread.count}, half within {_seconds(spread.percentile_us(50))}, all within {_seconds(spread.longest_us)}"


def _seconds(duration_us: int) -> str:
    return f"{duration_us / 1_000_000:.1f} s"
