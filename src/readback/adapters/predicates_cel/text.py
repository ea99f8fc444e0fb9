"""The text of an expression, without understanding it: bounds before it is compiled, an estimate of its cost
before it is evaluated, the paths it mentions for display.

The engine calls it. It must not decide what an expression means: that is the library's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from typing import Final

from readback.adapters.predicates_cel.messages import refused
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.canon.limits import (
    EXPRESSION_ADDITIONS_MAX,
    EXPRESSION_DEPTH_MAX_LEVELS,
    EXPRESSION_MAX_BYTES,
    EXPRESSION_NESTED_LOOPS_MAX,
)
from readback.ports.predicates import ROOTS

_ITERATIONS_MAX: Final = 10_000  # the library's own budget, for all loops of one evaluation together
_ROOT_SET: Final = frozenset(ROOTS)

_TOKEN: Final = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*)
    |(?P<text>(?:[rR][bB]?|[bB][rR])(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>&&|\|\||[=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LOOPS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_COLLECTING: Final = frozenset({"map", "filter"})
_NODE_WEIGHT: Final = 16


@dataclass(slots=True)
class Scan:
    """What can be seen in the text without understanding it: enough for bounds and for display."""

    source: str
    paths: Counter[str] = field(default_factory=Counter)
    """How often each path is mentioned, in the order of the text."""
    paths_in_loops: Counter[str] = field(default_factory=Counter)
    loops_nested: int = 0
    additions: int = 0
    memberships: int = 0
    """How often `in` is written."""
    collects: bool = False

    @property
    def costly(self) -> bool:
        return bool(self.loops_nested or self.additions)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    column: int


def bounded(source: str) -> Scan:
    """The scan of a text that is within all limits. Raises ExpressionError."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise refused("syntax", "The text is not Unicode.", source) from error
    if size > EXPRESSION_MAX_BYTES:
        reason = f"The expression has {size} bytes, over {EXPRESSION_MAX_BYTES}."
        raise refused("limit", reason, source[:80])
    found = [match for match in _TOKEN.finditer(source) if match.lastgroup != "skip"]
    tokens = [_Token(match.lastgroup or "", match[0], match.start() + 1) for match in found]
    scan = Scan(source)
    opened: list[bool] = []  # one for each open bracket: whether it holds a loop's body
    for at, token in enumerate(tokens):
        if token.kind == "mark":
            _bracket(scan, tokens, at, opened)
        elif token.kind == "name" and token.text == "in" and tokens[max(at - 1, 0)].text != "`":
            scan.memberships += 1
        elif token.kind == "name" and token.text in _ROOT_SET and not _is_field(tokens, at):
            path = _path(tokens, at)
            scan.paths[path] += 1
            if any(opened):
                scan.paths_in_loops[path] += 1
    if scan.additions > EXPRESSION_ADDITIONS_MAX:
        raise refused("limit", f"The expression adds more than {EXPRESSION_ADDITIONS_MAX} times.", source)
    return scan


def _bracket(scan: Scan, tokens: list[_Token], at: int, opened: list[bool]) -> None:
    token = tokens[at]
    before = tokens[at - 1] if at else None
    if token.text == "+":
        scan.additions += 1
    elif token.text in "([{":
        if token.text == "{" and before is not None and before.kind == "name" and before.text != "in":
            raise refused("forbidden", "Messages cannot be made here.", scan.source, token.column)
        is_call = token.text == "(" and before is not None and _is_field(tokens, at - 1)
        loops = is_call and before is not None and before.text in _LOOPS
        if loops and before is not None and before.text in _COLLECTING:
            scan.collects = True
        opened.append(loops)
        if len(opened) > EXPRESSION_DEPTH_MAX_LEVELS:
            raise refused("limit", "The expression is nested too deeply.", scan.source, token.column)
        scan.loops_nested = max(scan.loops_nested, sum(opened))
        if scan.loops_nested > EXPRESSION_NESTED_LOOPS_MAX:
            raise refused("limit", "Loops are nested too deeply.", scan.source, token.column)
    elif token.text in ")]}" and opened:
        opened.pop()


