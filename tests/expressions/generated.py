"""Expressions and values, generated: of types that mostly fit, of every operator, function and macro.

Numbers are small wholes and binary fractions, so that doubles keep them: what is exact here and rounded there has tests
of its own. Texts hold no NUL, at which the oracle cuts them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.expressions.oracle import Case

NAMES: Final = ("a", "b", "c", "list", "text", "flag", "at", "none")
TEXTS: Final = ("", "a", "b", "ab", "Ab", " a ", "é", "a.b", "10", "2.5", "true", "e\u0301", "😀", "xxab")
NUMBERS: Final = (0, 1, -1, 2, 3, 7, 10, 0.5, -1.5, 2.0, 2.25, 1e3, 2**53, -(2**40))
MOMENTS: Final = (
    "2024-01-01T00:00:00Z",
    "2024-02-29T23:59:59.5+01:00",
    "1969-12-31T23:00:00-00:30",
    "2024-01-01T01:00:00+01:00",
)
SPANS: Final = ("1s", "90m", "-1.5s", "1h30m", "250ms", "0s")
PATTERNS: Final = ("^a", "b$", "a|b", "[A-Z]", "x*", "a.b", "^$", "(a)(b)?")
_PARTS: Final = ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours",
    "getMinutes", "getSeconds", "getMilliseconds")  # fmt: skip


def cases(seed: int, expressions: int, bindings: int) -> list[Case]:
    """The same for the same seed."""
    random = Random(seed)
    return [(_Source(random).whole(), [values(random) for _ in range(bindings)]) for _ in range(expressions)]


def values(random: Random) -> dict[str, Any]:
    return {root: _object(random) for root in ("authoritative", "requested", "before") if random.random() < 0.9}


def _object(random: Random) -> Any:
    if random.random() < 0.05:
        return random.choice([None, 1, "a", [1]])
    found = {
        "a": random.choice(NUMBERS),
        "b": random.choice(NUMBERS),
        "c": _any(random, 2),
        "list": [
            _any(random, 1) if random.random() < 0.3 else random.choice(NUMBERS) for _ in range(random.randrange(4))
        ],
        "text": random.choice(TEXTS),
        "flag": random.random() < 0.5,
        "at": random.choice(MOMENTS),
        "none": None,
    }
    return {name: part for name, part in found.items() if random.random() < 0.92}


def _any(random: Random, depth: int) -> Any:
    kind = random.randrange(7 if depth else 5)
    if kind == 5:
        return [_any(random, depth - 1) for _ in range(random.randrange(3))]
    if kind == 6:
        return {name: _any(random, depth - 1) for name in NAMES[: random.randrange(3)]}
    return random.choice(
        [None, random.random() < 0.5, random.choice(NUMBERS), random.choice(TEXTS), random.choice(NUMBERS)]
    )


class _Source:
    """One expression, of a kind that is wanted; one in twenty parts is of another kind."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.variables: list[str] = []

    def whole(self) -> str:
        kind = self.random.choice(["boolean"] * 6 + ["number", "text", "list", "any"])
        return self.of(kind, self.random.choice([1, 2, 2, 3]))

    def pick(self, *ways: Callable[[], str]) -> str:
        return self.random.choice(ways)()

    def of(self, kind: str, depth: int) -> str:
        if self.random.random() < 0.04:
            kind = self.random.choice(["boolean", "number", "text", "list", "timestamp", "duration", "any"])
        make: Callable[[int], str] = getattr(self, kind)
        return make(depth)

    def path(self, *names: str) -> str:
        if self.variables and self.random.random() < 0.4:
            return self.random.choice(self.variables)
        root = self.random.choice(("authoritative", "requested", "before"))
        name = self.random.choice(names)
        if self.random.random() < 0.1:
            return f"{root}['{name}']"
        return f"{root}.{name}"

    def any(self, depth: int) -> str:
        kinds = ["boolean", "number", "text", "list"]
        if self.random.random() < 0.5:
            return self.path("c", *NAMES)
        return self.pick(lambda: self.of(self.random.choice(kinds), depth - 1) if depth > 0 else "null", lambda: "null")

    def boolean(self, depth: int) -> str:
        r = self.random
        if depth <= 0:
            return self.pick(lambda: r.choice(["true", "false"]), lambda: self.path("flag"), lambda: self.compared(0))
        under = depth - 1
        return self.pick(
            lambda: f"({self.of('boolean', under)} {r.choice(['&&', '||'])} {self.of('boolean', under)})",
            lambda: f"!({self.of('boolean', under)})",
            lambda: f"({self.of('boolean', under)} ? {self.of('boolean', under)} : {self.of('boolean', under)})",
            lambda: self.compared(under),
            lambda: self.compared(under),
            lambda: f"{self.of('any', under)} {r.choice(['==', '!='])} {self.of('any', under)}",
            lambda: f"{self.of('any', under)} in {self.of('list', under)}",
            lambda: f"'{r.choice(NAMES)}' in authoritative",
            lambda: f"has({r.choice(['authoritative', 'requested', 'authoritative.c'])}.{r.choice(NAMES)})",
            lambda: (
                f"{self.of('text', under)}.{r.choice(['startsWith', 'endsWith', 'contains'])}({self.of('text', under)})"
            ),
            lambda: f"{self.of('text', under)}.matches('{r.choice(PATTERNS)}')",
            lambda: self.loop(r.choice(["all", "exists", "exists_one"]), "boolean", under),
            lambda: f"{self.path('c', 'none')} == null",
            lambda: f"bool({self.of('text', under)})",
        )

    def compared(self, depth: int) -> str:
        kind = self.random.choice(["number", "number", "text", "timestamp", "duration", "boolean"])
        if kind == "boolean" and depth <= 0:
            kind = "number"
        sign = self.random.choice(["==", "!=", "<", "<=", ">", ">="])
        return f"({self.of(kind, depth)} {sign} {self.of(kind, depth)})"

    def number(self, depth: int) -> str:
        r = self.random
        if depth <= 0:
            return self.pick(lambda: self.literal(), lambda: self.path("a", "b"), lambda: self.path("a", "b"))
        under = depth - 1
        return self.pick(
            lambda: f"({self.of('number', under)} {r.choice('+-*/%')} {self.of('number', under)})",
            lambda: f"-({self.of('number', under)})",
            lambda: f"size({self.of(r.choice(['text', 'list']), under)})",
            lambda: f"{self.of('list', under)}.size()",
            lambda: f"{self.of('list', under)}[{r.choice(['0', '1', '5'])}]",
            lambda: f"int({self.of(r.choice(['number', 'text', 'timestamp']), under)})",
            lambda: f"double({self.of(r.choice(['number', 'text']), under)})",
            lambda: f"{self.of('timestamp', under)}.{r.choice(_PARTS)}({r.choice(['', chr(39) + '+02:00' + chr(39)])})",
            lambda: f"{self.of('duration', under)}.{r.choice(['getHours', 'getMinutes', 'getSeconds'])}()",
            lambda: f"({self.of('boolean', under)} ? {self.of('number', under)} : {self.of('number', under)})",
        )

    def literal(self) -> str:
        number = self.random.choice(NUMBERS)
        return repr(number) if number >= 0 else f"({number!r})"

    def text(self, depth: int) -> str:
        r = self.random
        if depth <= 0:
            return self.pick(lambda: repr(r.choice(TEXTS)), lambda: self.path("text"), lambda: self.path("text"))
        under = depth - 1
        return self.pick(
            lambda: f"({self.of('text', under)} + {self.of('text', under)})",
            lambda: f"{self.of('text', under)}.{r.choice(['lowerAscii', 'upperAscii', 'trim'])}()",
            lambda: f"string({self.of(r.choice(['text', 'boolean', 'duration', 'timestamp']), under)})",
            lambda: f"({self.of('boolean', under)} ? {self.of('text', under)} : {self.of('text', under)})",
        )

    def list(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(lambda: self.path("list"), lambda: "[]", lambda: "[1, 2, 3]", lambda: "['a', 'b']")
        under = depth - 1
        return self.pick(
            lambda: f"[{', '.join(self.of('number', under) for _ in range(self.random.randrange(3)))}]",
            lambda: f"({self.of('list', under)} + {self.of('list', under)})",
            lambda: self.loop("filter", "boolean", under),
            lambda: self.loop("map", self.random.choice(["number", "text", "any"]), under),
            lambda: self.path("list"),
        )

    def loop(self, name: str, kind: str, depth: int) -> str:
        over = self.of("list", min(depth, 1))
        if len(self.variables) >= 2:
            return "true" if kind == "boolean" and name != "filter" else over
        variable = "xy"[len(self.variables)]
        self.variables.append(variable)
        body = self.of(kind, depth)
        self.variables.pop()
        return f"{over}.{name}({variable}, {body})"

    def timestamp(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(
                lambda: f"timestamp('{self.random.choice(MOMENTS)}')", lambda: f"timestamp({self.path('at', 'text')})"
            )
        return f"({self.of('timestamp', 0)} {self.random.choice('+-')} {self.of('duration', 0)})"

    def duration(self, depth: int) -> str:
        if depth <= 0:
            return f"duration('{self.random.choice(SPANS)}')"
        return f"({self.of('timestamp', 0)} - {self.of('timestamp', 0)})"
