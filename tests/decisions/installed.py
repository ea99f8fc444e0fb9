"""Stands for an installed package that offers a verifier."""

from __future__ import annotations

from typing import Any

from readback import VerificationResult


def verify(context: dict[str, Any]) -> VerificationResult:
    return VerificationResult("pass", context["decisionType"])
