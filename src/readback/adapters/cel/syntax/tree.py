"""The one syntax tree of an expression, and what can be read off it: paths, the functions it calls, its loops.

`parser` makes it, `checker` and `compiler` walk it. Nothing reads an expression's text beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from readback.domain.predicate import Path


class Form(Enum):
    """What a node is."""

    LITERAL = auto()
    """`value`: null, a boolean, a number, a text, bytes or the name of a type."""
    ROOT = auto()
    """`value`: the name of a root."""
    VARIABLE = auto()
    """`value`: the depth of the loop whose variable it is, from 0."""
    SELECT = auto()
    """`value`: the field; one part."""
    INDEX = auto()
    """Two parts: what is looked into, and the index."""
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
    """`value`: the function's name, and whether it was called upon its first part."""
    LOOP = auto()
    """`value`: the macro's name and the depth of its variable; what is gone through, and one or two bodies."""


class Node:
    """One node. `at`: where it begins, from 0; `raw`: how a literal was written; `depth`: its levels; `kind`: what the
    check knows that it gives.
    """

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
    """Every node, in the order of the text."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending.extend(reversed(one.parts))


def path_of(node: Node) -> Path | None:
    """The path that a node is: a root with fields and written-out indices behind it."""
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
    """The longest paths of a tree, in the order of the text, once each."""
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
    """As `paths`, each as often as it stands there."""
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
    """The functions and macros that a tree calls."""
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
    """Whether it asks for nothing but whether there is a reading: `authoritative == null`, or `!=`."""
    if node.form is not Form.BINARY or node.value not in ("==", "!="):
        return False
    one, other = node.parts
    if one.form is Form.LITERAL:
        one, other = other, one
    return one.form is Form.ROOT and one.value == "authoritative" and other.form is Form.LITERAL and other.value is None
