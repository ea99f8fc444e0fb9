"""Which requirement ids the tests claim, found by parsing their sources; nothing is imported or run.

Called by the two-way test and by scripts/coverage_table.py. It must not believe a claim that no test
stands behind: an id counts only where a test that can fail carries it. Three forms are understood:

1. ``@pytest.mark.requirement("HS-05", "L07")`` on a test function or a Test class;
2. the same mark as a value: in ``pytest.param(..., marks=...)`` or a ``pytestmark``;
3. ``@pytest.mark.parametrize("requirement_id", requirement_ids("TRANSITION"))`` on a test whose
   body uses ``requirement_id``: it claims every required id of that table.

A test that is always skipped, or expected to fail, is a fault wherever it stands.

Each claim has a kind, `proof`. A test that compares a golden text proves that the text did not change. A test of
`unit/` that walks a table proves what the table says. Both are weaker than a behaviour, and the manifest says so where
an id has nothing else. A test under `skipif` counts for nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tests.requirements.manifest import ManifestError, requirement_ids

TESTS = Path(__file__).parent.parent

_Function = ast.FunctionDef | ast.AsyncFunctionDef

Proof = Literal["behaviour", "golden", "table", "skipif"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A test says that it holds this requirement."""

    id: str
    where: str
    """File and line."""
    proof: Proof = "behaviour"


@dataclass(frozen=True, slots=True)
class Claims:
    """All that the sources say, and every marker that nothing stands behind."""

    claims: tuple[Claim, ...]
    faults: tuple[str, ...]

    @property
    def ids(self) -> frozenset[str]:
        """The ids with a test behind them. A test that may be skipped stands behind nothing."""
        return frozenset(claim.id for claim in self.claims if claim.proof != "skipif")

    def proofs(self, id_: str) -> frozenset[Proof]:
        """The kinds of proof that an id has."""
        return frozenset(claim.proof for claim in self.claims if claim.id == id_)


@cache
def read_claims(folder: Path = TESTS) -> Claims:
    """The claims of every Python file under the folder, which are read once."""
    claims: list[Claim] = []
    faults: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        found = read_source(path.read_text(encoding="utf-8"), path.relative_to(folder).as_posix())
        claims.extend(found.claims)
        faults.extend(found.faults)
    return Claims(tuple(claims), tuple(faults))


def read_source(source: str, name: str) -> Claims:
    """The claims of one source text."""
    reader = _Reader(name)
    reader.visit(ast.parse(source, name))
    return Claims(tuple(reader.claims), tuple(reader.faults))


