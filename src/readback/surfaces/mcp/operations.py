"""Operations of a tool across the contracts that come and go while the gateway runs.

Asked by the gate. The key of an operation is made of its contract's name: where a tool's contract is added, renamed or
taken away, the same operation would be another one to the ledger, and act a second time.
"""

from __future__ import annotations

from dataclasses import field

from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.errors import PayloadConflictError
from readback.sdk.proposal import Proposal
from readback.surfaces.mcp.attending import Attending
from readback.surfaces.mcp.catalogue import ToolKey
from readback.surfaces.mcp.governed import NOTHING, Governed
from readback.surfaces.mcp.verdict import UNGOVERNED


@dataclass(slots=True)
class Operations:
    """Of one gateway: which contracts each tool has had since it began, and what was begun under them."""

    ledger: Attending
    _noted: Governed = NOTHING
    _names: dict[ToolKey, list[str]] = field(default_factory=dict)

    def note(self, contracts: Governed) -> None:
        """These are in force."""
        if contracts is self._noted:
            return
        self._noted = contracts
        for key, action in contracts.actions.items():
            names = self._names.setdefault(key, [])
            if action.name not in names:
                names.append(action.name)

    def check(self, key: ToolKey, proposal: Proposal, operation: str | None) -> None:
        """Raises PayloadConflictError where the tool's operation was begun under another contract, or under none.

        `operation`: the client's own name for it; a call without a contract has no other.
        """
        named, contract = operation or proposal.operation, proposal.definition.name
        if not named:
            return
        try:
            self.check_others(key, contract, named)
            if operation and contract != UNGOVERNED:
                self._refuse(operation, UNGOVERNED, f"tool/{key[0] or '-'}/{key[1] or '-'}")
        except ReadbackError:
            proposal.mark_run()  # it never will be
            raise

    def had(self, key: ToolKey) -> bool:
        """Whether the tool has had a contract."""
        return key in self._names

    def check_others(self, key: ToolKey, contract: str, operation: str) -> None:
        """The same for contracts of the files alone. `contract`: whose operation it may be."""
        for name in self._names.get(key, ()):
            if name != contract:
                self._refuse(operation, name, "")

    def _refuse(self, operation: str, contract: str, target: str) -> None:
        begun = self.ledger.begun(contract, operation)
        if begun is None or (target and begun.target != target):
            return
        under = "no contract" if contract == UNGOVERNED else f"the contract {contract!r}"
        raise PayloadConflictError(
            f"Operation {operation!r:.200} of this tool was begun under {under}, as action {begun.action_id}.",
            remedy="Ask readback_status with that id what became of it; use a new operation id for a new intention.",
            details={"action": begun.action_id},
        )
