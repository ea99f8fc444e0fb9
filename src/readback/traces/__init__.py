"""A checker of reasoning traces without knowledge of actions: plan, trace, span and hash, report. Pure.

`readback trace verify` calls the checker. The checker reads no file itself and believes no declaration of a trace.
Every id and every hash is recomputed, and an uncheckable part fails.
"""

from __future__ import annotations

from readback.traces.artifacts import Artifacts, ArtifactTrouble
from readback.traces.format.fault import ArtifactError, TraceError, TraceInputError, TracePolicyError
from readback.traces.format.policy import DEFAULT_POLICY, Policy, read_policy
from readback.traces.format.report import CheckResult, Failure, Place, Report
from readback.traces.verify import verify_trace

__all__ = [
    "DEFAULT_POLICY",
    "ArtifactError",
    "ArtifactTrouble",
    "Artifacts",
    "CheckResult",
    "Failure",
    "Place",
    "Policy",
    "Report",
    "TraceError",
    "TraceInputError",
    "TracePolicyError",
    "read_policy",
    "verify_trace",
]
