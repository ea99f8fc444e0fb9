"""Two expressions compared by their trees: proofs, refutations by a state, and no guess."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback import bootstrap
from readback.ports.predicates import Strength

STATUS = "authoritative.status"

STRICTER = [
    (f"{STATUS} != null", f"{STATUS} == 'shipped'"),
    (f"{STATUS} in ['a', 'b', 'c']", f"{STATUS} in ['a', 'c']"),
    (f"{STATUS} in ['a', 'b']", f"{STATUS} == 'a'"),
    (f"{STATUS} == 'a'", f"{STATUS} == 'a' && authoritative.n == requested.n"),
    (f"{STATUS} == 'a' || {STATUS} == 'b'", f"{STATUS} == 'b'"),
    ("authoritative.n >= 1", "authoritative.n >= 2"),
    ("authoritative.n > 1", "authoritative.n > 1.5"),
    ("authoritative.n < 10", "authoritative.n == 3"),
    ("10 > authoritative.n", "authoritative.n < 9"),
    ("authoritative.n != 7", "authoritative.n < 7"),
    ("!(authoritative.n < 1)", "authoritative.n > 1"),
    ("authoritative.lines.all(l, l.n > 0)", "authoritative.lines.all(l, l.n > 1)"),
    ("authoritative.lines.exists(l, l.n > 0)", "authoritative.lines.exists(each, each.n == 4)"),
    (f"{STATUS} != 'a'", f"!({STATUS} in ['a', 'b'])"),
    ("authoritative.ok || authoritative.fine", "authoritative.ok"),
    ("requested.fast ? authoritative.n > 0 : authoritative.n > 5", "authoritative.n > 5 && requested.fast"),
]
UNCHANGED = [
    ("authoritative.n == 1 && authoritative.m == 2", "authoritative.m == 2 && authoritative.n == 1"),
    ("authoritative.n == 1", "1 == authoritative.n"),
    ("authoritative.n == 1", "(authoritative.n == 1.0)"),
    ("authoritative.n > 1", "1 < authoritative.n"),
    ("!(!authoritative.ok)", "authoritative.ok"),
    ("!(authoritative.n > 1)", "authoritative.n <= 1"),
    ("authoritative.lines.all(l, l.n > 0)", "authoritative.lines.all(each, each.n > 0)"),
    ("authoritative['status'] == \"a\"", "authoritative.status == 'a'"),
    ("!(authoritative.a && authoritative.b)", "!authoritative.b || !authoritative.a"),
]
OTHER = [
    (f"{STATUS} == 'a'", f"{STATUS} == 'b'"),
    ("authoritative.n < 3", "authoritative.n > 5"),
    ("authoritative.n == requested.n", "authoritative.n != requested.n"),
]
UNDECIDED = [
    ("size(authoritative.lines) > 0", "size(authoritative.rows) > 0 && size(authoritative.lines) >= 0"),
    ("authoritative.sha256 == sha256(requested.text)", "authoritative.sha256 == sha256(requested.body)"),
    ("matches(authoritative.id, '^a+$')", "matches(authoritative.id, '^(a|b)+$') && authoritative.id != 'bb'"),
]


@pytest.mark.requirement("GATES-syntax-tree")
@pytest.mark.parametrize(("old", "new"), STRICTER)
def test_fewer_states_are_stricter_and_the_reverse_is_looser(old: str, new: str) -> None:
    there, back = bootstrap.compare_expressions(old, new), bootstrap.compare_expressions(new, old)
    assert (there.strength, there.decided) == (Strength.STRICTER, True)
    assert (back.strength, back.decided) == (Strength.LOOSER, True)


@pytest.mark.requirement("GATES-syntax-tree")
@pytest.mark.parametrize(("old", "new"), UNCHANGED)
def test_another_spelling_is_unchanged(old: str, new: str) -> None:
    assert bootstrap.compare_expressions(old, new).strength is Strength.UNCHANGED


@pytest.mark.requirement("GATES-syntax-tree")
@pytest.mark.parametrize(("old", "new"), OTHER)
def test_states_gained_and_lost_are_other_with_a_state_of_each(old: str, new: str) -> None:
    found = bootstrap.compare_expressions(old, new)
    assert found.strength is Strength.OTHER
    assert _true(new, found.gained)
    assert not _true(old, found.gained)
    assert _true(old, found.lost)
    assert not _true(new, found.lost)


@pytest.mark.requirement("GATES-not-decidable")
@pytest.mark.parametrize(("old", "new"), UNDECIDED)
def test_what_is_not_decided_counts_as_looser(old: str, new: str) -> None:
    found = bootstrap.compare_expressions(old, new)
    assert found.strength is Strength.LOOSER
    assert not found.decided


@pytest.mark.requirement("GATES-syntax-tree")
def test_the_law_of_the_excluded_middle_is_no_proof_since_an_error_is_not_true() -> None:
    found = bootstrap.compare_expressions("authoritative.ok || !authoritative.ok", "true")
    assert found.strength is Strength.LOOSER
    found = bootstrap.compare_expressions("true", "authoritative.ok || !authoritative.ok")
    assert found.strength is Strength.STRICTER


@pytest.mark.requirement("GATES-syntax-tree")
def test_null_and_values_of_another_kind_are_no_proof() -> None:
    """Null equals null and has no order; a number and a text cannot be compared."""
    null = bootstrap.compare_expressions("authoritative.n <= requested.n", "authoritative.n == requested.n")
    assert null.strength is not Strength.STRICTER
    kinds = bootstrap.compare_expressions("authoritative.n != 'a'", "authoritative.n == 5")
    assert kinds.strength is not Strength.STRICTER


@pytest.mark.requirement("GATES-not-decidable")
def test_a_formula_with_too_many_cases_counts_as_looser() -> None:
    many = " && ".join(f"(authoritative.a{n} || authoritative.b{n})" for n in range(12))
    found = bootstrap.compare_expressions(many, f"{many} && authoritative.c")
    assert found.strength is Strength.LOOSER
    assert not found.decided


def _true(source: str, state: Mapping[str, Any] | None) -> bool:
    engine = bootstrap.predicate_engine()
    found = engine.compile(source).evaluate(engine.bind(dict(state or {})))
    return found.kind == "value" and found.value is True


ATOMS = st.sampled_from(
    [
        "authoritative.n == 1", "authoritative.n != 1", "authoritative.n < 2", "authoritative.n >= 1",
        "authoritative.n in [1, 2]", "!(authoritative.n in [2, 3])", "authoritative.n == null",
        "authoritative.n != null", "authoritative.n == requested.n", "authoritative.n < requested.n",
        "authoritative.s == 'a'", "authoritative.s in ['a', 'b']", "authoritative.s != 'a'", "authoritative.s < 'b'",
        "authoritative.s >= 'a'", "authoritative.ok",
        "!authoritative.ok", "authoritative.ok == true", "authoritative.ok != false", "true", "false",
        "authoritative.l.all(e, e > 0)", "authoritative.l.exists(e, e > 1)", "!authoritative.l.all(e, e > 1)",
    ]
)  # fmt: skip
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda each: f"({each[0]} && {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]} || {each[1]})"),
        inner.map(lambda each: f"!({each})"),
        st.tuples(inner, inner, inner).map(lambda each: f"({each[0]} ? {each[1]} : {each[2]})"),
    ),
    max_leaves=5,
)
VALUES = st.sampled_from([None, 0, 1, 2, 3, "a", "b", True, False])
STATES = st.fixed_dictionaries(
    {
        "authoritative": st.fixed_dictionaries(
            {}, optional={"n": VALUES, "s": VALUES, "ok": VALUES, "l": st.lists(VALUES, max_size=2)}
        ),
        "requested": st.fixed_dictionaries({}, optional={"n": VALUES}),
    }
)


@pytest.mark.requirement("GATES-syntax-tree")
@settings(deadline=None, max_examples=150)
@given(old=EXPRESSIONS, new=EXPRESSIONS, states=st.lists(STATES, min_size=6, max_size=12))
def test_no_state_contradicts_a_proof(old: str, new: str, states: list[Mapping[str, Any]]) -> None:
    """A stricter or unchanged expression is true in no state in which the old expression is not true."""
    found = bootstrap.compare_expressions(old, new)
    for state in states:
        then, now = _true(old, state), _true(new, state)
        if found.strength in (Strength.STRICTER, Strength.UNCHANGED):
            assert then or not now, (old, new, state)
        if found.strength is Strength.UNCHANGED:
            assert then is now, (old, new, state)
    if found.gained is not None:
        assert _true(new, found.gained)
        assert not _true(old, found.gained)
