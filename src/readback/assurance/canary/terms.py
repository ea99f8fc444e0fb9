"""The terms of a canary: which contracts, which subset, which bounds, which stage. Values only.

The subset is chosen by tenants, or by a stable hash of tenant and target. The same action is in the same subset in
every process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from readback.canon import Json, envelope_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.errors import InputError

MINIMUM_DEFAULT: Final = 50
"""Fewest compared actions for a decision about a canary."""
LATENCY_PERMILLE_MAX: Final = 1_200
"""The candidate may take 1.2 times as long as the incumbent, in thousandths."""
BASIS_POINTS: Final = 10_000
_SUBSET_DOMAIN: Final = b"readback/canary/1\n"


class CanaryError(InputError):
    """A canary cannot start, go on or be judged as asked. Nothing was recorded."""

    code = "canary"
    remedy_default = "Run `readback gates canary status` to see the present canary."


class NoIncumbentError(CanaryError):
    """A canary compares with a contract in force, and there is none of this name."""

    code = "canary.no-incumbent"
    remedy_default = "Name the contracts in force with --contracts, and the candidate with --candidate."


class SameContractError(CanaryError):
    """The candidate is the incumbent: nothing can differ."""

    code = "canary.same-contract"
    remedy_default = "Name the changed contract as the candidate."


class CanaryTermsError(CanaryError):
    """The terms of a canary are incomplete or out of range."""

    code = "canary.terms"
    remedy_default = "Pass --tenants or --percent, and bounds that are not negative."


class CanaryStageError(CanaryError):
    """The second stage needs a first stage that passed for exactly these contracts."""

    code = "canary.stage"
    remedy_default = "Let the first stage reach its minimum within its bounds, then start with --decide."


class CanaryRunningError(CanaryError):
    """Another canary is running. One ledger has one canary at a time."""

    code = "canary.running"
    remedy_default = "Run `readback gates canary stop` first."


class NoCanaryError(CanaryError):
    """No canary is running."""

    code = "canary.none"
    remedy_default = "Run `readback gates canary start` first."


class CandidateDiffersError(CanaryError):
    """The loaded candidate is not the started one: its content hash differs."""

    code = "canary.candidate-differs"
    remedy_default = "Load the file of the started candidate, or start another canary."


class Stage(StrEnum):
    """The stage of a canary."""

    COMPARE = "compare"
    """The incumbent decides, and the candidate is asked afterwards."""
    DECIDE = "decide"
    """The candidate decides for the subset, and the incumbent is asked afterwards."""


@dataclass(frozen=True, slots=True)
class CanaryTerms:
    """The terms of one canary.

    Attributes:
        contracts: The candidate's content hash of each contract, by name.
        incumbents: The content hash in force of each contract, by name.
        tenants: The tenants of the subset; empty for every tenant.
        basis_points: The share of tenant and target pairs in the subset, in ten-thousandths.
        minimum: Fewest compared actions for a decision.
        mismatches_max: The canary stops itself above this number of other verdicts.
        errors_max: The canary stops itself above this number of the candidate's errors.
        stage: Who decides for the subset.
        previous: The record before this canary's start; "" for the first canary of a ledger.
    """

    contracts: Mapping[str, str]
    incumbents: Mapping[str, str]
    tenants: tuple[str, ...] = ()
    basis_points: int = BASIS_POINTS
    minimum: int = MINIMUM_DEFAULT
    mismatches_max: int = 0
    errors_max: int = 0
    stage: Stage = Stage.COMPARE
    previous: str = ""

    def __post_init__(self) -> None:
        for name in self.contracts:
            if name not in self.incumbents:
                raise NoIncumbentError(f"The candidate {name!r} has no incumbent.")
            if self.incumbents[name] == self.contracts[name]:
                raise SameContractError(f"The candidate {name!r} is the contract in force.")
        if not self.contracts:
            raise CanaryTermsError("The canary names no contract.")
        if not 0 < self.basis_points <= BASIS_POINTS:
            raise CanaryTermsError(
                f"The share is {self.basis_points / 100} percent, and must be above 0 and up to 100."
            )
        if self.minimum < 1 or self.mismatches_max < 0 or self.errors_max < 0:
            raise CanaryTermsError("The minimum must be at least 1, and the bounds at least 0.")

    @property
    def id(self) -> str:
        """The canary's id: a hash of its terms."""
        return sha256_hex(envelope_bytes(self.as_json()))[:16]

    def covers(self, tenant: str, target: str) -> bool:
        """Return whether an action of this tenant and target is in the subset."""
        if self.tenants and tenant not in self.tenants:
            return False
        return self.basis_points == BASIS_POINTS or bucket(tenant, target) < self.basis_points

    def as_json(self) -> dict[str, Json]:
        return {
            "contracts": dict(self.contracts),
            "incumbents": dict(self.incumbents),
            "tenants": [*self.tenants],
            "basis_points": self.basis_points,
            "minimum": self.minimum,
            "mismatches_max": self.mismatches_max,
            "errors_max": self.errors_max,
            "stage": self.stage.value,
            "previous": self.previous,
        }

    @classmethod
    def from_json(cls, raw: Json) -> CanaryTerms:
        """Return recorded terms. Raises CanaryTermsError."""
        try:
            assert isinstance(raw, dict)
            tenants = raw["tenants"]
            assert isinstance(tenants, list)
            return cls(
                _texts(raw["contracts"]),
                _texts(raw["incumbents"]),
                tuple(str(each) for each in tenants),
                _whole(raw["basis_points"]),
                _whole(raw["minimum"]),
                _whole(raw["mismatches_max"]),
                _whole(raw["errors_max"]),
                Stage(str(raw["stage"])),
                str(raw["previous"]),
            )
        except (AssertionError, KeyError, ValueError) as wrong:
            raise CanaryTermsError("The recorded terms of the canary cannot be read by this release.") from wrong


def bucket(tenant: str, target: str) -> int:
    """Return the stable place of a tenant and target, from 0 to 9,999. No seed and no process changes the place."""
    size = len(tenant.encode()).to_bytes(8, "big")
    digest = hashlib.sha256(_SUBSET_DOMAIN + size + tenant.encode() + target.encode()).digest()
    return int.from_bytes(digest[:8], "big") % BASIS_POINTS


def _texts(raw: Json) -> dict[str, str]:
    assert isinstance(raw, dict)
    return {name: str(value) for name, value in raw.items()}


def _whole(raw: Json) -> int:
    assert isinstance(raw, int)
    assert not isinstance(raw, bool)
    return raw
