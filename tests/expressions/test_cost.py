"""No function takes more than in proportion to its input: steps are counted, for every value, before they are done."""

from __future__ import annotations

import pytest

from bench.expressions import GROWTH_MAX, INPUTS, MIB, cost, memory
from readback.adapters.cel.functions import FUNCTIONS
from readback.adapters.cel.syntax.parser import LOOPS
from readback.adapters.cel.values.moments import ACCESSORS
from readback.canon.limits import EXPRESSION_WORK_MAX
from tests.expressions.spoken import ENGINE

SMALL = {"type", "dyn", "bool", "int", "uint", "double", "dec_cmp", "duration", *ACCESSORS}
"""Functions of single values, which take a bounded number of steps whatever they are given."""


def test_every_function_and_macro_is_measured() -> None:
    named = {name.partition(" ")[0].partition(",")[0] for name in INPUTS}
    assert set(FUNCTIONS) - SMALL <= named
    assert set(LOOPS) - {"existsOne"} <= named


@pytest.mark.slow
@pytest.mark.requirement("EXPR-linear")
@pytest.mark.parametrize("name", INPUTS)
def test_twice_the_input_takes_at_most_a_little_over_twice_the_steps(name: str) -> None:
    source, make, size = INPUTS[name]
    _, half, kind = cost(source, make(size // 2))
    _, whole, _ = cost(source, make(size))
    assert kind == "value"
    assert whole <= GROWTH_MAX * max(half, 1)
    assert half or name in ("size", "string")


@pytest.mark.slow
@pytest.mark.requirement("INPUT-expression-limits")
@pytest.mark.parametrize("name", INPUTS)
def test_an_input_of_a_mebibyte_takes_little_memory(name: str) -> None:
    source, make, size = INPUTS[name]
    assert memory(source, make(size)) < 64 * MIB


@pytest.mark.requirement("INPUT-expression-limits")
@pytest.mark.parametrize(
    ("source", "reading"),
    [
        ("contains_any(authoritative, [1])", [{"a": [1] * 20_000} for _ in range(10)]),
        ("contains_all(authoritative, authoritative)", list(range(100_000))),
        ("authoritative.all(x, authoritative.all(y, y >= 0 || x >= 0))", list(range(1_000))),
        ("authoritative.exists(x, x.contains('b'))", ["a" * 100_000] * 300),
        ("authoritative.map(x, x + x).size() == 0", ["a" * 100_000] * 300),
        ("edited(authoritative, requested) == ''", "\n" * 1_000_000),
        ("edited(authoritative, [['', 'x']]) == ''", "x" * 30_000_000),
        ("authoritative.matches('[ab]*a[ab]{200}z')", "ab" * 500_000),
        ("authoritative.all(x, x == authoritative[0])", [["a" * 9] * 99_000] * 1_000),
        ("authoritative.map(x, timestamp(x)).size() == 0", ["2024-01-01T00:00:00Z"] * 20_000),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_would_take_too_long_is_not_begun_and_is_undetermined(source: str, reading: object) -> None:
    edits = [["\n" * 9 + "x", "y"]] * 64
    binding = ENGINE.bind({"authoritative": reading, "requested": edits})  # type: ignore[dict-item]
    said = ENGINE.compile(source).evaluate(binding)
    assert (said.kind, said.value) == ("limit", None)
    assert binding.spent > EXPRESSION_WORK_MAX or "too long" in str(said.error)


def test_the_steps_of_one_evaluation_are_no_others() -> None:
    predicate, binding = ENGINE.compile("authoritative.all(x, x > 0)"), ENGINE.bind({"authoritative": [1] * 1_000})
    predicate.evaluate(binding)
    spent = binding.spent
    predicate.evaluate(binding)
    assert binding.spent == spent > 0
