"""The key `approval`: what it takes, what it is refused for, and what it makes of a contract."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.contract.approval import EXPIRES_DEFAULT_US, ApprovalTerms
from readback.domain.contract.contract import describe
from readback.errors import ContractFieldError, ExpressionError
from tests.unit.contracts_given import compiled, reading, refused

CRITICAL: dict[str, Any] = {
    "side_effect": "critical_mutation",
    "identity": {
        "target": "authoritative.id",
        "tenant": "authoritative.tenant",
        "actor": "authoritative.by",
        "permission_scope": "not_offered",
    },
    "readers": [reading("strong", "other_system", "a"), reading("strong", "other_system", "b")],
}
HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ("required", ApprovalTerms(1, EXPIRES_DEFAULT_US, "")),
        ({}, ApprovalTerms()),
        ({"people": 2}, ApprovalTerms(2)),
        ({"expires": "1h"}, ApprovalTerms(1, HOUR_US)),
        ({"when": "requested.carrier == 'dhl'"}, ApprovalTerms(when="requested.carrier == 'dhl'")),
    ],
)
def test_what_is_asked_for_becomes_a_part_of_the_contract_and_its_hash(given: Any, terms: ApprovalTerms) -> None:
    plan = compiled(approval=given)
    assert plan.contract.approval == terms
    assert describe(plan.contract)["approval"] == {
        "people": terms.people,
        "expires_us": terms.expires_us,
        "when": terms.when,
    }
    assert plan.contract.hash != compiled().contract.hash
    assert (plan.approval_when is not None) is bool(terms.when)


def test_a_contract_that_asks_for_none_says_nothing_of_it() -> None:
    assert compiled().contract.approval is None
    assert "approval" not in describe(compiled().contract)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("maybe", "'required', or a mapping"),
        (True, "'required', or a mapping"),
        (1, "'required', or a mapping"),
        ({"poeple": 2}, "Did you mean 'people'?"),
        ({"people": 0}, "must be 1 or 2"),
        ({"people": 3}, "must be 1 or 2"),
        ({"people": True}, "must be 1 or 2"),
        ({"people": "2"}, "must be 1 or 2"),
        ({"expires": "0s"}, "greater than zero"),
        ({"expires": 60}, "A duration must be text"),
        ({"when": 7}, "Must be text"),
    ],
)
def test_what_it_does_not_take_is_refused_at_load(value: Any, said: str) -> None:
    assert said in refused(ContractFieldError, approval=value)["approval"]


@pytest.mark.parametrize("root", ["observed.a == 1", "authoritative.a == 1", "before.a == 1"])
def test_the_condition_is_about_the_request_alone(root: str) -> None:
    problems = refused(ExpressionError, approval={"when": root})
    assert "is not allowed here" in problems["approval.when"]


def test_the_condition_names_arguments_that_there_are() -> None:
    assert (
        "no argument 'amount'" in refused(ExpressionError, approval={"when": "requested.amount > 1"})["approval.when"]
    )


@pytest.mark.requirement("CLASS-critical-mutation")
def test_a_critical_mutation_always_needs_one_and_no_condition_takes_it_away() -> None:
    assert compiled(**CRITICAL).contract.approval == ApprovalTerms()
    assert compiled(**CRITICAL, approval={"people": 2}).contract.approval == ApprovalTerms(2)
    problems = refused(ContractFieldError, **CRITICAL, approval={"when": "requested.carrier == 'dhl'"})
    assert "always needs an approval" in problems["approval.when"]
