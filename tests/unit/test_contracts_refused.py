"""What a contract is refused for, each on its own, and all of it together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.canon import Json
from readback.canon.limits import EXPRESSION_MAX_BYTES
from readback.contracts.functions.conditions import postcondition
from readback.domain.context import Context
from readback.errors import (
    ContractError,
    ContractFieldError,
    ExpressionError,
    MissingPostconditionError,
    MissingReaderError,
    TemplateError,
    WeakReaderError,
)
from tests.unit.contracts_given import LEFT_OUT, compiled, reading, refused

pytestmark = pytest.mark.slow

# --- keys --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("INPUT-unknown-field", "L03")
def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    assert refused(ContractFieldError, whithin="10s") == {"whithin": "Unknown key. Did you mean 'within'?"}


@pytest.mark.requirement("INPUT-unknown-field")
def test_an_unknown_key_under_execute_is_named() -> None:
    problems = refused(ContractFieldError, execute={"timout": "5s", "retries": 3})
    assert problems["execute.timout"].endswith("Did you mean 'timeout'?")
    assert "execute.retries" in problems


@pytest.mark.requirement("TRUTH-kind-required")
def test_kind_and_class_are_required() -> None:
    problems = refused(ContractFieldError, kind=LEFT_OUT, side_effect=LEFT_OUT)
    assert problems["kind"].startswith("It is required. There are: adjust, append, create, delete, read, send, set.")
    assert "low_risk_internal" in problems["side_effect"]


@pytest.mark.requirement("L03")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "sett"),
        ("kind", 3),
        ("side_effect", "harmless"),
        ("noop", "maybe"),
        ("name", "two words"),
        ("name", ""),
        ("name", "x" * 200),
        ("name", 7),
        ("version", 2),
        ("version", " "),
        ("identity", ["authoritative.id"]),
        ("identity", {"target": 7}),
        ("execute", "5s"),
        ("execute", {"timeout": 5}),
        ("execute", {"timeout": "0s"}),
        ("execute", {"honours_key": "yes"}),
        ("execute", {"reversible": 1}),
        ("readers", ["orders-db"]),
        ("quorum", 0),
        ("quorum", True),
        ("quorum", "2"),
        ("ensure", 7),
        ("ensure", {"": "authoritative != null"}),
        ("ensure", {"a": 7}),
        ("may_change", "status"),
        ("may_change", ["a b"]),
        ("within", 10),
        ("within", "0s"),
        ("within", "soon"),
        ("polls", []),
        ("polls", ["1s"] * 65),
        ("polls", [1, 2]),
        ("stable_for", 3),
        ("deadline", "401d"),
        ("late_window", 60),
        ("key_fields", "order_id"),
        ("key_fields", ["order_id", "order_id"]),
        ("key_fields", ["oder_id"]),
        ("principals", "agent:ops"),
        ("principals", [""]),
        ("redact", ["card"]),
        ("redact", ["requested"]),
        ("redact", ["scope.tenant"]),
        ("redact", ["requested.card"]),
        ("tell", ["a..b"]),
        ("tell", ["x"] * 2),
        ("unverifiable", ""),
        ("unverifiable", "x" * 501),
        ("proves", "seen"),
        ("freeze", []),
        ("freeze", ["world"]),
        ("freeze", "tenant"),
        ("freeze", [1]),
        ("require", [7]),
        ("fails_when", {"a": None}),
    ],
)
def test_a_value_that_its_key_does_not_take_is_refused(key: str, value: object) -> None:
    problems = refused(ContractFieldError, **{key: value})
    assert any(each == key or each.startswith(f"{key}.") for each in problems), problems


def test_times_fit_into_each_other() -> None:
    problems = refused(ContractFieldError, within="10s", deadline="5s", stable_for="6s", polls=["4s", "2s"])
    assert list(problems) == ["deadline", "stable_for", "polls"]


def test_kind_and_class_may_not_contradict() -> None:
    assert "kind" in refused(ContractFieldError, kind="read")
    assert "kind" in refused(ContractFieldError, side_effect="read_only")


def test_only_what_was_sent_proves_submission_or_delivery() -> None:
    assert "proves" in refused(ContractFieldError, proves="delivered")


def test_a_no_op_makes_no_sense_where_only_our_own_doing_counts() -> None:
    problems = refused(ContractFieldError, (reading(attributes=True),), kind="create", noop="allow")
    assert list(problems) == ["noop"]


@pytest.mark.requirement("REC-12", "REC-13")
@pytest.mark.parametrize(
    "options", [{"kind": "set"}, {"kind": "create", "side_effect": "high_risk_external"}], ids=["set", "high risk"]
)
def test_a_second_effect_is_equivalent_only_where_effects_are_counted_and_below_high_risk(
    options: dict[str, str],
) -> None:
    assert "noop" in refused(ContractFieldError, (reading(attributes=True),), noop="equivalent", **options)


def test_what_is_redacted_is_neither_stored_in_a_key_or_target_nor_told() -> None:
    problems = refused(
        ContractFieldError,
        redact=["requested.order_id", "authoritative.card"],
        key_fields=["order_id"],
        tell=["card.number"],
    )
    assert list(problems) == ["key_fields", "target", "tell"]
    twins = refused(
        ContractFieldError, redact=["intended.order_id", "before.card"], key_fields=["order_id"], tell=["card"]
    )
    assert list(twins) == ["key_fields", "target", "tell"]


# --- postconditions ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("INPUT-no-postconditions")
@pytest.mark.parametrize("ensure", [LEFT_OUT, None, {}])
def test_a_contract_without_postconditions_is_refused(ensure: object) -> None:
    assert refused(MissingPostconditionError, ensure=ensure) == {"ensure": "The contract has no postcondition."}


@pytest.mark.requirement("INPUT-no-postconditions")
def test_an_effect_group_without_postconditions_is_refused() -> None:
    ensure = {"record": {"shipped": "authoritative.status == 'shipped'"}, "stock": {}}
    assert list(refused(MissingPostconditionError, ensure=ensure)) == ["ensure.stock"]


@pytest.mark.requirement("L23", "L32")
@pytest.mark.parametrize(
    "ensure",
    [
        {"said": "observed.ok == true"},
        {"asked": "requested.carrier == 'dhl'", "said": "observed.status == 'shipped'"},
    ],
)
def test_what_the_tool_said_of_itself_is_no_postcondition(ensure: dict[str, str]) -> None:
    problems = refused(MissingPostconditionError, ensure=ensure)
    assert "proves nothing" in problems["ensure"]


def test_the_same_name_twice_is_refused() -> None:
    ensure = {"a.b": "authoritative.x == 1", "a": {"b": "authoritative.y == 1"}}
    assert "ensure.a.b" in refused(ContractFieldError, ensure=ensure)


# --- expressions -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("INPUT-expression-syntax", "L25")
def test_an_expression_that_does_not_compile_is_refused_with_its_position() -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(ensure={"shipped": "authoritative.status == "})
    assert caught.value.code == "expression.syntax"
    assert caught.value.source == "authoritative.status == "
    assert caught.value.column > 0
    (problem,) = caught.value.details["problems"]  # type: ignore[misc]
    assert problem["key"] == "ensure.shipped"
    assert problem["column"] == caught.value.column


@pytest.mark.requirement("INPUT-expression-type", "L25")
@pytest.mark.parametrize("source", ["authoritative.a ? 1 : 2", "sha256(authoritative.a)", "1 - 'a' == authoritative.x"])
def test_an_expression_that_does_not_type_check_or_gives_no_truth_is_refused(source: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(ensure={"shipped": source})
    assert caught.value.code == "expression.type"


@pytest.mark.requirement("INPUT-expression-limits")
def test_an_expression_over_the_limits_is_refused() -> None:
    with pytest.raises(ExpressionError) as caught:
        compiled(ensure={"shipped": "authoritative.a == '" + "x" * EXPRESSION_MAX_BYTES + "'"})
    assert caught.value.code == "expression.limit"


@pytest.mark.parametrize("key", ["ensure", "require", "fails_when"])
def test_every_clause_is_compiled_at_load(key: str) -> None:
    assert f"{key}.odd" in refused(ExpressionError, **{key: {"odd": "no_such_root == 1"}})


def test_identity_and_the_expected_version_are_compiled_at_load() -> None:
    identity = {"target": "authoritative.", "tenant": "authoritative.tenant"}
    problems = refused(ExpressionError, identity=identity, expected_version="requested.(")
    assert list(problems) == ["identity.target", "expected_version"]


def test_an_argument_that_the_action_does_not_have_is_named() -> None:
    problems = refused(ExpressionError, ensure={"carrier": "authoritative.carrier == requested.carier"})
    assert problems["ensure.carrier"] == "The action has no argument 'carier'. Did you mean 'carrier'?"
    assert "ensure.odd" in refused(ExpressionError, ensure={"odd": "authoritative.a == requested['carier']"})


@pytest.mark.parametrize("root", ["authoritative", "observed"])
def test_a_precondition_may_not_look_at_what_does_not_exist_yet(root: str) -> None:
    assert root in refused(ExpressionError, require={"open": f"{root}.status == 'open'"})["require.open"]


@pytest.mark.parametrize("root", ["authoritative", "observed", "before"])
def test_the_expected_version_comes_from_who_asks(root: str) -> None:
    assert root in refused(ExpressionError, expected_version=f"{root}.version")["expected_version"]


def test_a_template_that_is_malformed_is_refused_among_the_rest() -> None:
    assert "target" in refused(TemplateError, target="order/{requested.id}")
    assert "target" in refused(TemplateError, target=LEFT_OUT)


# --- callables ---------------------------------------------------------------------------------------------------


def _no_root(authoritativ: object) -> bool:
    return bool(authoritativ)


def _nothing() -> bool:
    return True


def _anything(**roots: object) -> bool:
    return bool(roots)


async def _reads(authoritative: object) -> bool:
    return bool(authoritative)


class _Callable:
    def __call__(self, authoritative: object) -> bool:
        return bool(authoritative)


@pytest.mark.parametrize(
    ("check", "error", "reason"),
    [
        (_no_root, ExpressionError, "Did you mean 'authoritative'"),
        (_nothing, ContractFieldError, "none of the roots"),
        (_anything, ContractFieldError, "cannot be passed by name"),
        (_reads, ContractFieldError, "cannot be async"),
        (lambda authoritative: True, ContractFieldError, "lambda"),
        (postcondition(version="2")(lambda authoritative: True), ContractFieldError, "needs a name"),
        (_Callable(), ContractFieldError, "version"),
    ],
)
@pytest.mark.requirement("L25")
def test_a_callable_that_cannot_judge_is_refused_at_load(
    check: Callable[..., object], error: type[ContractError], reason: str
) -> None:
    assert reason in refused(error, ensure={"odd": check, "ok": "authoritative.a == 1"})["ensure.odd"]


# --- readers -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("INPUT-no-reader", "CLASS-RULE-no-path")
@pytest.mark.parametrize("side_effect", ["ephemeral_write", "low_risk_internal"])
def test_a_contract_that_nobody_reads_back_has_to_say_why(side_effect: str) -> None:
    assert "readers" in refused(MissingReaderError, (), side_effect=side_effect)


def test_a_reason_does_not_stand_beside_readers() -> None:
    assert "unverifiable" in refused(ContractFieldError, unverifiable="It cannot be asked.")


CRITICAL: dict[str, Any] = {
    "side_effect": "critical_mutation",
    "identity": {
        "target": "authoritative.id",
        "tenant": "authoritative.tenant",
        "actor": "authoritative.actor",
        "permission_scope": "not_offered",
    },
}


@pytest.mark.requirement("CLASS-RULE-minimum")
@pytest.mark.parametrize(
    ("side_effect", "consistency", "independence"),
    [
        ("ephemeral_write", "session", "other_system"),
        ("low_risk_internal", "replica", "other_system"),
        ("low_risk_internal", "cached", "other_client"),
        ("low_risk_internal", "strong", "same_call"),
    ],
)
def test_a_reader_below_the_minimum_of_its_class_is_refused(
    side_effect: str, consistency: str, independence: str
) -> None:
    weak = (reading(consistency, independence),)
    assert "readers.order_row" in refused(WeakReaderError, weak, side_effect=side_effect)


@pytest.mark.requirement("CLASS-RULE-minimum")
def test_a_medium_risk_write_is_not_read_back_by_the_client_that_wrote_it() -> None:
    identity = {"target": "authoritative.id", "tenant": "authoritative.tenant", "actor": "not_offered"}
    weak = (reading("strong", "same_client"),)
    assert refused(WeakReaderError, weak, side_effect="medium_risk_write", identity=identity)


@pytest.mark.requirement("CLASS-RULE-minimum")
def test_a_critical_mutation_needs_two_strong_readers_of_other_systems() -> None:
    one, other = reading("strong", "other_system", "a"), reading("strong", "other_system", "b")
    weak = reading("strong", "other_client", "c")
    assert compiled((one, other), **CRITICAL).contract.quorum == 2
    assert "readers" in refused(MissingReaderError, (one,), **CRITICAL)
    assert "readers.c" in refused(WeakReaderError, (one, weak), **CRITICAL)
    assert "quorum" in refused(WeakReaderError, (one, other), quorum=1, **CRITICAL)
    assert compiled((one, other, weak), **CRITICAL).contract.quorum == 2


def test_two_readers_of_one_source_are_one_source_for_a_critical_mutation() -> None:
    one, again, other = (
        reading("strong", "other_system", n, source=s) for n, s in (("a", "x"), ("b", "x"), ("c", "y"))
    )
    assert "2 agreeing sources" in refused(WeakReaderError, (one, again), **CRITICAL)["readers"]
    assert compiled((one, again, other), **CRITICAL).contract.quorum == 2
    assert compiled((one, again), quorum=2).contract.quorum == 2


def test_a_quorum_over_the_number_of_readers_is_refused() -> None:
    assert "readers" in refused(MissingReaderError, quorum=2)


def test_two_readers_of_one_name_are_refused() -> None:
    assert "readers.order_row" in refused(ContractFieldError, (reading(), reading()))


def test_an_unknown_consistency_or_independence_is_refused() -> None:
    problems = refused(ContractFieldError, (reading("strongly", "another", timeout=5),))
    assert list(problems)[:3] == [
        "readers.order_row.timeout",
        "readers.order_row.consistency",
        "readers.order_row.independence",
    ]


def test_a_reader_that_asks_for_what_the_action_does_not_have_is_refused() -> None:
    def ship_to(ctx: Context, order_id: str, courier: str) -> object:
        return None

    problems = refused(ContractFieldError, None, ship_to, ensure={"sent": "authoritative.status == 'sent'"})
    assert "has no argument 'carrier'" in problems["readers.order_row"]


# --- identity and attribution ------------------------------------------------------------------------------------


def test_the_identity_that_the_class_needs_is_mapped_or_said_to_be_missing() -> None:
    problems = refused(ContractFieldError, identity={})
    assert list(problems) == ["identity.target", "identity.tenant"]
    offered = {"target": "authoritative.id", "tenant": "not_offered"}
    assert dict(compiled(identity=offered).contract.identity) == offered


def test_what_the_class_cannot_do_without_may_not_be_missing() -> None:
    identity = {"target": "not_offered", "tenant": "not_offered"}
    assert list(refused(ContractFieldError, identity=identity)) == ["identity.target"]


def test_identity_is_told_by_the_reading_and_by_nothing_else() -> None:
    identity = {"target": "requested.order_id", "tenant": "authoritative.tenant"}
    assert "every reading" in refused(ContractFieldError, identity=identity)["identity.target"]


def test_an_unknown_identity_key_is_refused() -> None:
    identity = {"target": "authoritative.id", "tenant": "authoritative.tenant", "regoin": "authoritative.r"}
    assert "Did you mean 'region'" in refused(ContractFieldError, identity=identity)["identity.regoin"]


def test_an_account_without_an_argument_to_compare_it_with_is_refused() -> None:
    identity = {"target": "authoritative.id", "tenant": "authoritative.tenant", "account": "authoritative.account"}
    assert "identity.account" in refused(ContractFieldError, identity=identity)


@pytest.mark.requirement("TRUTH-source-declared")
def test_a_contract_that_asks_for_more_than_its_source_offers_is_refused() -> None:
    identity = {"target": "authoritative.id", "tenant": "authoritative.tenant", "version": "not_offered"}
    problems = refused(ContractFieldError, kind="create", identity=identity, expected_version="requested.order_id")
    assert list(problems) == ["expected_version", "identity.stamp"]
    assert list(refused(MissingReaderError, quorum=3)) == ["readers"]


@pytest.mark.requirement("TRUTH-kind-ours")
@pytest.mark.parametrize("kind", ["create", "append", "adjust", "send"])
def test_an_effect_that_counts_only_as_ours_needs_a_way_to_show_it(kind: str) -> None:
    problems = refused(ContractFieldError, kind=kind)
    assert all(word in problems["identity.stamp"] for word in (".find", ".lookup", "attributes=True", "identity.stamp"))
    stamped = {"target": "authoritative.id", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"}
    assert compiled(kind=kind, identity=stamped).contract.kind == kind
    assert compiled((reading(attributes=True),), kind=kind).contract.kind == kind


# --- arguments ---------------------------------------------------------------------------------------------------


def _positional(ctx: Context, order_id: str, carrier: str, *rest: str) -> object:
    return rest


def _keywords(ctx: Context, order_id: str, carrier: str, **rest: str) -> object:
    return rest


def _unresolvable(ctx: Context, order_id: str, carrier: NoSuchType) -> object:  # type: ignore[name-defined]  # noqa: F821
    return carrier


def _recursive(ctx: Context, order_id: str, carrier: Json) -> object:
    return carrier


def _schemaless(ctx: Context, order_id: str, carrier: _Callable) -> object:
    return carrier


def _bad_default(ctx: Context, order_id: str, carrier: str = 7) -> object:  # type: ignore[assignment]
    return carrier


@pytest.mark.parametrize(
    "function",
    [_positional, _keywords, _unresolvable, _recursive, _schemaless, _bad_default],
)
def test_parameters_that_make_no_argument_schema_are_refused(function: Callable[..., object]) -> None:
    problems = refused(ContractFieldError, None, function)
    assert next(iter(problems)).startswith("arguments")


# --- all at once -------------------------------------------------------------------------------------------------


def test_all_faults_of_a_contract_are_told_together_under_the_first_ones_type() -> None:
    problems = refused(
        ContractFieldError,
        (),
        whithin="1s",
        within=10,
        target="{requested.id}",
        ensure={"a": "authoritative.x ==", "b": "requested.nothing == authoritative.y"},
        identity={},
    )
    assert list(problems) == [
        "whithin",
        "within",
        "target",
        "ensure.a",
        "ensure.b",
        "readers",
        "identity.target",
        "identity.tenant",
    ]


def test_the_message_names_the_contract_and_every_place() -> None:
    with pytest.raises(ContractError, match=r"'ship_order' cannot be loaded \(2 problems\).*within.*deadline"):
        compiled(within=1, deadline=2)


def test_a_contract_too_large_for_the_ledger_is_refused() -> None:
    long = "x" * 1900
    ensure = {f"p{n}": f"authoritative.a == '{long}'" for n in range(40)}
    with pytest.raises(ContractError, match="too large"):
        compiled(ensure=ensure)
