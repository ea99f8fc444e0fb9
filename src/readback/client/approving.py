"""Approvals for programs: an approver's key, and what the clients hand to the engine for them.

Used by the clients and by the commands that sign. A key is opened where a person is; nothing here asks for one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from readback.bootstrap import approver_key, create_approver_key, verify_signature
from readback.domain.contract.approval import ApprovalToken, Approver, Decision, Policy
from readback.engine.effects import Effect, EffectResult
from readback.engine.engine import Engine
from readback.engine.people import approvals
from readback.engine.people.approvals import ApprovalRequest
from readback.engine.stages.approve import Approvals

if TYPE_CHECKING:
    from readback.ports.signer import Signer

TokenLike = ApprovalToken | bytes | str | Mapping[str, object]

__all__ = ["ApprovalRequest", "ApprovalToken", "Approver", "ApproverKey", "approvals_of", "decide", "requested"]


class ApproverKey:
    """A private key that was opened with its passphrase, to sign approvals with."""

    __slots__ = ("_signer",)

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    @classmethod
    def create(cls, path: str | Path, passphrase: str) -> ApproverKey:
        """A fresh key in a new file of mode 0600. Raises ApprovalError if there is one, or for a short passphrase."""
        return cls(create_approver_key(Path(path), passphrase))

    @classmethod
    def open(cls, path: str | Path, passphrase: str) -> ApproverKey:
        """The key in a file. Raises ApprovalError where others may read it, or the passphrase is another."""
        return cls(approver_key(Path(path), passphrase))

    @property
    def public_key(self) -> str:
        """What the operator's settings list: `ed25519:` and base64."""
        return self._signer.public_key

    def sign(self, message: bytes) -> bytes:
        """The signature of exactly these bytes."""
        return self._signer.sign(message)

    def approve(self, request: ApprovalRequest, approver: str) -> ApprovalToken:
        """The token by which this approver lets the request go ahead. Show `request.bytes` to a person first."""
        return request.signed(self._signer, approver, Decision.APPROVE)

    def deny(self, request: ApprovalRequest, approver: str) -> ApprovalToken:
        """The token by which this approver ends it."""
        return request.signed(self._signer, approver, Decision.DENY)


def approvals_of(approvers: Iterable[Approver], break_glass: str = "") -> Approvals:
    """Who may approve in this process, and why it goes ahead without. Raises ApprovalError for a name or key twice."""
    return Approvals(Policy.of(tuple(approvers)), verify_signature, break_glass)


def requested(engine: Engine, action_id: str, tenant: str) -> Generator[Effect, EffectResult, ApprovalRequest]:
    """What an action waits to be approved for."""
    return approvals.requested(action_id, tenant, engine.approvals)


def decide(
    engine: Engine, action_id: str, tenant: str, token: TokenLike, decision: Decision
) -> Generator[Effect, EffectResult, None]:
    """Records a token. Raises ApprovalError for one that does not count."""
    return approvals.record(action_id, tenant, token, engine.approvals, decision)


def renew(engine: Engine, action_id: str, tenant: str) -> Generator[Effect, EffectResult, None]:
    """Asks anew, where it was asked for under another list of approvers than the one here."""
    return approvals.renew(action_id, tenant, engine.approvals, engine.table)
