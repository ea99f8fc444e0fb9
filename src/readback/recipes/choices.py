"""The contract keys that users of a recipe may choose. All recipes use this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from readback.client.authoring.contract_keys import ApprovalOptions, Duration, SideEffectName
from readback.domain.side_effect import SideEffect


class Choices(TypedDict, total=False):
    """Contract keys with a default in a recipe, or without. Meanings are the same as in a contract.

    Example:
        >>> strict: Choices = {"side_effect": "high_risk_external", "within": "30s"}
    """

    name: str
    version: str
    side_effect: SideEffectName | SideEffect
    within: Duration
    polls: Sequence[Duration]
    deadline: Duration
    late_window: Duration
    watch: str | Mapping[str, object]
    principals: Sequence[str]
    scopes: Sequence[str]
    redact: Sequence[str]
    tell: Sequence[str]
    approval: str | ApprovalOptions


def quoted(text: str) -> str:
    """Return a text as a literal of the expression language. Recipes quote only names and addresses by the author."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
