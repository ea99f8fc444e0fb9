"""The syntax tree of an expression, with derived paths, called functions and loops.

`parser` makes the tree, `checker` and `compiler` walk it. No other code parses an expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from readback.domain.predicate import Path


class Form(Enum):
    """The kind of a node."""

    LITERAL = auto()
    """`value`: null, a boolean, a number, a text, bytes or the name of a type."""
    ROOT = auto()
    """`value`: the name of a root."""
    VARIABLE = auto()
    """`value`: the depth of the variable's loop, from 0."""
    SELECT = auto()
    """`value`: the field; one part."""
    INDEX = auto()
    """Two parts: the container and the index."""
    HAS = auto()
    """`value`: the field; one part."""
    LIST = auto()
    MAP = auto()
    """Keys and values, in turn."""
    NOT = auto()
    NEGATE = auto()
    BINARY = auto()
    """`value`: the operator."""
    AND = auto()
    OR = auto()
    CHOOSE = auto()
    """Three parts."""
    CALL = auto()
    """`value`: the function's name, and whether the first part is the receiver."""
    LOOP = auto()
    """`value`: the macro's name and the depth of the variable. Parts: the list, and one or two bodies."""


class Node:
    """A node. `at`: the start, from 0. `raw`: the text of a literal. `depth`: the levels. `kind`: the static kind."""

    __slots__ = ("at", "depth", "form", "kind", "parts", "raw", "value")

    def __init__(self, form: Form, at: int, value: object = None, parts: tuple[Node, ...] = (), raw: str = "") -> None:
        self.form = form
        self.at = at
        self.value = value
        self.parts = parts
        self.raw = raw
        self.kind: str | None = None
        self.depth: int = 1 + max((part.depth for part in parts), default=0)


def walk(node: Node) -> Iterator[Node]:
    """Yield every node, in the order of the text."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending.extend(reversed(one.parts))


def path_of(node: Node) -> Path | None:
    """Return the path of a node: a root followed by fields and literal indices."""
    steps: list[str | int] = []
    texts: list[str] = []
    here = node
    while here.form is not Form.ROOT:
        if here.form in (Form.SELECT, Form.HAS):
            steps.append(str(here.value))
            texts.append(f".{here.raw or here.value}")
        elif here.form is Form.INDEX and (key := here.parts[1]).form is Form.LITERAL and _is_step(key.value):
            steps.append(key.value)  # type: ignore[arg-type]  # as just asked
            texts.append(f"[{key.raw}]")
        else:
            return None
        here = here.parts[0]
    root = str(here.value)
    return Path((root, *reversed(steps)), "".join([root, *reversed(texts)]), here.at + 1)


def _is_step(value: object) -> bool:
    return type(value) is str or (type(value) is int and value >= 0)


def paths(node: Node) -> tuple[Path, ...]:
    """Return the longest paths of a tree, in the order of the text, without duplicates."""
    found: dict[Path, None] = {}
    pending = [node]
    while pending:
        one = pending.pop()
        path = path_of(one)
        if path is None:
            pending.extend(reversed(one.parts))
        else:
            found.setdefault(path)
    return tuple(found)


def mentions(node: Node) -> tuple[Path, ...]:
    """Return the paths as in `paths`, with duplicates."""
    found: list[Path] = []
    pending = [node]
    while pending:
        one = pending.pop()
        path = path_of(one)
        if path is None:
            pending.extend(reversed(one.parts))
        else:
            found.append(path)
    return tuple(found)


def calls(node: Node) -> frozenset[str]:
    """Return the called functions and macros of a tree."""
    found: set[str] = set()
    for one in walk(node):
        if one.form is Form.HAS:
            found.add("has")
        elif one.form in (Form.CALL, Form.LOOP):
            assert isinstance(one.value, tuple)
            found.add(str(one.value[0]))
        elif one.form is Form.BINARY and one.value == "in":
            found.add("in")
    return frozenset(found)


def is_presence(node: Node) -> bool:
    """Return whether the expression only tests for a reading: `authoritative == null`, or `!=`."""
    if node.form is not Form.BINARY or node.value not in ("==", "!="):
        return False
    one, other = node.parts
    if one.form is Form.LITERAL:
        one, other = other, one
    return one.form is Form.ROOT and one.value == "authoritative" and other.form is Form.LITERAL and other.value is None