class _Reader(ast.NodeVisitor):
    """Walks one module. A marker in a decorator belongs to what it decorates; any other is a value."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.claims: list[Claim] = []
        self.faults: list[str] = []
        self.proof: Proof = "behaviour"
        """The kind of every claim that is read now."""
        self.skipping: frozenset[str] = frozenset()
        """The module's names for a `skipif` mark."""

    def visit_Module(self, node: ast.Module) -> None:
        marks = [each for each in node.body if isinstance(each, ast.Assign) and _holds_mark(each.value, "skipif")]
        self.skipping = frozenset(name.id for each in marks for name in each.targets if isinstance(name, ast.Name))
        if "pytestmark" in self.skipping:
            self.proof = "skipif"
        self._visit_all(node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if _markers(node.decorator_list) and not node.name.startswith("Test"):
            self._fault(node, f"{node.name} carries a requirement and is no test class")
            self._visit_all(node.body)
            return
        self._visit_all([*node.decorator_list, *node.body])

    def visit_Call(self, node: ast.Call) -> None:
        if _is_mark(node.func, "requirement"):
            self._claim_literals(node)
        elif _is_mark(node.func, "parametrize") and (table := _walked_table(node)) is not None:
            self._claim_table(node, table)
        else:
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if _is_mark(node, "skip") or _is_mark(node, "xfail"):
            self._fault(node, f"{node.attr} hides a gap: say it in the manifest, as deferred with its reason")
        self.generic_visit(node)

    def _function(self, node: _Function) -> None:
        markers = _markers(node.decorator_list)
        before, self.proof = self.proof, self._proof_of(node)
        if markers and (why := _not_a_test(node)):
            self._fault(node, f"{node.name} carries a requirement and {why}")
        else:
            self._visit_all(node.decorator_list)
        self._visit_all(node.body)
        self.proof = before

    def _proof_of(self, node: _Function) -> Proof:
        marks = {each.id for top in node.decorator_list for each in ast.walk(top) if isinstance(each, ast.Name)}
        if self.proof == "skipif" or marks & self.skipping:
            return "skipif"
        if any(_holds_mark(each, "skipif") for each in node.decorator_list):
            return "skipif"
        if "GOLDEN" in set(_names(node)):
            return "golden"
        walks = any(_walked_table(call) is not None for call in _markers(node.decorator_list))
        return "table" if walks and self.name.startswith("unit/") else self.proof

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for each in nodes:
            self.visit(each)

    def _claim_literals(self, node: ast.Call) -> None:
        if not node.args or node.keywords:
            self._fault(node, "a requirement marker takes ids and nothing else")
        for arg in node.args:
            if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                self.claims.append(Claim(arg.value, f"{self.name}:{arg.lineno}", self.proof))
            else:
                self._fault(arg, "a requirement id must be written out, or come from requirement_ids")

    def _claim_table(self, node: ast.Call, table: str) -> None:
        try:
            ids = requirement_ids(table)
        except ManifestError as error:
            self._fault(node, str(error))
        else:
            self.claims.extend(Claim(id_, f"{self.name}:{node.lineno}", self.proof) for id_ in ids)

    def _fault(self, node: ast.AST, what: str) -> None:
        self.faults.append(f"{self.name}:{getattr(node, 'lineno', 0)}: {what}")


def _markers(decorators: list[ast.expr]) -> list[ast.Call]:
    """The decorators' calls that claim something, at any depth."""
    calls = [each for top in decorators for each in ast.walk(top) if isinstance(each, ast.Call)]
    return [call for call in calls if _is_mark(call.func, "requirement") or _walked_table(call) is not None]


def _is_mark(func: ast.expr, name: str) -> bool:
    """Whether this is ``pytest.mark.<name>`` or ``mark.<name>``."""
    if not (isinstance(func, ast.Attribute) and func.attr == name):
        return False
    owner = func.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "mark") or (
        isinstance(owner, ast.Name) and owner.id == "mark"
    )


def _holds_mark(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.expr) and _is_mark(each, name) for each in ast.walk(node))


def _walked_table(call: ast.Call) -> str | None:
    """The table's name in ``parametrize("requirement_id", requirement_ids("NAME"))``."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="parametrize"),
            args=[
                ast.Constant(value="requirement_id"),
                ast.Call(func=ast.Name(id="requirement_ids"), args=[ast.Constant(value=str(table))], keywords=[]),
                *_,
            ],
        ):
            return table
        case _:
            return None


def _not_a_test(node: _Function) -> str | None:
    """Why nothing stands behind this function's markers, if so."""
    if not node.name.startswith("test"):
        return "is no test"
    if any(_is_mark(_called(each), name) for each in node.decorator_list for name in ("skip", "xfail")):
        return "is skipped or expected to fail"
    if not any(_does_something(each) for each in node.body):
        return "does nothing"
    walks = any(_walked_table(call) is not None for call in _markers(node.decorator_list))
    if walks and "requirement_id" not in set(_names(node)):
        return "walks a table without using requirement_id"
    return None


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _does_something(statement: ast.stmt) -> bool:
    """Neither ``pass`` nor a docstring nor an ellipsis."""
    return not (
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    )


def _names(node: _Function) -> Iterator[str]:
    for statement in node.body:
        for each in ast.walk(statement):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                yield each.id
