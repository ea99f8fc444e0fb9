"""Shadow mode: actions are recorded and judged, and only the operator reads the judgement.

Two keys are needed for shadow. The operator's settings allow a contract, and the contract or the caller asks. A
contract that states `enforced` never runs in shadow. The mode is fixed by the first entry of an action.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from readback.canon.frozen import dataclass

EVERY: Final = "*"
"""In the settings: every contract may run in shadow, unless the contract states `enforced`."""
SHADOW_WORDS: Final = (
    "The contract runs in shadow mode: the result was judged for the operator, and counts as unverified."
)
"""The detail of a judged shadow action, for users and models."""


class Mode(StrEnum):
    """The mode of a contract or of an action. An action without a mode is enforced."""

    ENFORCED = "enforced"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True)
class ShadowTerms:
    """The shadow terms of a client. `allowed`: names of contracts, or EVERY; `asked`: the caller asks for shadow."""

    allowed: tuple[str, ...] = ()
    asked: bool = False

    def covers(self, contract: str, mode: Mode | None) -> bool:
        """Whether actions of a contract run in shadow. `mode`: the mode stated by the contract, if any.

        Example:
            >>> from readback.domain.contract.shadowing import Mode, ShadowTerms
            >>> ShadowTerms(("refund",)).covers("refund", Mode.SHADOW)
            True
            >>> ShadowTerms(("*",), asked=True).covers("refund", Mode.ENFORCED)
            False
        """
        if mode is Mode.ENFORCED or not (self.asked or mode is Mode.SHADOW):
            return False
        return contract in self.allowed or EVERY in self.allowed


NO_SHADOW: Final = ShadowTerms()
"""No contract runs in shadow: the terms of every client without the operator's settings."""
