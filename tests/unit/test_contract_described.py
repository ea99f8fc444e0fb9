"""A contract as plain data: what it asks of people and clients stands in it only where it asks for anything."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from readback.domain.contract.approval import ApprovalTerms
from readback.domain.contract.contract import describe
from readback.domain.predicate import Path, look
from tests.unit.cases_given import contract


def test_who_has_to_approve_stands_in_the_description_and_in_the_hash() -> None:
    plain = contract()
    asking = replace(plain, approval=ApprovalTerms(people=2, expires_us=7, when="requested.amount > 100"))
    added = {"people": 2, "expires_us": 7, "when": "requested.amount > 100"}
    assert describe(asking) == {**describe(plain), "approval": added}
    assert asking.sealed().hash != plain.sealed().hash


def test_the_scopes_that_a_client_has_to_hold_stand_in_the_description_and_in_the_hash() -> None:
    plain = contract()
    scoped = replace(plain, scopes=("orders:write", "orders:read"))
    assert describe(scoped) == {**describe(plain), "scopes": ["orders:write", "orders:read"]}
    assert scoped.sealed().hash != plain.sealed().hash


@pytest.mark.parametrize("kind", [dict, MappingProxyType])
def test_a_path_is_looked_up_in_any_mapping(kind: type) -> None:
    variables = kind({"requested": {"ids": [1, 2]}})
    assert look(Path.named("requested.ids[1]"), variables) == 2
    assert look(Path.named("requested.ids[2]"), variables) is None
