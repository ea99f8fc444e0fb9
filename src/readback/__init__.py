"""Readback: an agent's action is done when the state it was meant to produce has been read back.

The public names; everything else is ours to change. Nothing heavy is imported before it is used.
"""

import os
import sys


def _is_started_by_name() -> bool:
    """Whether `python -m readback` runs; while Python looks for the module, `-m` is its first argument."""
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
    from readback.contracts.conditions import postcondition
    from readback.contracts.hands import reader
    from readback.contracts.verifiers import invariant_check, read_after_write
    from readback.domain.approval.binding import ApprovalToken, Approver
    from readback.domain.belief.run import Belief
    from readback.domain.claim import Claim
    from readback.domain.context import Context
    from readback.domain.decision.verification import VerificationResult
    from readback.domain.delegation.record import Delegated
    from readback.domain.delegation.turn import Turn
    from readback.domain.discrepancy import Discrepancy
    from readback.domain.errors import NotVerifiedError, ReadbackError
    from readback.domain.kind import Kind
    from readback.domain.limits import TenantLimits
    from readback.domain.message import Message
    from readback.domain.observation import Observation, ObservationStatus
    from readback.domain.outcome import JudgedPostcondition, Outcome
    from readback.domain.planning import Planning
    from readback.domain.reading import Lookup, Reading
    from readback.domain.saga.outcome import SagaOutcome, StepOutcome
    from readback.domain.side_effect import Consistency, Independence, SideEffect
    from readback.domain.state import State
    from readback.domain.subscriber import Subscriber
    from readback.domain.verdict import Attribution, Level, Verdict, Why
    from readback.sdk.action import action
    from readback.sdk.approving import ApprovalRequest, ApproverKey
    from readback.sdk.async_client import AsyncReadback
    from readback.sdk.client import Readback
    from readback.sdk.contract_keys import Policy, Timing
    from readback.sdk.delegating import delegation, delegation_hook
    from readback.sdk.in_use import use
    from readback.sdk.proposal import Proposal, UnusedProposalWarning
    from readback.sdk.step import SagaStep, from_step
    from readback.sdk.verified import arg, verified

_HOMES = {
    "ApprovalRequest": "readback.sdk.approving",
    "ApprovalToken": "readback.domain.approval.binding",
    "Approver": "readback.domain.approval.binding",
    "ApproverKey": "readback.sdk.approving",
    "AsyncReadback": "readback.sdk.async_client",
    "Attribution": "readback.domain.verdict",
    "Belief": "readback.domain.belief.run",
    "Claim": "readback.domain.claim",
    "Consistency": "readback.domain.side_effect",
    "Context": "readback.domain.context",
    "Delegated": "readback.domain.delegation.record",
    "Discrepancy": "readback.domain.discrepancy",
    "Independence": "readback.domain.side_effect",
    "JudgedPostcondition": "readback.domain.outcome",
    "Kind": "readback.domain.kind",
    "Level": "readback.domain.verdict",
    "Lookup": "readback.domain.reading",
    "Message": "readback.domain.message",
    "NotVerifiedError": "readback.domain.errors",
    "Observation": "readback.domain.observation",
    "ObservationStatus": "readback.domain.observation",
    "Outcome": "readback.domain.outcome",
    "Planning": "readback.domain.planning",
    "Policy": "readback.sdk.contract_keys",
    "Proposal": "readback.sdk.proposal",
    "Readback": "readback.sdk.client",
    "ReadbackError": "readback.domain.errors",
    "Reading": "readback.domain.reading",
    "SagaOutcome": "readback.domain.saga.outcome",
    "SagaStep": "readback.sdk.step",
    "SideEffect": "readback.domain.side_effect",
    "State": "readback.domain.state",
    "StepOutcome": "readback.domain.saga.outcome",
    "Subscriber": "readback.domain.subscriber",
    "TenantLimits": "readback.domain.limits",
    "Timing": "readback.sdk.contract_keys",
    "Turn": "readback.domain.delegation.turn",
    "UnusedProposalWarning": "readback.sdk.proposal",
    "Verdict": "readback.domain.verdict",
    "VerificationResult": "readback.domain.decision.verification",
    "Why": "readback.domain.verdict",
    "action": "readback.sdk.action",
    "arg": "readback.sdk.verified",
    "delegation": "readback.sdk.delegating",
    "delegation_hook": "readback.sdk.delegating",
    "from_step": "readback.sdk.step",
    "invariant_check": "readback.contracts.verifiers",
    "postcondition": "readback.contracts.conditions",
    "read_after_write": "readback.contracts.verifiers",
    "reader": "readback.contracts.hands",
    "use": "readback.sdk.in_use",
    "verified": "readback.sdk.verified",
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
    """Public names are imported when first used, so that importing the package costs next to nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'readback' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
