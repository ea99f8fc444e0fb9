"""Where incidents are told: a command, a webhook, or whatever a program hands in.

Called by the sdk's herald after an incident is durable, in a thread of its own, so that nothing waits for a sink and
none can fail an action. What is told holds ids and words of ours, never a value from a system of record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from readback.canon import Json

NOTICE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class IncidentNotice:
    """What is told of an incident. `id` is the same each time it is told: whoever hears it twice can tell.

    `seen`: how often its cause has come up while it was open. Times in microseconds.
    """

    id: str
    tenant: str
    severity: str
    cause: str
    action: str
    opened_us: int
    seen: int = 1
    contract: str = ""
    target: str = ""
    state: str = ""
    review: str = ""

    def as_json(self) -> dict[str, Json]:
        """The notice as plain data: what a command gets on its standard input and a webhook as its body."""
        return {
            "format": NOTICE_FORMAT,
            "id": self.id,
            "tenant": self.tenant,
            "severity": self.severity,
            "cause": self.cause,
            "action": self.action,
            "opened_us": self.opened_us,
            "seen": self.seen,
            "contract": self.contract,
            "target": self.target,
            "state": self.state,
            "review": self.review,
            "next": f"readback review show {self.action}",
        }


class IncidentSink(Protocol):
    """Takes incidents. Trusted with nothing: an incident stays in the ledger until a person closes it."""

    def tell(self, notice: IncidentNotice) -> None:
        """Returns once the incident has been taken, within the sink's own limit of time.

        Raises whatever it likes where it has not: it is told again later, ever more seldom. It may be told again also
        where it was taken (a process may die in between), under the same id. Called from one thread at a time.
        """
        ...
