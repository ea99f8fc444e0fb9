"""A checker of reasoning traces that knows nothing of actions; pure: plan, trace, span and hash, report.

`readback trace verify` calls it. It must not read a file itself, and must not believe anything that a trace declares of
itself: every id and every hash is made again, and what cannot be checked fails.
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
