"""Parse the tokens of an expression into the tree. Depth, loops and additions are bounded.

`engine` calls the parser. Names are resolved here: a root, a loop variable or the name of a type. Macros become loops
of the tree. Raises ExpressionError with the place and a correction.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from readback.adapters.cel.faults import refused
from readback.adapters.cel.syntax.lexer import Token, bounded, number, text, tokens
from readback.adapters.cel.syntax.tree import Form, Node
from readback.adapters.cel.syntax.words import FOREIGN, KEYWORDS, RESERVED, unknown
from readback.adapters.cel.values.kinds import TYPE_NAMES
from readback.canon.limits import (
    EXPRESSION_ADDITIONS_MAX,
    EXPRESSION_DEPTH_MAX_LEVELS,
    EXPRESSION_NESTED_LOOPS_MAX,
    EXPRESSION_TREE_MAX_LEVELS,
)
from readback.errors import ExpressionError
from readback.ports.predicates import ROOTS

LOOPS: Final = {"all": (2,), "exists": (2,), "exists_one": (2,), "existsOne": (2,), "map": (2, 3), "filter": (2,)}
"""The macros over a list, with their arguments."""
_COMPARING: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})
_ROOTS: Final = frozenset(ROOTS)


def parse(source: str) -> Node:
    """Return the tree of a text."""
    bounded(source)
    return _Parser(source).whole()


class _Parser:
    """One recursive descent through the tokens. Brackets limit the depth, and brackets are bounded."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.words = tokens(source)
        self.here = 0
        self.brackets = 0
        self.choices = 0
        self.additions = 0
        self.scope: list[str] = []

    def whole(self) -> Node:
        node = self._expression()
        if self._word.kind != "end":
            raise self._unexpected()
        return node

    # --- words ---

    @property
    def _word(self) -> Token:
        return self.words[self.here]

    def _is(self, *marks: str) -> bool:
        word = self.words[self.here]
        return word.kind == "mark" and word.text in marks

    def _take(self) -> Token:
        word = self.words[self.here]
        self.here += 1
        return word

    def _expect(self, mark: str) -> None:
        if not self._is(mark):
            raise self._unexpected(mark)
        self.here += 1

    def _unexpected(self, wanted: str = "") -> ExpressionError:
        word, before = self._word, self.words[self.here - 1] if self.here else None
        said = "the expression ends too soon" if word.kind == "end" else f"{word.text[:40]!r} is not expected here"
        if before is not None and before.kind == "name" and before.text in FOREIGN:
            said += f"; {FOREIGN[before.text]}"
        elif word.text in FOREIGN:
            said += f"; {FOREIGN[word.text]}"
        elif wanted:
            said += f"; there should be {wanted!r}"
        return refused("syntax", f"Syntax error: {said}.", self.source, word.at + 1)

    def _made(self, form: Form, at: int, value: object = None, parts: tuple[Node, ...] = (), raw: str = "") -> Node:
        node = Node(form, at, value, parts, raw)
        if node.depth > EXPRESSION_TREE_MAX_LEVELS:
            raise self._deep(at)
        return node

    def _deep(self, at: int) -> ExpressionError:
        return refused("limit", "The expression is nested too deeply.", self.source, at + 1)

    def _open(self, at: int) -> None:
        self.brackets += 1
        if self.brackets > EXPRESSION_DEPTH_MAX_LEVELS:
            raise self._deep(at)

    # --- operators, from the loosest ---

    def _expression(self) -> Node:
        first = self._either()
        if not self._is("?"):
            return first
        at = self._take().at
        self.choices += 1
        if self.choices > EXPRESSION_DEPTH_MAX_LEVELS:
            raise self._deep(at)
        then = self._either()
        self._expect(":")
        other = self._expression()
        self.choices -= 1
        return self._made(Form.CHOOSE, first.at, None, (first, then, other))

    def _either(self) -> Node:
        parts = [self._both()]
        while self._is("||"):
            self.here += 1
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else self._made(Form.OR, parts[0].at, None, tuple(parts))

    def _both(self) -> Node:
        parts = [self._relation()]
        while self._is("&&"):
            self.here += 1
            parts.append(self._relation())
        return parts[0] if len(parts) == 1 else self._made(Form.AND, parts[0].at, None, tuple(parts))

    def _relation(self) -> Node:
        left = self._sum()
        while (word := self._word).text in _COMPARING or (word.kind == "name" and word.text == "in"):
            self.here += 1
            left = self._made(Form.BINARY, word.at, word.text, (left, self._sum()))
        return left

    def _sum(self) -> Node:
        left = self._product()
        while self._is("+", "-"):
            word = self._take()
            if word.text == "+":
                self.additions += 1
            if self.additions > EXPRESSION_ADDITIONS_MAX:
                said = f"The expression adds more than {EXPRESSION_ADDITIONS_MAX} times."
                raise refused("limit", said, self.source, word.at + 1)
            left = self._made(Form.BINARY, word.at, word.text, (left, self._product()))
        return left

    def _product(self) -> Node:
        left = self._unary()
        while self._is("*", "/", "%"):
            word = self._take()
            left = self._made(Form.BINARY, word.at, word.text, (left, self._unary()))
        return left

    def _unary(self) -> Node:
        word = self._word
        if not self._is("!", "-"):
            return self._member()
        often = 0
        while self._is(word.text):
            self.here += 1
            often += 1
        inner = self._member()
        if word.text == "-" and inner.form is Form.LITERAL and type(inner.value) in (int, Decimal):
            assert isinstance(inner.value, (int, Decimal))
            below = inner.value.copy_negate() if isinstance(inner.value, Decimal) else -inner.value
            inner = Node(Form.LITERAL, word.at, below, (), f"-{inner.raw}")
            often -= 1
        if not often:
            return inner
        form = Form.NOT if word.text == "!" else Form.NEGATE
        node = self._made(form, word.at, None, (inner,))
        return node if often % 2 else self._made(form, word.at, None, (node,))

    # --- members ---

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._is("."):
                node = self._behind(node, self._take())
            elif self._is("["):
                word = self._take()
                self._open(word.at)
                if self._is("?"):
                    raise self._forbidden("Optional values are not part of this language; ask with `has(...)`.", word)
                key = self._expression()
                self._expect("]")
                self.brackets -= 1
                node = self._made(Form.INDEX, node.at, None, (node, key))
            elif self._is("{") and node.form is not Form.LITERAL:
                raise self._forbidden("Messages cannot be made here.", self._word)
            else:
                return node

    def _behind(self, node: Node, dot: Token) -> Node:
        """Parse the part after a dot: a field, a method, or a loop."""
        if self._is("?"):
            raise self._forbidden("Optional values are not part of this language; ask with `has(...)`.", dot)
        word = self._take()
        if word.kind == "quoted":
            return self._made(Form.SELECT, node.at, word.text[1:-1], (node,), word.text)
        if word.kind != "name" or word.text in KEYWORDS:
            self.here -= 1
            raise self._unexpected("the name of a field")
        if not self._is("("):
            return self._made(Form.SELECT, node.at, word.text, (node,), word.text)
        if word.text in LOOPS:
            return self._loop(node, word)
        return self._made(Form.CALL, word.at, (word.text, True), (node, *self._arguments()))

    def _arguments(self) -> tuple[Node, ...]:
        self._open(self._take().at)
        found: list[Node] = []
        while not self._is(")"):
            if found:
                self._expect(",")
            found.append(self._expression())
        self.here += 1
        self.brackets -= 1
        return tuple(found)

    def _loop(self, over: Node, name: Token) -> Node:
        self._open(self._take().at)
        if len(self.scope) >= EXPRESSION_NESTED_LOOPS_MAX:
            raise refused("limit", "Loops are nested too deeply.", self.source, name.at + 1)
        variable = self._take()
        if variable.kind != "name" or variable.text in KEYWORDS or not self._is(","):
            said = (
                f"Syntax error: `{name.text}` takes the name of a variable first, as in `{name.text}(each, each > 0)`."
            )
            raise refused("syntax", said, self.source, variable.at + 1)
        self._settled(variable)
        bodies: list[Node] = []
        self.scope.append(variable.text)
        while not self._is(")"):
            self._expect(",")
            bodies.append(self._expression())
        self.scope.pop()
        self.here += 1
        self.brackets -= 1
        if len(bodies) + 1 not in LOOPS[name.text]:
            raise refused(
                "syntax", f"Syntax error: `{name.text}` takes a variable and a body.", self.source, name.at + 1
            )
        called = "exists_one" if name.text == "existsOne" else name.text
        return self._made(Form.LOOP, name.at, (called, len(self.scope)), (over, *bodies))

    # --- the smallest ---

    def _primary(self) -> Node:
        word = self._take()
        if word.kind == "number":
            return self._made(Form.LITERAL, word.at, number(word, self.source), (), word.text)
        if word.kind == "text":
            return self._made(Form.LITERAL, word.at, text(word, self.source), (), word.text)
        if word.kind == "name":
            return self._named(word)
        if word.kind == "mark" and word.text == "(":
            self._open(word.at)
            node = self._expression()
            self._expect(")")
            self.brackets -= 1
            return node
        if word.kind == "mark" and word.text == "[":
            return self._made(Form.LIST, word.at, None, self._items(word, "]"))
        if word.kind == "mark" and word.text == "{":
            return self._made(Form.MAP, word.at, None, self._items(word, "}"))
        if word.kind == "mark" and word.text == "." and self._word.kind == "name":
            outer, self.scope = self.scope, [""] * len(self.scope)  # a leading dot names a root, also inside a loop
            try:
                return self._named(self._take())
            finally:
                self.scope = outer
        self.here -= 1
        raise self._unexpected()

    def _items(self, opened: Token, closing: str) -> tuple[Node, ...]:
        self._open(opened.at)
        found: list[Node] = []
        while not self._is(closing):
            if self._is("?"):
                raise self._forbidden("Optional values are not part of this language.", self._word)
            found.append(self._expression())
            if closing == "}":
                self._expect(":")
                found.append(self._expression())
            if not self._is(closing):
                self._expect(",")
        self.here += 1
        self.brackets -= 1
        return tuple(found)

    def _named(self, word: Token) -> Node:
        name = word.text
        if name in ("true", "false", "null"):
            value = None if name == "null" else name == "true"
            return self._made(Form.LITERAL, word.at, value, (), name)
        if name == "in":
            self.here -= 1
            raise self._unexpected()
        if self._is("("):
            return self._called(word)
        if name in self.scope:
            depth = len(self.scope) - 1 - self.scope[::-1].index(name)
            return self._made(Form.VARIABLE, word.at, depth, (), name)
        if name in _ROOTS:
            return self._made(Form.ROOT, word.at, name, (), name)
        if name in TYPE_NAMES:
            return self._made(Form.LITERAL, word.at, TYPE_NAMES[name], (), name)
        if name == "uint":
            raise self._forbidden("Whole numbers have one type here: write `int` and, if need be, `>= 0`.", word)
        self._settled(word)
        raise self._unknown(word)

    def _settled(self, word: Token) -> None:
        """Refuse reserved words as names."""
        if word.text in RESERVED:
            instead = f"; {FOREIGN[word.text]}" if word.text in FOREIGN else ""
            said = f"Syntax error: {word.text!r} is a reserved word{instead}."
            raise refused("syntax", said, self.source, word.at + 1)

    def _unknown(self, word: Token) -> ExpressionError:
        """Return the error with the whole dotted name, as for a package."""
        name, at = word.text, self.here
        while self.words[at].text == "." and self.words[at + 1].kind == "name" and self.words[at + 2].text != "(":
            name += f".{self.words[at + 1].text}"
            at += 2
        if self.words[at].text == "{":
            return self._forbidden("Messages cannot be made here.", self.words[at])
        if name.startswith("google."):
            return self._forbidden("There are no types of messages here; say what is wanted of the value itself.", word)
        return refused("unknown-name", unknown(name), self.source, word.at + 1)

    def _called(self, word: Token) -> Node:
        if word.text == "has":
            return self._has(word)
        self._settled(word)
        return self._made(Form.CALL, word.at, (word.text, False), self._arguments())

    def _has(self, word: Token) -> Node:
        arguments = self._arguments()
        if len(arguments) == 1 and arguments[0].form is Form.SELECT:
            asked = arguments[0]
            return self._made(Form.HAS, asked.at, asked.value, asked.parts, asked.raw)
        said = (
            "Syntax error: `has` takes a field, as in `has(authoritative.total)`; of an index ask `'name' in object`."
        )
        raise refused("syntax", said, self.source, word.at + 1)

    def _forbidden(self, reason: str, word: Token) -> ExpressionError:
        return refused("forbidden", reason, self.source, word.at + 1)
