"""Readback verifies what AI agents do: after each tool call, the system of record is read back and compared.

The names in `__all__` are public; everything else may change. Heavy modules are imported at first use.
"""

import os
import sys


def _is_started_by_name() -> bool:
    """Return whether `python -m readback` runs. While Python looks for the module, `-m` is the first argument."""
    if getattr(sys, "argv", [])[:1] != ["-m"]:
        return False
    words = sys.orig_argv[1:]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flags, sign, rest = word.partition("m")
        if flags[:1] == "-" and sign and not flags[1:].strip("bBdEiIOPqsSuvx"):
            return (rest or following).partition(".")[0] == "readback"
    return False


# Python puts the working folder first on the import path for `-m`, so a file there stands in for every module that is
# imported from here on, the standard library's included. So this comes before all other imports, `__future__` too.
if _is_started_by_name() and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from typing import TYPE_CHECKING  # noqa: E402 - see above

__version__ = "0.1.0"

if TYPE_CHECKING:
    from readback.client.approving import ApprovalRequest, ApproverKey
    from readback.client.async_client import AsyncReadback
    from readback.client.authoring.action import action
    from readback.client.authoring.contract_keys import Policy, Timing
    from readback.client.authoring.verified import arg, verified
    from readback.client.client import Readback
    from readback.client.files import contract_files
    from readback.client.in_use import use
    from readback.client.proposal import Proposal, UnusedProposalWarning
    from readback.client.step import SagaStep, from_step
    from readback.contracts.functions.callables import reader
    from readback.contracts.functions.conditions import postcondition
    from readback.contracts.functions.verifiers import invariant_check, read_after_write
    from readback.decisions.model.verification import VerificationResult
    from readback.delegations.api import delegation, delegation_hook
    from readback.delegations.model.record import Delegated, Turn
    from readback.domain.action.claim import Claim
    from readback.domain.belief.run import Belief
    from readback.domain.context import Context
    from readback.domain.contract.approval import ApprovalToken, Approver
    from readback.domain.contract.limits import TenantLimits
    from readback.domain.discrepancy import Discrepancy
    from readback.domain.kind import Kind
    from readback.domain.outcome.outcome import JudgedPostcondition, Outcome
    from readback.domain.outcome.planning import Planning
    from readback.domain.records.message import Message
    from readback.domain.records.subscriber import Subscriber
    from readback.domain.saga.outcome import SagaOutcome, StepOutcome
    from readback.domain.side_effect import Consistency, Independence, SideEffect
    from readback.domain.state import State
    from readback.domain.verdict import Attribution, Level, Verdict, Why
    from readback.domain.verification.observation import Observation, ObservationStatus
    from readback.domain.verification.reading import Lookup, Reading
    from readback.errors import NotVerifiedError, ReadbackError

_HOMES = {
    "ApprovalRequest": "readback.client.approving",
    "ApprovalToken": "readback.domain.contract.approval",
    "Approver": "readback.domain.contract.approval",
    "ApproverKey": "readback.client.approving",
    "AsyncReadback": "readback.client.async_client",
    "Attribution": "readback.domain.verdict",
    "Belief": "readback.domain.belief.run",
    "Claim": "readback.domain.action.claim",
    "Consistency": "readback.domain.side_effect",
    "Context": "readback.domain.context",
    "Delegated": "readback.delegations.model.record",
    "Discrepancy": "readback.domain.discrepancy",
    "Independence": "readback.domain.side_effect",
    "JudgedPostcondition": "readback.domain.outcome.outcome",
    "Kind": "readback.domain.kind",
    "Level": "readback.domain.verdict",
    "Lookup": "readback.domain.verification.reading",
    "Message": "readback.domain.records.message",
    "NotVerifiedError": "readback.errors",
    "Observation": "readback.domain.verification.observation",
    "ObservationStatus": "readback.domain.verification.observation",
    "Outcome": "readback.domain.outcome.outcome",
    "Planning": "readback.domain.outcome.planning",
    "Policy": "readback.client.authoring.contract_keys",
    "Proposal": "readback.client.proposal",
    "Readback": "readback.client.client",
    "ReadbackError": "readback.errors",
    "Reading": "readback.domain.verification.reading",
    "SagaOutcome": "readback.domain.saga.outcome",
    "SagaStep": "readback.client.step",
    "SideEffect": "readback.domain.side_effect",
    "State": "readback.domain.state",
    "StepOutcome": "readback.domain.saga.outcome",
    "Subscriber": "readback.domain.records.subscriber",
    "TenantLimits": "readback.domain.contract.limits",
    "Timing": "readback.client.authoring.contract_keys",
    "Turn": "readback.delegations.model.record",
    "UnusedProposalWarning": "readback.client.proposal",
    "Verdict": "readback.domain.verdict",
    "VerificationResult": "readback.decisions.model.verification",
    "Why": "readback.domain.verdict",
    "action": "readback.client.authoring.action",
    "arg": "readback.client.authoring.verified",
    "delegation": "readback.delegations.api",
    "delegation_hook": "readback.delegations.api",
    "from_step": "readback.client.step",
    "contract_files": "readback.client.files",
    "invariant_check": "readback.contracts.functions.verifiers",
    "postcondition": "readback.contracts.functions.conditions",
    "read_after_write": "readback.contracts.functions.verifiers",
    "reader": "readback.contracts.functions.callables",
    "use": "readback.client.in_use",
    "verified": "readback.client.authoring.verified",
}

__all__ = [
    "ApprovalRequest",
    "ApprovalToken",
    "Approver",
    "ApproverKey",
    "AsyncReadback",
    "Attribution",
    "Belief",
    "Claim",
    "Consistency",
    "Context",
    "Delegated",
    "Discrepancy",
    "Independence",
    "JudgedPostcondition",
    "Kind",
    "Level",
    "Lookup",
    "Message",
    "NotVerifiedError",
    "Observation",
    "ObservationStatus",
    "Outcome",
    "Planning",
    "Policy",
    "Proposal",
    "Readback",
    "ReadbackError",
    "Reading",
    "SagaOutcome",
    "SagaStep",
    "SideEffect",
    "State",
    "StepOutcome",
    "Subscriber",
    "TenantLimits",
    "Timing",
    "Turn",
    "UnusedProposalWarning",
    "Verdict",
    "VerificationResult",
    "Why",
    "__version__",
    "action",
    "arg",
    "contract_files",
    "delegation",
    "delegation_hook",
    "from_step",
    "invariant_check",
    "postcondition",
    "read_after_write",
    "reader",
    "use",
    "verified",
]


def __getattr__(name: str) -> object:
    """Import a public name at first use, so that importing the package costs next to nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'readback' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _EarlierPlaces:
    """Finds modules at the places that documents named before the rooms moved. Asked last, for missing modules."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        if not name.startswith("readback."):
            return None
        from readback.moved import spec_of

        return spec_of(name)


sys.meta_path.append(_EarlierPlaces)  # type: ignore[arg-type]
