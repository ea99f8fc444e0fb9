"""What in an expression another engine could answer otherwise: read off the tree, once, when it is compiled.

`engine` asks. The other engine is the one of the entries that name none: Google's cel-cpp, whose numbers were doubles
and integers of 64 bits, and whose timestamps were compared to the microsecond. Of an engine that is not known here, all
is open. What that engine took and this one does not have at all is refused when it is loaded; see `checker`.
"""

from __future__ import annotations

from typing import Final

from readback.adapters.cel.syntax.tree import Form, Node, walk
from readback.adapters.cel.values.kinds import NUMBER

UNNAMED: Final = ""
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
_ORDER: Final = frozenset({"<", "<=", ">", ">="})
_TIMES: Final = frozenset({"a timestamp", "a duration"})
_WHOLE: Final = frozenset({"size", "dec_cmp"})
_CONVERTING: Final = frozenset({"int", "double", "string", "uint", "type"})
_SMALL: Final = 2**53


def otherwise(node: Node) -> str:
    """The first construct whose answer was another under the engine that entries without a name were judged by."""
    return next(filter(None, map(_of, walk(node))), "")


def _of(node: Node) -> str:
    if node.form is Form.NEGATE:
        return "arithmetic, which is exact now"
    if node.form is Form.CALL:
        assert isinstance(node.value, tuple)
        name = str(node.value[0])
        return f"`{name}`, whose numbers are exact now" if name in _CONVERTING else ""
    if node.form is not Form.BINARY:
        return ""
    sign, kinds = str(node.value), {part.kind for part in node.parts}
    if kinds & _TIMES:
        return "times, which are exact to the nanosecond now"
    if all(map(_is_small, node.parts)) or not kinds & {NUMBER, None}:
        return ""
    if sign in _ARITHMETIC and node.kind in (NUMBER, None):
        return "arithmetic, which is exact now"
    return "the order of numbers, which is exact now" if sign in _ORDER and not any(map(_is_small, node.parts)) else ""


def _is_small(node: Node) -> bool:
    """A whole number that doubles and 64 bits keep, whatever the data holds."""
    if node.form is Form.CALL:
        assert isinstance(node.value, tuple)
        return node.value[0] in _WHOLE
    return node.form is Form.LITERAL and type(node.value) is int and abs(node.value) < _SMALL
