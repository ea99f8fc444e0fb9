"""Messages about ledger events for external subscribers, and their names.

Made from ledger entries, carried by the dispatcher to the sinks. A message holds ids, names, codes and our own texts.
It never holds a value from a system of record, or a text typed by a person. On the wire a message is a CloudEvents 1.0
envelope in structured JSON.

Source: "The Verification Ledger Pattern" (event propagation, both names of each event); the additional names are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass

SPEC_VERSION: Final = "1.0"
"""The version of CloudEvents; https://github.com/cloudevents/spec."""
MEDIA: Final = "application/cloudevents+json"
PREFIX: Final = "readback"
DATA_FORMAT: Final = 1
SOURCE: Final = "urn:readback:log:"
LOG_CHARACTERS: Final = 32
"""Characters of the first entry's leaf hash in a log's name. Logs with the same name are the same log."""
ENTRY_CHARACTERS: Final = 16
"""Characters of an entry's own leaf hash, to distinguish an entry from a lost entry with the same number."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MAX_US: Final = 253_402_300_799_999_999
"""The end of the year 9999, the last year in RFC 3339."""


class EventName(StrEnum):
    """The subject of a message, in dotted form. The other form has an underscore for each dot."""

    ACTION_RECONCILED = "action.reconciled"
    ACTION_FAILED = "action.failed"
    ACTION_UNKNOWN = "action.unknown"
    ACTION_COMPENSATED = "action.compensated"
    ACTION_COMPENSATION_FAILED = "action.compensation_failed"
    ACTION_ROLLED_BACK = "action.rolled_back"
    ACTION_ABANDONED = "action.abandoned"
    VERIFICATION_FAILED = "verification.failed"
    CLAIM_CONTESTED = "claim.contested"
    CLAIM_RETRACTED = "claim.retracted"
    CLAIM_REINSTATED = "claim.reinstated"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_GIVEN = "approval.given"
    APPROVAL_DENIED = "approval.denied"
    REVIEW_REQUIRED = "review.required"
    REVIEW_RESOLVED = "review.resolved"
    INCIDENT_OPENED = "incident.opened"
    INCIDENT_CLOSED = "incident.closed"
    RESOURCE_FROZEN = "resource.frozen"
    FREEZE_LIFTED = "freeze.lifted"

    @property
    def underscored(self) -> str:
        """The same name without dots."""
        return self.value.replace(".", "_")


_N = EventName
TEXTS: Final = MappingProxyType(
    {
        _N.ACTION_RECONCILED: "The action is verified: the intended state was read back from the system of record.",
        _N.ACTION_FAILED: "The action failed.",
        _N.ACTION_UNKNOWN: "The effect of the action is unknown. Do not repeat the action.",
        _N.ACTION_COMPENSATED: "The action's effect was reversed, and the reversal is verified.",
        _N.ACTION_COMPENSATION_FAILED: "The action's effect could not be reversed.",
        _N.ACTION_ROLLED_BACK: "The action was rolled back before it was visible.",
        _N.ACTION_ABANDONED: "The action was given up.",
        _N.VERIFICATION_FAILED: "The action was attempted, and the intended state could not be read back.",
        _N.CLAIM_CONTESTED: "The action's claim is contested: do not rely on the claim.",
        _N.CLAIM_RETRACTED: "The action's claim is withdrawn: do not rely on the claim.",
        _N.CLAIM_REINSTATED: "The action's claim stands again.",
        _N.APPROVAL_REQUESTED: "The action waits for an approver; nothing of it was executed.",
        _N.APPROVAL_GIVEN: "An approver signed the action.",
        _N.APPROVAL_DENIED: "An approver denied the action; nothing of it was executed.",
        _N.REVIEW_REQUIRED: "A person has to look at the action.",
        _N.REVIEW_RESOLVED: "A person decided about the action.",
        _N.INCIDENT_OPENED: "A person must be called.",
        _N.INCIDENT_CLOSED: "The incident is closed.",
        _N.RESOURCE_FROZEN: "No new action may run on the resource until a person lifts the freeze.",
        _N.FREEZE_LIFTED: "The freeze was lifted.",
    }
)
"""A sentence for each name. A message holds no other prose."""

URGENT: Final = frozenset({_N.VERIFICATION_FAILED, _N.CLAIM_RETRACTED, _N.INCIDENT_OPENED})
"""Events with an immediate notice to the operator after a failed delivery, not only after the last attempt."""


class Naming(StrEnum):
    """The form of the event name for a subscriber."""

    DOTTED = "dotted"
    UNDERSCORE = "underscore"
    BOTH = "both"
    """Two messages, one after the other."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `id` is unique and equal in every delivery, so that a receiver can detect a duplicate.

    `seq` is the ledger entry behind the message, and `number` the message's position in that entry, from 0. `subject`
    is the action, `at_us` the time of the event, `data` the content.

    Example:
        >>> from readback import Message, Readback, Subscriber, verified
        >>> received: list[Message] = []
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:", subscribers=[Subscriber("audit", tell=received.append)]) as rb:
        ...     outcome = rb.run(switch())
        ...     due = rb.resume()
        >>> for message in received:
        ...     print(message.name.value, message.subject == outcome.id)
        action.reconciled True
    """

    log: str
    seq: int
    number: int
    name: EventName
    tenant: str
    subject: str
    at_us: int
    data: Mapping[str, Json]
    underscored: bool = False
    undelivered_to: str = ""
    """The unreachable subscriber, in a message to its fallback."""
    entry: str = ""
    """The beginning of the entry's leaf hash. After a restore another entry may have a lost entry's number."""

    @property
    def id(self) -> str:
        """Unique alone, and so together with the source. The second name of an event is a separate event."""
        place = f"{self.log}-{self.seq}-{self.entry}" if self.entry else f"{self.log}-{self.seq}"
        return f"{place}-{self.number}" + ("u" if self.underscored else "")

    @property
    def source(self) -> str:
        """The log of the event."""
        return SOURCE + self.log

    @property
    def type(self) -> str:
        """The name with our prefix, in the subscriber's form."""
        return f"{PREFIX}_{self.name.underscored}" if self.underscored else f"{PREFIX}.{self.name.value}"

    @property
    def time(self) -> str:
        """The time of the event in RFC 3339 form."""
        at = _EPOCH + timedelta(microseconds=min(max(self.at_us, 0), _TIME_MAX_US))
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}Z"

    def named(self, naming: Naming) -> tuple[Message, ...]:
        """The message under the requested name, or under both names."""
        match naming:
            case Naming.DOTTED:
                return (self,)
            case Naming.UNDERSCORE:
                return (replace(self, underscored=True),)
            case Naming.BOTH:
                return self, replace(self, underscored=True)

    def as_json(self) -> dict[str, Json]:
        """The CloudEvents envelope. Extension attributes: `tenant`, and `undeliveredto` for a fallback."""
        said: dict[str, Json] = {
            "specversion": SPEC_VERSION,
            "id": self.id,
            "source": self.source,
            "type": self.type,
            "subject": self.subject,
            "time": self.time,
            "datacontenttype": "application/json",
            "tenant": self.tenant,
            "data": dict(self.data),
        }
        if self.undelivered_to:
            said["undeliveredto"] = self.undelivered_to
        return said