def _is_field(tokens: list[_Token], at: int) -> bool:
    """Whether a name follows a dot that follows a value (a leading dot names a root)."""
    if at < 2 or tokens[at - 1].text != ".":
        return False
    value = tokens[at - 2]
    return (value.kind in ("name", "text", "number") and value.text != "in") or value.text in ")]}"


def _path(tokens: list[_Token], at: int) -> str:
    """The longest dotted path from here that is written out; it ends before a method or a computed index."""
    path = tokens[at].text
    at += 1
    while at + 1 < len(tokens):
        mark, step = tokens[at], tokens[at + 1]
        after = tokens[at + 2].text if at + 2 < len(tokens) else ""
        if mark.text == "." and step.kind == "name" and after != "(":
            path += f".{step.text}"
            at += 2
        elif mark.text == "[" and after == "]" and _is_plain_index(step):
            path += f"[{step.text}]"
            at += 3
        else:
            break
    return path


def _is_plain_index(step: _Token) -> bool:
    if step.kind == "number":
        return step.text.isdigit()
    return step.kind == "text" and step.text[0] in "'\"" and "\\" not in step.text


@dataclass(frozen=True, slots=True)
class Size:
    """`weight`, and `heaviest` of the parts, in the unit of the work limit; `widest`: longest container."""

    weight: int
    heaviest: int
    widest: int
    nodes: int


def measure(value: Json) -> Size:
    """How much a value is, for the estimate."""
    if not isinstance(value, (dict, list)):
        weight = _weigh(value)[0]
        return Size(weight, weight, 0, 1)
    parts = [_weigh(part) for part in _parts(value)]
    keys = sum(map(len, value)) if isinstance(value, dict) else 0
    return Size(
        weight=_NODE_WEIGHT + keys + sum(weight for weight, _, _ in parts),
        heaviest=max((weight for weight, _, _ in parts), default=0),
        widest=max(len(value), max((widest for _, widest, _ in parts), default=0)),
        nodes=1 + sum(nodes for _, _, nodes in parts),
    )


def _weigh(value: Json) -> tuple[int, int, int]:
    """Weight, longest container, nodes."""
    weight, widest = 0, 0
    pending: list[Json] = [value]
    for node in pending:  # grows while it runs
        weight += _NODE_WEIGHT
        if isinstance(node, str):
            weight += len(node)
        elif isinstance(node, (dict, list)):
            widest = max(widest, len(node))
            weight += sum(map(len, node)) if isinstance(node, dict) else 0
            pending.extend(_parts(node))
    return weight, widest, len(pending)


def _parts(value: dict[str, Json] | list[Json]) -> list[Json]:
    return list(value.values()) if isinstance(value, dict) else value


def work(scan: Scan, size_of: Callable[[str], Size]) -> int:
    """An upper bound of what an evaluation costs, coarse on the safe side. `size_of` measures a path."""
    sizes = [size_of(path) for path in scan.paths]
    total = len(scan.source) + sum(size_of(path).weight * often for path, often in scan.paths.items())
    if scan.loops_nested:
        widest = max((size.widest for size in sizes), default=0)
        widest = max(widest, len(scan.source) // 2)  # a list that is written in the expression itself
        iterations = widest**scan.loops_nested
        if not scan.paths_in_loops:
            iterations = min(iterations, len(scan.source) + sum(size.nodes for size in sizes))
        inside = sum(size_of(path).weight * often for path, often in scan.paths_in_loops.items())
        if scan.loops_nested > 1:  # the inner loop may look at all of the outer one's part each time
            inside += max((size.heaviest for size in sizes), default=0)
        total += min(_ITERATIONS_MAX, iterations) * inside
        if scan.collects:
            total += _NODE_WEIGHT * min(_ITERATIONS_MAX, widest) ** 2
    # What a loop's body adds may be added up before: the factors multiply.
    return int(total * (1 + scan.additions) ** (2 if scan.loops_nested else 1))
