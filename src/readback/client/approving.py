"""Approvals for programs: an approver's key, and the orders passed by the clients to the engine.

Used by the clients and by the signing commands. A person opens the key; nothing here asks for a passphrase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from readback.bootstrap import approver_key, create_approver_key, verify_signature
from readback.domain.contract.approval import ApprovalToken, Approver, Decision, Policy
from readback.engine.effects import Effects
from readback.engine.engine import Engine
from readback.engine.people import approvals
from readback.engine.people.approvals import ApprovalRequest
from readback.engine.stages.approve import Approvals

if TYPE_CHECKING:
    from readback.ports.signer import Signer

TokenLike = ApprovalToken | bytes | str | Mapping[str, object]

__all__ = ["ApprovalRequest", "ApprovalToken", "Approver", "ApproverKey", "approvals_of", "decide", "requested"]


class ApproverKey:
    """A private key for signing approvals, opened with a passphrase.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from readback.client.approving import ApproverKey
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     key = ApproverKey.create(Path(folder) / "alice.key", "correct horse battery staple")
        >>> key.public_key.startswith("ed25519:")
        True
    """

    __slots__ = ("_signer",)

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    @classmethod
    def create(cls, path: str | Path, passphrase: str) -> ApproverKey:
        """Create a key in a new file of mode 0600.

        Raises ApprovalError if the file exists, or for a short passphrase.
        """
        return cls(create_approver_key(Path(path), passphrase))

    @classmethod
    def open(cls, path: str | Path, passphrase: str) -> ApproverKey:
        """Open the key in a file. Raises ApprovalError where others may read the file, or the passphrase is wrong."""
        return cls(approver_key(Path(path), passphrase))

    @property
    def public_key(self) -> str:
        """The text for the operator's settings: `ed25519:` and base64."""
        return self._signer.public_key

    def sign(self, message: bytes) -> bytes:
        """Return the signature of exactly these bytes."""
        return self._signer.sign(message)

    def approve(self, request: ApprovalRequest, approver: str) -> ApprovalToken:
        """Return this approver's token for executing the request. Show `request.bytes` to a person first."""
        return request.signed(self._signer, approver, Decision.APPROVE)

    def deny(self, request: ApprovalRequest, approver: str) -> ApprovalToken:
        """Return this approver's token for ending the request."""
        return request.signed(self._signer, approver, Decision.DENY)


def approvals_of(approvers: Iterable[Approver], break_glass: str = "") -> Approvals:
    """Return the approvers of this process, and the emergency override's reason. Raises ApprovalError for a repeated
    name or key.
    """
    return Approvals(Policy.of(tuple(approvers)), verify_signature, break_glass)


def requested(engine: Engine, action_id: str, tenant: str) -> Effects[ApprovalRequest]:
    """Return the approval request of an action."""
    return approvals.requested(action_id, tenant, engine.approvals)


def decide(engine: Engine, action_id: str, tenant: str, token: TokenLike, decision: Decision) -> Effects[None]:
    """Record a token. Raises ApprovalError for an invalid token."""
    return approvals.record(action_id, tenant, token, engine.approvals, decision)


def renew(engine: Engine, action_id: str, tenant: str) -> Effects[None]:
    """Request approval again where the first request used another list of approvers."""
    return approvals.renew(action_id, tenant, engine.approvals, engine.table)
