"""Mutants of expressions: trees written as text again, and each change that a mutation test makes."""

from __future__ import annotations

import re

import pytest

from readback import bootstrap
from readback.adapters.cel.mutants import expression_mutants
from readback.adapters.cel.syntax.parser import parse
from readback.adapters.cel.syntax.text import text_of
from readback.adapters.cel.syntax.tree import Node
from readback.client.files import loaded_files
from readback.contracts.packs import PACKS
from readback.errors import ExpressionError
from readback.ports.predicates import PredicateEngine
from tests.expressions.test_specification import ROWS

WRITTEN = [
    "1 + 2 * 3 == 7",
    "(1 + 2) * 3 == 9",
    "1 - (2 - 3) == 2",
    "!(authoritative.a && (before.b || requested.c))",
    "authoritative == null ? before == null : (before != null ? true : false)",
    "(authoritative == null ? 1 : 2) == 2",
    "requested.items.all(i, i.tags.exists(t, t in authoritative.tags && i.name == t))",
    "has(authoritative.`a-b`) && authoritative['c'][0].d == -1",
    "-(requested.n) < 0",
    "{'a': [1, 2.5], 'b': null}.a.size() == 2",
    "authoritative.text.contains('it\\'s')",
    "[[1], [2]].map(x, x.map(y, y + x[0])) == [[2], [4]]",
    "contains_all(authoritative.a, before.b) || !has(authoritative.c)",
]


def shape(node: Node) -> object:
    """A tree without places, raw text and names."""
    return node.form, node.value, tuple(map(shape, node.parts))


@pytest.mark.requirement("QUAL-mutants")
@pytest.mark.parametrize("source", WRITTEN)
def test_a_trees_text_has_the_same_tree(source: str) -> None:
    assert shape(parse(text_of(parse(source)))) == shape(parse(source))


@pytest.mark.requirement("QUAL-mutants")
def test_every_expression_of_the_languages_own_tests_survives_the_way_through_its_tree() -> None:
    seen = 0
    for row in ROWS:
        try:
            tree = parse(row[3])
        except ExpressionError:
            continue
        seen += 1
        assert shape(parse(text_of(tree))) == shape(tree), row[3]
    assert seen > 500


def _pack_expressions() -> list[str]:
    found: set[str] = set()
    for name, pack in PACKS.items():
        given = "&".join(f"{each.name}=/tmp/x" for each in pack.parameters if not each.default)
        loaded = loaded_files([f"pack:{name}?{given}"])
        for each in loaded.contracts.values():
            found |= {check.predicate.source for check in each.plan.ensure if check.predicate}
    return sorted(found)


def _code(engine: PredicateEngine, source: str) -> str:
    try:
        engine.compile(source)
    except ExpressionError as error:
        return error.code
    return ""


@pytest.mark.requirement("QUAL-mutants")
def test_every_mutant_of_every_shipped_clause_compiles_or_is_refused_by_type() -> None:
    engine, many = bootstrap.predicate_engine(), 0
    for source in _pack_expressions():
        mutants = bootstrap.expression_mutants(source, {})
        assert len({each.source for each in mutants}) == len(mutants)
        codes = [_code(engine, each.source) for each in mutants]
        assert set(codes) <= {"", "expression.type"}
        many += codes.count("")
    assert many > 100


CHANGES = [
    ("authoritative.a == 1 && authoritative.b == 2", "weaken", "authoritative.b == 2"),
    ("authoritative.a == requested.a", "weaken", "has(authoritative.a)"),
    ("authoritative.a == requested.a", "swap comparison", "authoritative.a != requested.a"),
    ("authoritative.n >= 3", "swap comparison", "authoritative.n > 3"),
    ("authoritative.n >= 3", "swap comparison", "authoritative.n <= 3"),
    ("requested.x.all(i, i in authoritative.y)", "weaken", "requested.x.exists(each, each in authoritative.y)"),
    (
        "before == null ? authoritative.a == 1 : authoritative.a == 2",
        "weaken",
        "before == null ? true : authoritative.a == 2",
    ),
    ("!(requested.n in authoritative.y)", "swap comparison", "requested.n in authoritative.y"),
    ("authoritative.a == requested.a", "swap field", "authoritative.b == requested.a"),
]


@pytest.mark.requirement("QUAL-mutants")
@pytest.mark.parametrize(("source", "kind", "changed"), CHANGES, ids=[each[2] for each in CHANGES])
def test_each_operator_makes_its_change(source: str, kind: str, changed: str) -> None:
    found = expression_mutants(source, {"authoritative.a": ["b"]})
    assert (kind, changed) in {(each.kind, each.source) for each in found}
    assert all(re.search(r"\S", each.said) for each in found)


@pytest.mark.requirement("QUAL-mutants")
def test_an_expression_is_not_its_own_mutant() -> None:
    source = "authoritative.a == 1 && authoritative.a == 1"
    assert source not in {each.source for each in expression_mutants(source, {})}
