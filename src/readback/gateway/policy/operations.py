"""Operations of a tool across the contracts that come and go while the gateway runs.

Asked by the gate. The key of an operation is made of its contract's name: where a tool's contract is added, renamed or
taken away, the same operation would be another one to the ledger, and act a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.client.proposal import Proposal
from readback.domain.errors import PayloadConflictError
from readback.gateway.policy.catalogue import ToolKey
from readback.gateway.policy.ledger_client import GatewayClient
from readback.gateway.policy.results import UNGOVERNED


@dataclass(slots=True)
class Operations:
    """Of one gateway. `names`: which contracts each tool has had since it began; what was begun under them, the ledger
    knows.
    """

    ledger: GatewayClient
    names: Mapping[ToolKey, Sequence[str]]
    _under_way: dict[tuple[ToolKey, str], list[str]] = field(default_factory=dict)
    """Under which contracts operations are called now: what is not on record yet, the ledger does not know."""

    def enter(self, key: ToolKey, proposal: Proposal, operation: str | None) -> Callable[[], None]:
        """To be called when the call has ended. Raises PayloadConflictError where the tool's operation was begun under
        another contract, or under none, or is under way so.

        `operation`: the client's own name for it; a call without a contract has no other.
        """
        named, contract = operation or proposal.operation, proposal.definition.name
        if not named:
            return _nothing
        try:
            self._check_begun(key, contract, named)
            if operation and contract != UNGOVERNED:
                self._refuse(operation, UNGOVERNED, f"tool/{key[0] or '-'}/{key[1] or '-'}")
            self._check_under_way(key, contract, named)  # last: what is on record has an id to be told
        except ReadbackError:
            proposal.mark_run()  # it never will be
            raise
        return self._entered((key, named), contract)

    def _entered(self, operation: tuple[ToolKey, str], contract: str) -> Callable[[], None]:
        under_way = self._under_way.setdefault(operation, [])
        under_way.append(contract)

        def leave() -> None:
            under_way.remove(contract)
            if not under_way:
                self._under_way.pop(operation, None)

        return leave

    def had(self, key: ToolKey) -> bool:
        """Whether the tool has had a contract."""
        return key in self.names

    def check_others(self, key: ToolKey, contract: str, operation: str) -> None:
        """The same for contracts of the files alone. `contract`: whose operation it may be."""
        self._check_begun(key, contract, operation)
        self._check_under_way(key, contract, operation)

    def _check_begun(self, key: ToolKey, contract: str, operation: str) -> None:
        for name in self.names.get(key, ()):
            if name != contract:
                self._refuse(operation, name, "")

    def _check_under_way(self, key: ToolKey, contract: str, operation: str) -> None:
        other = next((name for name in self._under_way.get((key, operation), ()) if name != contract), "")
        if other:
            raise PayloadConflictError(
                f"Operation {operation!r:.200} of this tool is being called {_under(other)}.",
                remedy="Call again when that call was answered; use a new operation id for a new intention.",
            )

    def _refuse(self, operation: str, contract: str, target: str) -> None:
        begun = self.ledger.begun(contract, operation)
        if begun is None or (target and begun.target != target):
            return
        raise PayloadConflictError(
            f"Operation {operation!r:.200} of this tool was begun {_under(contract)}, as action {begun.action_id}.",
            remedy="Ask readback_status with that id what became of it; use a new operation id for a new intention.",
            details={"action": begun.action_id},
        )


def _nothing() -> None:
    """Of no operation that has a name."""


def _under(contract: str) -> str:
    return "under no contract" if contract == UNGOVERNED else f"under the contract {contract!r}"
