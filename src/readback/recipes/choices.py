"""What whoever uses a recipe may choose of its contract. Used by the recipes; it must not know any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from readback.client.authoring.contract_keys import ApprovalOptions, Duration, SideEffectName
from readback.domain.side_effect import SideEffect


class Choices(TypedDict, total=False):
    """Keys of a contract that a recipe has defaults for, or leaves alone. They mean what they always mean."""

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
    """A text as a literal of the expression language. Recipes put only names and addresses of their author's there."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
