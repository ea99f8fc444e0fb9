"""A YAML document as nodes with line and column: one document, no anchors, no tags, bounded in depth.

Used by the loaders of operators' files. Nothing is constructed: a loader reads the nodes and picks the known keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

DEPTH_MAX: Final = 16
NODES_MAX: Final = 100_000
_UNSEEN: Final = re.compile("[\x85\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""With these characters a line could hold a key that looks like a part of a comment in review."""
_PLAIN: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "bool", "int", "float", "null", "seq", "map"))


class YamlFault(Exception):
    """Why a text is no document, with line and column from 1. The loaders catch this error."""

    def __init__(self, line: int, column: int, said: str) -> None:
        super().__init__(said)
        self.line, self.column, self.said = line, column, said


class _Nodes(yaml.SafeLoader):  # type: ignore[misc]  # it comes without types
    """The safe composer, with limits against hostile files: no aliases, bounded depth, no own tags."""

    depth = nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _at(event.start_mark, "Anchors and aliases are not allowed. Write the value out.")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise _at(event.start_mark, f"Tags are not allowed: {tag}")
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise _at(event.start_mark, f"The file has more than {NODES_MAX} values.")
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise _at(event.start_mark, f"The file is nested more than {DEPTH_MAX} levels deep.")
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(event, yaml.ScalarEvent) and not _is_text(node.value):
            raise _at(event.start_mark, "The text has half a character (a surrogate). Write the whole character.")
        if node.tag not in _PLAIN:
            node.tag = "tag:yaml.org,2002:str"  # a date or a merge key is a text like any other
        return node


def composed(content: bytes) -> Any:
    """Return the root node of a document; None for an empty one. Raises YamlFault."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise YamlFault(line, column, "The text is not UTF-8.") from error
    unseen = _UNSEEN.search(text)
    if unseen is not None:
        said = 'There is a character that breaks a line or turns its order, which editors do not show; write it as "\\u'
        raise YamlFault(*_position(text, unseen.start()), f'{said}{ord(unseen[0]):04x}".')
    try:
        loader = _Nodes(text)
        try:
            return loader.get_single_node()
        except (RecursionError, ValueError) as error:  # such as the number of a character that there is none of
            raise _at(loader.get_mark(), f"The file is not valid YAML: {error}.") from error
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        raise YamlFault(*_position(text, error.position), "The file has a character forbidden in YAML.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _at(mark, f"The file is not valid YAML: {error.problem or error.context}.") from error


def pairs(node: Any) -> Iterator[tuple[Any, Any]]:
    """Return the keys and values of a mapping, in the order of the file."""
    yield from node.value


def _position(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _at(mark: Any, said: str) -> YamlFault:
    return YamlFault(mark.line + 1, mark.column + 1, said) if mark is not None else YamlFault(1, 1, said)
