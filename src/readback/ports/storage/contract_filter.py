"""Which contracts somebody can go on with, said so that a store can leave out the rest by itself.

Asked for by workers: what they do not know is left where it is, however much of it is due, and costs them no memory.
"""

from __future__ import annotations

from typing import Protocol

from readback.canon.frozen import dataclass
from readback.domain.saga.fold import KIND


class Begun(Protocol):
    """What is asked of an action for this: of its projection."""

    @property
    def kind(self) -> str: ...
    @property
    def contract(self) -> str: ...
    @property
    def contract_hash(self) -> str: ...
    @property
    def due_us(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ContractFilter:
    """Contracts by the hashes of their versions, and by name.

    By name: an action that was submitted and names no version yet, and one of another version that could be taken by
    `left_us` and that no worker took. Sagas are covered whatever they are made of.
    """

    names: frozenset[str]
    hashes: frozenset[str]
    left_us: int

    def covers(self, p: Begun) -> bool:
        """Whether this action is one that may be gone on with."""
        if p.kind == KIND or (p.contract_hash and p.contract_hash in self.hashes):
            return True
        return p.contract in self.names and (not p.contract_hash or (p.due_us or 0) <= self.left_us)

    def until_us(self, kind: str, contract: str, contract_hash: str, now_us: int) -> int | None:
        """By when an action of this version has to be ready to be found now: due, and its lease at an end; None where
        no action of the version is found.
        """
        if kind == KIND or (contract_hash and contract_hash in self.hashes):
            return now_us
        if contract not in self.names:
            return None
        return min(self.left_us, now_us) if contract_hash else now_us

    @property
    def keys(self) -> frozenset[str]:
        """What `key_of` says of the actions that are covered at any time."""
        return self.names | self.hashes | {KIND}


def key_of(p: Begun) -> str:
    """By what an action is told from those that others can go on with."""
    return KIND if p.kind == KIND else p.contract_hash or p.contract
