"""Mutants of an expression: its syntax tree with one part changed, as text.

A mutant with the verdicts of the expression in every example shows a part of the expression without a test. The
changes follow the usual operators of mutation testing: drop a part, weaken a part, swap a comparison, swap a field.

Called through `bootstrap.expression_mutants`. Nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from readback.adapters.cel.syntax.parser import parse
from readback.adapters.cel.syntax.text import text_of
from readback.adapters.cel.syntax.tree import Form, Node, path_of, walk
from readback.ports.predicates import ExpressionMutant

MUTANTS_MAX: Final = 200
_SWAPS: Final[Mapping[str, Sequence[str]]] = {
    "==": ("!=",),
    "!=": ("==",),
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
}
_LOOSER: Final = {"all": "exists", "exists_one": "exists"}
_LOOKED_AT: Final = ("authoritative", "before")
_TRUE: Final = Node(Form.LITERAL, 0, True, (), "true")


def expression_mutants(source: str, fields: Mapping[str, Sequence[str]]) -> tuple[ExpressionMutant, ...]:
    """Return the mutants of an expression, without repeats, in the order of the text.

    Args:
        source: An expression that compiles.
        fields: Names of a field's siblings by the text of the field's path, such as `authoritative.status`.

    Raises:
        ExpressionError: The expression does not parse.
    """
    tree = parse(source)
    plain, found = text_of(tree), {}
    for kind, said, changed in _changes(tree, fields):
        text = text_of(changed)
        if text != plain and text not in found:
            found[text] = ExpressionMutant(kind, said, text)
        if len(found) >= MUTANTS_MAX:
            break
    return tuple(found.values())


def _changes(tree: Node, fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, Node]]:
    for node in walk(tree):
        for kind, said, other in _of(node, fields):
            yield kind, said, _with(tree, node, other)


def _of(node: Node, fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, Node]]:
    match node.form:
        case Form.AND:
            for number, part in enumerate(node.parts):
                named = "without a part" if _bound(part) else f"without `{text_of(part)}`"
                yield "weaken", named, _less(node, number)
        case Form.CHOOSE:
            yield "weaken", "true where the condition holds", _node(node, (node.parts[0], _TRUE, node.parts[2]))
            yield "weaken", "true where the condition fails", _node(node, (node.parts[0], node.parts[1], _TRUE))
        case Form.NOT:
            yield "swap comparison", "without the negation", node.parts[0]
        case Form.BINARY:
            yield from _comparisons(node)
        case Form.LOOP:
            yield from _loops(node)
        case _:
            pass
    yield from _fields(node, fields)


def _comparisons(node: Node) -> Iterator[tuple[str, str, Node]]:
    sign = str(node.value)
    for other in _SWAPS.get(sign, ()):
        yield "swap comparison", f"`{sign}` becomes `{other}`", Node(Form.BINARY, node.at, other, node.parts)
    if sign == "==":
        for part in node.parts:
            path = path_of(part)
            if path is not None and path.root == "authoritative" and len(path.steps) > 1 and part.form is Form.SELECT:
                shown = Node(Form.HAS, part.at, part.value, part.parts, part.raw)
                yield "weaken", f"`{text_of(part)}` has any value", shown
    if sign == "in":
        yield "swap comparison", "`in` becomes not in", Node(Form.NOT, node.at, None, (node,))


def _loops(node: Node) -> Iterator[tuple[str, str, Node]]:
    assert isinstance(node.value, tuple)
    name, depth = str(node.value[0]), node.value[1]
    if name in _LOOSER:
        other = Node(Form.LOOP, node.at, (_LOOSER[name], depth), node.parts)
        yield "weaken", f"`{name}` becomes `{_LOOSER[name]}`", other


def _fields(node: Node, fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, Node]]:
    """Swap a field of a reading for its sibling, and the reading after the call for the one before."""
    if node.form not in (Form.SELECT, Form.HAS):
        return
    path, above = path_of(node), path_of(node.parts[0])
    if path is None or above is None or path.root not in _LOOKED_AT:
        return
    for other in fields.get(str(path), ()):
        raw = other if other.isidentifier() else f"`{other}`"
        yield "swap field", f"`{path}` becomes `{above}.{raw}`", Node(node.form, node.at, other, node.parts, raw)


# --- trees ---


def _bound(node: Node) -> bool:
    """Return whether a node lies inside a loop, where its text needs the loop's variable."""
    return any(each.form is Form.VARIABLE for each in walk(node))


def _less(node: Node, number: int) -> Node:
    left = (*node.parts[:number], *node.parts[number + 1 :])
    return left[0] if len(left) == 1 else _node(node, left)


def _node(node: Node, parts: Iterable[Node]) -> Node:
    return Node(node.form, node.at, node.value, tuple(parts), node.raw)


def _with(tree: Node, old: Node, new: Node) -> Node:
    """Return the tree with one node replaced. Nodes are compared by identity: equal parts may occur twice."""
    if tree is old:
        return new
    if not tree.parts:
        return tree
    parts = tuple(_with(each, old, new) for each in tree.parts)
    return tree if all(map(_is, parts, tree.parts)) else _node(tree, parts)


def _is(one: Node, other: Node) -> bool:
    return one is other
