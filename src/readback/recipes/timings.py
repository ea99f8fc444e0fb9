"""How long verification took, look by look: the figures by which a fault of delivery is seen before anybody reports it.

Used by authors and operators of recipes; the same counts are in `readback doctor --json`. It reads the ledger alone.

Source: "The Verification Ledger Pattern", its results: what is verified ends soon, what is lost uses up every look.
"""

from __future__ import annotations

from collections import Counter

from readback.audit.feedback.tally import ContractFeedback, Feedback, Spread, feedback_of
from readback.canon.frozen import dataclass
from readback.client.async_client import AsyncReadback
from readback.client.client import Readback

# What a client's ledger says of contracts, tools and sources; see `lifecycle.feedback`. For recipes and programs.


def feedback(client: Readback | AsyncReadback) -> Feedback:
    """Counts and durations, by contract, tool and source. Raises UsageError where the client is closed."""
    session = client._session  # noqa: SLF001 - of this room
    session.check_open()
    return feedback_of(session.store.scan(), session.scope.tenant)


@dataclass(frozen=True, slots=True)
class Timings:
    """Of one contract's executed actions. Durations are from the attempt on, in microseconds.

    `verified`: by the number of the look that verified. `unverified`: until the window closed on nothing. `retracted`:
    actions whose claim was retracted, by the principal that acted, which is the sender's lane.
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
    """What the client's ledger says of its tenant's actions of a contract. Reads the whole log."""
    one = feedback(client).contracts.get(contract, ContractFeedback())
    return Timings(contract, one.executed, one.verified_at, one.unverified_after, one.retracted)


def _said(spread: Spread) -> str:
    if not spread.count:
        return "0"
    return f"{spread.count}, half within {_seconds(spread.percentile_us(50))}, all within {_seconds(spread.longest_us)}"


def _seconds(duration_us: int) -> str:
    return f"{duration_us / 1_000_000:.1f} s"
