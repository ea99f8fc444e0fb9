"""A worker's contracts, in a form usable by a store as a filter.

Passed by workers: actions of unknown contracts stay in the store, however many are due, and cost the worker no memory.
"""

from __future__ import annotations

from typing import Protocol

from readback.canon.frozen import dataclass
from readback.domain.saga.fold import KIND


class ClockResult(Protocol):
    """The fields of an action's projection used by the filter."""

    @property
    def kind(self) -> str: ...
    @property
    def contract(self) -> str: ...
    @property
    def contract_version(self) -> str: ...
    @property
    def contract_hash(self) -> str: ...
    @property
    def due_us(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ContractFilter:
    """Contracts by the hashes of their versions, and by name.

    The name covers two kinds of actions: submitted actions without a version, and actions of another version due at or
    before `left_us`, still not taken by any worker. A saga names its contracts in its entries. The worker excludes a
    version of sagas (`version_of`) in `foreign_sagas` after a look at one saga of the version.
    """

    names: frozenset[str]
    hashes: frozenset[str]
    left_us: int
    foreign_sagas: frozenset[str] = frozenset()

    def covers(self, p: ClockResult) -> bool:
        """Whether the worker may continue this action."""
        if p.kind == KIND:
            return p.contract_version not in self.foreign_sagas
        if p.contract_hash and p.contract_hash in self.hashes:
            return True
        return p.contract in self.names and (not p.contract_hash or (p.due_us or 0) <= self.left_us)

    def until_us(self, kind: str, contract: str, version: str, now_us: int) -> int | None:
        """The latest ready time of an action of this version to be found now: due, and its lease ended. None if no
        action of the version is found. `version`: see `version_of`.
        """
        if kind == KIND:
            return None if version in self.foreign_sagas else now_us
        if version and version in self.hashes:
            return now_us
        if contract not in self.names:
            return None
        return min(self.left_us, now_us) if version else now_us

    @property
    def keys(self) -> frozenset[str]:
        """The `key_of` values of all actions covered at any time."""
        return self.names | self.hashes | {KIND}


def version_of(p: ClockResult) -> str:
    """The version in the stores' indexes of waiting actions: the contract's hash; for a saga the hash of all contracts
    behind the steps, "" for a saga of an earlier release.
    """
    return p.contract_version if p.kind == KIND else p.contract_hash


def key_of(p: ClockResult) -> str:
    """The key to separate an action from other workers' actions."""
    return KIND if p.kind == KIND else p.contract_hash or p.contract
