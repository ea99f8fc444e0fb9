"""The composition root: the only module that chooses adapters. The SDK calls it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readback.ports.predicates import PredicateEngine


@cache
def predicate_engine() -> PredicateEngine:
    """The one engine of expressions; its compiled expressions are shared. Imported at the first contract loaded."""
    from readback.adapters.predicates_cel import CelPredicates

    return CelPredicates()
