"""The text of a syntax tree: parsing the text again gives an equal tree.

Called by `mutants`, which changes trees and needs their text. Brackets are written wherever the parser needs them.
"""

from __future__ import annotations

from typing import Final

from readback.adapters.cel.syntax.tree import Form, Node

_CHOICE, _EITHER, _BOTH, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)
_STRENGTH: Final = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
"""How tightly an operator binds; a comparison, and `in`, bind like `_RELATION`."""


def text_of(node: Node) -> str:
    """Return the text of a tree."""
    return _Writing().text(node, _CHOICE)


class _Writing:
    """Writes one tree. `names`: the loop variables in use, from the outermost."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def text(self, node: Node, needed: int) -> str:
        """Return the text of a node, in brackets where the place binds more tightly than the node."""
        strength, written = self._written(node)
        return written if strength >= needed else f"({written})"

    def _written(self, node: Node) -> tuple[int, str]:
        match node.form:
            case Form.LITERAL:
                raw = node.raw
                while raw.startswith("--"):  # of `-(-1)` the parser makes the literal 1
                    raw = raw[2:]
                return (_UNARY if raw.startswith("-") else _MEMBER), raw
            case Form.ROOT:
                return _MEMBER, self._root(str(node.value))
            case Form.VARIABLE:
                return _MEMBER, self._names[int(str(node.value))]
            case Form.SELECT | Form.HAS | Form.INDEX | Form.CALL | Form.LOOP:
                return _MEMBER, self._member(node)
            case Form.LIST:
                return _MEMBER, f"[{', '.join(self.text(each, _CHOICE) for each in node.parts)}]"
            case Form.MAP:
                written = [self.text(each, _CHOICE) for each in node.parts]
                pairs = (f"{key}: {value}" for key, value in zip(written[::2], written[1::2], strict=True))
                return _MEMBER, f"{{{', '.join(pairs)}}}"
            case _:
                return self._operation(node)

    def _root(self, name: str) -> str:
        return f".{name}" if name in self._names else name

    def _operation(self, node: Node) -> tuple[int, str]:
        parts = node.parts
        match node.form:
            case Form.NOT | Form.NEGATE:
                sign = "!" if node.form is Form.NOT else "-"
                # The parser folds a sign into a number: of `--1` it makes the negation of -1, of `-(-1)` the number 1.
                negative = node.form is Form.NEGATE and parts[0].form is Form.LITERAL
                return _UNARY, f"{sign}{self.text(parts[0], _UNARY if negative else _MEMBER)}"
            case Form.AND:
                return _BOTH, " && ".join(self.text(each, _RELATION) for each in parts)
            case Form.OR:
                return _EITHER, " || ".join(self.text(each, _BOTH) for each in parts)
            case Form.CHOOSE:
                first, then, other = parts
                tail = self.text(other, _CHOICE)
                return _CHOICE, f"{self.text(first, _EITHER)} ? {self.text(then, _EITHER)} : {tail}"
            case _:
                sign = str(node.value)
                strength = _STRENGTH.get(sign, _RELATION)
                return strength, f"{self.text(parts[0], strength)} {sign} {self.text(parts[1], strength + 1)}"

    def _member(self, node: Node) -> str:
        parts = node.parts
        match node.form:
            case Form.SELECT:
                return f"{self.text(parts[0], _MEMBER)}.{node.raw or node.value}"
            case Form.HAS:
                return f"has({self.text(parts[0], _MEMBER)}.{node.raw or node.value})"
            case Form.INDEX:
                return f"{self.text(parts[0], _MEMBER)}[{self.text(parts[1], _CHOICE)}]"
            case Form.CALL:
                assert isinstance(node.value, tuple)
                name, method = str(node.value[0]), bool(node.value[1])
                given = ", ".join(self.text(each, _CHOICE) for each in parts[1 if method else 0 :])
                return f"{self.text(parts[0], _MEMBER)}.{name}({given})" if method else f"{name}({given})"
            case _:
                return self._loop(node)

    def _loop(self, node: Node) -> str:
        assert isinstance(node.value, tuple)
        over = self.text(node.parts[0], _MEMBER)
        name = f"each{len(self._names) or ''}"
        self._names.append(name)
        bodies = ", ".join(self.text(each, _CHOICE) for each in node.parts[1:])
        self._names.pop()
        return f"{over}.{node.value[0]}({name}, {bodies})"
