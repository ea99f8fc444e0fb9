"""The recorded approval of an action: the request and the signatures."""

from __future__ import annotations

from dataclasses import field

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.events import Event
from readback.errors import StoreCorruptError


@dataclass(frozen=True, slots=True)
class RecordedToken:
    """One person's recorded token. `ref`: its digest in the evidence."""

    approver: str
    key_id: str
    ref: str


@dataclass(slots=True)
class RequestedApproval:
    """The approval an action needs or used. `payload`: SHA-256 of the bound bytes, and their place in the evidence.

    `span_us`: the validity in microseconds, reused for a new request.
    """

    id: str
    nonce: str
    payload: str
    policy: str
    expires_us: int
    span_us: int
    people: int
    signed: list[RecordedToken] = field(default_factory=list)
    denied_by: str = ""
    used: bool = False
    """A committed attempt relies on this approval."""

    @property
    def complete(self) -> bool:
        """Enough people have signed. Each use checks the validity again."""
        return not self.denied_by and len(self.signed) >= max(self.people, 1)


def asked(event: Event) -> RequestedApproval:
    """The request in an `approval_requested` event. Raises KeyError, StoreCorruptError."""
    d = event.data
    return RequestedApproval(
        str(d["approval"]),
        str(d["nonce"]),
        str(d["payload"]),
        str(d["policy"]),
        whole(d["expires"]),
        whole(d["span"]),
        whole(d["people"]),
    )


def signed(event: Event) -> RecordedToken:
    """The token in an `approved` or `denied` event."""
    return RecordedToken(str(event.data["approver"]), str(event.data["key"]), event.refs["token"])


def whole(value: Json) -> int:
    """A required integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise StoreCorruptError(
            "An approval in the ledger holds a value other than a number where a number is required."
        )
    return value
