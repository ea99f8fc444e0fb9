"""A YAML document as nodes that know their line and column: one document, no anchors, no tags, bounded in depth.

Used by the loaders of operators' files. Nothing is constructed: a loader looks at the nodes and takes what it knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

DEPTH_MAX: Final = 16
_PLAIN: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "bool", "int", "float", "null", "seq", "map"))


class YamlFault(Exception):
    """Why a text is no document, and where: line and column count from 1. It never leaves the loaders."""

    def __init__(self, line: int, column: int, said: str) -> None:
        super().__init__(said)
        self.line, self.column, self.said = line, column, said


class _Nodes(yaml.SafeLoader):  # type: ignore[misc]  # it comes without types
    """The safe composer, without what one file could do to its reader: aliases, depth, tags of its own."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _at(event.start_mark, "Anchors and aliases have no place here; write it out.")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise _at(event.start_mark, f"Tags have no place here: {tag}")
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise _at(event.start_mark, f"It is nested over {DEPTH_MAX} deep.")
        node = super().compose_node(parent, index)
        self.depth -= 1
        if node.tag not in _PLAIN:
            node.tag = "tag:yaml.org,2002:str"  # a date or a merge key is a text like any other
        return node


def composed(content: bytes) -> Any:
    """The root node of a document; None where it is empty. Raises YamlFault."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise YamlFault(line, column, "The text is not UTF-8.") from error
    try:
        loader = _Nodes(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise YamlFault(line, column, "There is a character that YAML does not allow.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _at(mark, f"It is no YAML: {error.problem or error.context}.") from error


def pairs(node: Any) -> Iterator[tuple[Any, Any]]:
    """The keys and values of a mapping, in the order of the file."""
    yield from node.value


def _at(mark: Any, said: str) -> YamlFault:
    return YamlFault(mark.line + 1, mark.column + 1, said) if mark is not None else YamlFault(1, 1, said)
