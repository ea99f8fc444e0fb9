"""The verification-depth table: what each class demands, and that no higher class demands less."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from readback.domain.kind import Kind
from readback.domain.side_effect import (
    DEPTHS,
    DEPTHS_VERSION,
    Consistency,
    Depth,
    Independence,
    ReviewTrigger,
    SideEffect,
    UnverifiedClaim,
    depth,
    depths_version,
)

ROWS = [depth(one) for one in SideEffect]


def test_there_are_six_classes_in_order_with_the_schemas_names() -> None:
    assert [one.rank for one in SideEffect] == [0, 1, 2, 3, 4, 5]
    assert [one.ledger_name for one in SideEffect] == [
        "READ_ONLY",
        "EPHEMERAL_WRITE",
        "LOW_RISK_INTERNAL",
        "MEDIUM_RISK_WRITE",
        "HIGH_RISK_EXTERNAL",
        "CRITICAL_MUTATION",
    ]
    assert list(DEPTHS) == list(SideEffect)


@pytest.mark.requirement("LEDGER-policy-context")
def test_the_version_of_the_table_is_its_whole_content() -> None:
    assert depths_version(ROWS) == DEPTHS_VERSION
    weaker = [replace(ROWS[0], minimum_independence=Independence.SAME_CALL), *ROWS[1:]]
    reworded = [replace(ROWS[0], fallback="Another one."), *ROWS[1:]]
    calmer = [*ROWS[:-1], replace(ROWS[-1], review_on=frozenset())]
    versions = {depths_version(rows) for rows in (ROWS, weaker, reworded, calmer, ROWS[::-1])}
    assert len(versions) == 5


def test_consistency_and_independence_are_ordered() -> None:
    assert [one.rank for one in Consistency] == [0, 1, 2, 3]
    assert list(Consistency) == [
        Consistency.CACHED,
        Consistency.REPLICA,
        Consistency.SESSION,
        Consistency.STRONG,
    ]
    assert [one.rank for one in Independence] == [0, 1, 2, 3]
    assert list(Independence) == [
        Independence.SAME_CALL,
        Independence.SAME_CLIENT,
        Independence.OTHER_CLIENT,
        Independence.OTHER_SYSTEM,
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.side_effect.value)
def test_each_row_is_complete(row: Depth) -> None:
    for text in (
        row.required_check,
        row.source,
        row.fallback,
        row.latency_tolerance,
        row.review_trigger,
    ):
        assert text.endswith(".")
    assert row.checks
    assert len(set(row.checks)) == len(row.checks)
    assert row.review_on
    assert row.quorum_min >= 1
    assert row.repeated_mismatch_limit >= 1
    assert set(row.identity_essential) <= set(row.identity_required)
    assert row.default_polls_us == (0, 2_000_000, 4_000_000, 8_000_000)
    assert row.default_within_us > 0
    assert row.default_timeout_us > 0


@pytest.mark.requirement("TRUTH-verdict-11")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.side_effect.value)
def test_a_reading_of_the_call_itself_verifies_in_no_class(row: Depth) -> None:
    assert row.minimum_independence.rank > Independence.SAME_CALL.rank


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.side_effect.value)
def test_a_cache_decides_in_no_class(row: Depth) -> None:
    assert row.minimum_consistency.rank > Consistency.CACHED.rank


def test_a_higher_class_never_demands_less() -> None:
    for lower, higher in pairwise(ROWS):
        assert higher.minimum_independence.rank >= lower.minimum_independence.rank
        assert higher.quorum_min >= lower.quorum_min
        assert higher.repeated_mismatch_limit <= lower.repeated_mismatch_limit
        for name in ("needs_before", "needs_after_evidence", "operation_required", "find_at_close"):
            assert getattr(higher, name) >= getattr(lower, name), name


@pytest.mark.requirement("CLASS-read-only")
def test_a_read_is_checked_for_parameters_tenant_source_and_integrity() -> None:
    row = depth(SideEffect.READ_ONLY)
    assert row.checks == ("request_parameters", "tenant_scope", "source_identity", "response_integrity")
    assert "tenant" in row.identity_required
    assert row.review_on == {
        ReviewTrigger.SENSITIVE_BOUNDARY,
        ReviewTrigger.TENANT_MISMATCH,
        ReviewTrigger.POLICY_VIOLATION,
    }
    assert row.minimum_independence is Independence.SAME_CLIENT
    assert not row.needs_before


@pytest.mark.requirement("CLASS-ephemeral-write")
def test_a_sandboxed_write_is_checked_for_path_existence_content_and_escape() -> None:
    row = depth(SideEffect.EPHEMERAL_WRITE)
    assert set(row.checks) == {
        "sandbox_path",
        "existence",
        "size_or_hash",
        "no_escape",
        "workspace_manifest",
    }
    assert row.review_on == {
        ReviewTrigger.SANDBOX_ESCAPE,
        ReviewTrigger.UNAUTHORIZED_PATH,
        ReviewTrigger.DESTRUCTIVE,
    }
    assert row.minimum_consistency is Consistency.STRONG


@pytest.mark.requirement("CLASS-low-risk-internal")
def test_a_low_risk_write_needs_more_than_a_replica_and_evidence_of_being_after() -> None:
    row = depth(SideEffect.LOW_RISK_INTERNAL)
    assert set(row.checks) == {"object_id", "tenant_id", "version", "actor", "changed_fields"}
    assert row.minimum_consistency.rank > Consistency.REPLICA.rank
    assert row.needs_after_evidence
    assert row.needs_before
    assert row.identity_required == ("target", "tenant")
    assert row.review_on == {ReviewTrigger.REPEATED_MISMATCH, ReviewTrigger.WRONG_TENANT}
    assert not row.operation_required


@pytest.mark.requirement("CLASS-medium-risk-write")
def test_a_medium_risk_write_is_judged_against_before_by_another_client() -> None:
    row = depth(SideEffect.MEDIUM_RISK_WRITE)
    assert set(row.checks) == {"before_after_diff", "workflow_status", "audit_actor", "downstream_queue"}
    assert row.minimum_independence is Independence.OTHER_CLIENT
    assert row.needs_before
    assert row.operation_required
    assert "actor" in row.identity_required
    assert {ReviewTrigger.PARTIAL, ReviewTrigger.STALE, ReviewTrigger.REPEATED_MISMATCH} <= row.review_on


@pytest.mark.requirement("CLASS-high-risk-external")
def test_an_external_write_is_searched_for_again_at_its_close() -> None:
    row = depth(SideEffect.HIGH_RISK_EXTERNAL)
    assert {"provider_transaction_id", "delivery_status", "amount", "idempotency_key"} <= set(row.checks)
    assert row.find_at_close
    assert row.operation_required
    assert {
        ReviewTrigger.DECLINED,
        ReviewTrigger.MISMATCH,
        ReviewTrigger.DUPLICATE,
        ReviewTrigger.UNREACHABLE,
        ReviewTrigger.TIMEOUT,
    } <= row.review_on


@pytest.mark.requirement("CLASS-critical-mutation")
def test_a_critical_mutation_needs_several_systems_and_always_a_review() -> None:
    row = depth(SideEffect.CRITICAL_MUTATION)
    assert row.quorum_min == 2
    assert row.minimum_independence is Independence.OTHER_SYSTEM
    assert row.minimum_consistency is Consistency.STRONG
    assert row.find_at_close
    assert row.review_on == frozenset(ReviewTrigger)
    assert {"target", "tenant", "actor"} <= set(row.identity_essential)


def test_only_what_has_little_impact_may_be_told_unverified() -> None:
    told = {row.side_effect for row in ROWS if row.unverifiable_allowed is UnverifiedClaim.REPORT_UNVERIFIED}
    assert told == {SideEffect.READ_ONLY, SideEffect.EPHEMERAL_WRITE, SideEffect.LOW_RISK_INTERNAL}


@pytest.mark.parametrize(
    ("kind", "mutates", "ours", "before"),
    [
        (Kind.READ, False, False, False),
        (Kind.SET, True, False, True),
        (Kind.CREATE, True, True, False),
        (Kind.APPEND, True, True, False),
        (Kind.ADJUST, True, True, False),
        (Kind.DELETE, True, False, True),
        (Kind.SEND, True, True, False),
    ],
    ids=lambda value: getattr(value, "value", None),
)
def test_a_kind_decides_what_a_proof_is(kind: Kind, mutates: bool, ours: bool, before: bool) -> None:
    assert kind.mutates is mutates
    assert kind.needs_ours is kind.counts_effects is ours
    assert kind.compares_before is before


def test_there_are_seven_kinds() -> None:
    assert [kind.value for kind in Kind] == ["read", "set", "create", "append", "adjust", "delete", "send"]
