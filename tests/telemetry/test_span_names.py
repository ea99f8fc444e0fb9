"""The names of attributes are the specification's, and those of the conventions where the package has them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from readback.domain.tracing import names

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the package marks both families as moved
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, mcp_attributes, network_attributes
    from opentelemetry.semconv.attributes import error_attributes

REFERENCE = Path(__file__).parents[2] / "docs/how-to/traces.md"
OWN = {name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}


@pytest.mark.requirement("SPAN-rules")
def test_the_required_attributes_are_the_specifications_twelve() -> None:
    assert names.REQUIRED == (
        "action.id", "workflow.run_id", "tool.name", "tool.version", "verification.policy_version",
        "recovery.policy_version", "side_effect_class", "idempotency.key_hash", "approval.id", "reconciliation.status",
        "discrepancy.class", "ledger.entry_id",
    )  # fmt: skip
    assert names.DELEGATION_SPAN == "delegation.execute"
    assert {names.DELEGATION_ATTEMPTS, names.DELEGATION_PASSED, names.DELEGATION_OUTCOME, names.DELEGATION_KIND} == {
        "delegation.verify_attempts", "delegation.verify_passed", "delegation.verify_outcome", "delegation.kind",
    }  # fmt: skip


@pytest.mark.requirement("SPAN-conventions")
def test_every_name_of_the_conventions_is_in_the_installed_package_or_newer_than_it() -> None:
    packaged = {
        value
        for module in (gen_ai_attributes, mcp_attributes, network_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    used = {value for value in OWN.values() if value.startswith(("gen_ai.", "mcp.", "network.", "error."))}
    used -= {names.EVALUATION}  # the name of an event
    assert used, "no name is compared"
    assert used <= packaged, used - packaged
    for commit in (names.GEN_AI_COMMIT, names.MCP_COMMIT):
        assert len(commit) == 40
        assert int(commit, 16)


@pytest.mark.requirement("SPAN-reference")
def test_the_page_lists_every_attribute_and_span() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    listed = {value for value in OWN.values() if "." in value and " " not in value and "/" not in value}
    assert {value for value in listed if f"`{value}`" not in page} == set()
