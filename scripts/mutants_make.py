"""Makes mutants: small changes to one module's source, each a fault that a test has to notice.

Called by `mutants.py` alone; it runs nothing. A mutant is a text edit, so that its diff reads as the source
does. Its id holds no line number: what is listed in `mutants_known.toml` stays listed while lines move.

Changed are conditions (a guard removed, always taken, a comparison flipped, an operand dropped, `not`
removed), constants (numbers, booleans, codes), members of vocabularies, rows and elements of tables,
returned values, statements (a `raise` or a call left out), keyword arguments and arithmetic. Not changed:
what is said to people, annotations, decorators, and what closes a `match`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

Vocabularies = Mapping[str, tuple[str, ...]]
"""Name of an enumeration -> its members in order."""

_FLIPS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_SUMS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_TWINS = {"any": "all", "all": "any", "min": "max", "max": "min"}
_TOLD = frozenset({"detail", "error", "remedy", "message", "rationale"})
"""Names whose text is for people: no decision hangs on it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit. `scope` is the outermost function around it, or empty where the module's import runs it."""

    module: str
    scope: str
    start: int
    end: int
    text: bytes
    id: str

    def apply(self, source: bytes) -> bytes:
        """The module's source with this one change."""
        return source[: self.start] + self.text + source[self.end :]


@dataclass(frozen=True, slots=True)
class _Place:
    scope: str = ""
    named: str = ""
    in_function: bool = False


class _Maker:
    def __init__(self, module: str, source: bytes, vocabularies: Vocabularies) -> None:
        self.module, self.source = module, source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.tree = ast.parse(source)
        self.vocabularies = {**vocabularies, **dict(_aliases(self.tree, vocabularies))}
        self.made: dict[tuple[int, int, bytes], Mutant] = {}
        self.seen: dict[str, int] = {}

    # --- places in the text ---

    def start(self, node: ast.AST) -> int:
        return self.lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined,no-any-return]

    def end(self, node: ast.AST) -> int:
        return self.lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined,no-any-return]

    def add(self, place: _Place, start: int, end: int, text: str) -> None:
        new = text.encode()
        key = (start, end, new)
        if key in self.made or self.source[start:end] == new:
            return
        name = f"{self.module}.{place.named}" if place.named else self.module
        line = self.source[self.source.rfind(b"\n", 0, start) + 1 :].split(b"\n", 1)[0].decode().strip()
        said = f"{name}: {_brief(self.source[start:end].decode())} => {_brief(text) or 'nothing'} | {_brief(line)}"
        self.seen[said] = self.seen.get(said, 0) + 1
        ident = said if self.seen[said] == 1 else f"{said} #{self.seen[said]}"
        self.made[key] = Mutant(self.module, place.scope, start, end, new, ident)

    def swap(self, place: _Place, node: ast.AST, text: str) -> None:
        self.add(place, self.start(node), self.end(node), text)

    def swap_between(self, place: _Place, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """The operator between two operands; its words may stand on two lines."""
        start, end = self.end(left), self.start(right)
        found = re.search(re.escape(old).replace(r"\ ", r"\s+"), self.source[start:end].decode())
        if found:
            self.add(place, start + found.start(), start + found.end(), new)

    # --- the walk ---

    def walk(self, node: ast.AST, place: _Place) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, place)
            case ast.ClassDef():
                inner = replace(place, named=_join(place.named, node.name))
                for statement in _without_docstring(node.body):
                    self.walk(statement, inner)
            case ast.AnnAssign():
                if node.value is not None and _target(node.target) not in _TOLD:
                    self.walk(node.value, replace(place, named=place.named or _target(node.target)))
            case ast.Assign():
                named = _target(node.targets[0]) if not place.in_function else ""
                self.walk(node.value, replace(place, named=_join(place.named, named)))
            case ast.Subscript() if not place.in_function:  # what a type is made of
                self.walk(node.value, place)
            case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
                return
            case ast.If() if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                return
            case ast.Call(func=ast.Name(id="TypeVar")) | ast.keyword(arg="strict"):  # the second asserts, in `zip`
                return
            case ast.Call(func=ast.Name(id="cast"), args=[_, value]):  # the first names a type
                self.walk(value, place)
            case _:
                self._edit(node, place)
                for child in ast.iter_child_nodes(node):
                    self.walk(child, place)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place) -> None:
        named = _join(place.named, node.name)
        takes = node.args
        positional = [*takes.posonlyargs, *takes.args]
        defaults = [*zip(reversed(positional), reversed(takes.defaults), strict=False)]
        for argument, default in (*defaults, *zip(takes.kwonlyargs, takes.kw_defaults, strict=True)):
            # Evaluated where the function stands: at import, unless it stands in a function.
            if default is not None and argument.arg not in _TOLD:
                self.walk(default, replace(place, named=named))
        scope = place.scope if place.in_function else named
        for statement in _without_docstring(node.body):
            self.walk(statement, _Place(scope, named, in_function=True))

    # --- the edits ---

    def _edit(self, node: ast.AST, place: _Place) -> None:
        match node:
            case ast.If() | ast.IfExp():
                self.swap(place, node.test, "False")
                self.swap(place, node.test, "True")
            case ast.comprehension():
                for test in node.ifs:
                    self.swap(place, test, "True")
            case ast.match_case() if node.guard is not None:
                self.swap(place, node.guard, "True")
                self.swap(place, node.guard, "False")
            case ast.Compare():
                for left, operator, right in zip(
                    [node.left, *node.comparators], node.ops, node.comparators, strict=False
                ):
                    old, others = _FLIPS[type(operator)]
                    for new in others:
                        self.swap_between(place, left, right, old, new)
            case ast.BoolOp():
                self._bool(node, place)
            case ast.UnaryOp(op=ast.Not()):
                self.swap(place, node, f"({ast.unparse(node.operand)})")
            case ast.BinOp() | ast.AugAssign():
                self._sum(node, place)
            case ast.Constant():
                self._constant(node, place)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in self.vocabularies.get(name, ()):
                members = self.vocabularies[name]
                following = members[(members.index(attr) + 1) % len(members)]
                self.swap(place, node, f"{name}.{following}")
            case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
                self.swap(place, value, "None")
            case ast.Raise():
                self.swap(place, node, "pass")
            case ast.Expr(value=ast.Call(func=called)) if ast.unparse(called) != "assert_never":
                self.swap(place, node, "pass")
            case ast.Continue():
                self.swap(place, node, "break")
            case ast.Break():
                self.swap(place, node, "continue")
            case ast.Call():
                self._call(node, place)
            case ast.Set() | ast.List() | ast.Tuple():
                self._elements(node, node.elts, place)
            case ast.Dict():
                self._entries(node, place)

    def _bool(self, node: ast.BoolOp, place: _Place) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.swap_between(place, left, right, old, new)
        for index in range(len(node.values)):
            rest = [value for place_, value in enumerate(node.values) if place_ != index]
            self.swap(place, node, f"({f' {old} '.join(_operand(value) for value in rest)})")

    def _sum(self, node: ast.BinOp | ast.AugAssign, place: _Place) -> None:
        pair = _SUMS.get(type(node.op))
        if pair is None or not place.in_function:  # at module level `|` is a type's
            return
        if isinstance(node, ast.AugAssign):
            self.swap_between(place, node.target, node.value, f"{pair[0]}=", f"{pair[1]}=")
        else:
            self.swap_between(place, node.left, node.right, *pair)

    def _constant(self, node: ast.Constant, place: _Place) -> None:
        match node.value:
            case bool():
                self.swap(place, node, str(not node.value))
            case int():
                self.swap(place, node, str(node.value + 1))
            case str() if not re.search(r"\s", node.value):  # a code; what has spaces is said to people
                self.swap(place, node, repr(f"{node.value}~"))
            case bytes():
                self.swap(place, node, repr(node.value + b"~"))

    def _call(self, node: ast.Call, place: _Place) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _TWINS:
            self.swap(place, node.func, _TWINS[node.func.id])
        everything: list[ast.AST] = sorted([*node.args, *node.keywords], key=self.start)
        for keyword in node.keywords:
            changed_anyhow = isinstance(keyword.value, ast.Constant | ast.Attribute)
            if keyword.arg is not None and keyword.arg not in _TOLD and not changed_anyhow:
                self._drop(everything, everything.index(keyword), place)

    def _elements(self, node: ast.Set | ast.List | ast.Tuple, elements: list[ast.expr], place: _Place) -> None:
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or not elements:
            return
        if isinstance(node, ast.Set | ast.Tuple) and len(elements) <= 2:
            names = ("set()", "{{{}}}") if isinstance(node, ast.Set) else ("()", "({},)")
            for index in range(len(elements)):
                rest = [ast.unparse(one) for place_, one in enumerate(elements) if place_ != index]
                self.swap(place, node, names[1].format(rest[0]) if rest else names[0])
            return
        for index in range(len(elements)):
            self._drop(list(elements), index, place)

    def _entries(self, node: ast.Dict, place: _Place) -> None:
        pairs = [(key or value, value) for key, value in zip(node.keys, node.values, strict=True)]
        for index, (key, value) in enumerate(pairs):
            if node.keys[index] is None:
                continue
            if index + 1 < len(pairs) and node.keys[index + 1] is not None:
                self.add(place, self.start(key), self.start(pairs[index + 1][0]), "")
            elif index + 1 == len(pairs):
                self.add(place, self.end(pairs[index - 1][1]) if index else self.start(key), self.end(value), "")

    def _drop(self, elements: list[ast.AST], index: int, place: _Place) -> None:
        if index + 1 < len(elements):
            self.add(place, self.start(elements[index]), self.start(elements[index + 1]), "")
        else:
            begin = self.end(elements[index - 1]) if index else self.start(elements[index])
            self.add(place, begin, self.end(elements[index]), "")


def vocabularies_of(sources: Mapping[str, bytes]) -> Vocabularies:
    """Every enumeration that these modules define."""
    found: dict[str, tuple[str, ...]] = {}
    for source in sources.values():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(one) for one in node.bases):
                members = [_target(one.targets[0]) for one in node.body if isinstance(one, ast.Assign)]
                if len(members) > 1:
                    found[node.name] = tuple(members)
    return found


def mutants_of(module: str, source: bytes, vocabularies: Vocabularies) -> list[Mutant]:
    """Every mutant of a module, in the order of its text; a few are no programs, which `is_program` tells."""
    maker = _Maker(module, source, vocabularies)
    for statement in _without_docstring(maker.tree.body):
        if _target(getattr(statement, "targets", [None])[0]) != "__all__":
            maker.walk(statement, _Place())
    return sorted(maker.made.values(), key=lambda one: (one.start, one.end, one.text))


def is_program(source: bytes) -> bool:
    """Whether an edit left something that can be run."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _aliases(tree: ast.Module, vocabularies: Vocabularies) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Short names that a module gives to vocabularies: `_S = State`, `_E, _V = Execution, Verification`."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        left, right = node.targets[0], node.value
        if isinstance(left, ast.Tuple) and isinstance(right, ast.Tuple):
            pairs = list(zip(left.elts, right.elts, strict=False))
        else:
            pairs = [(left, right)]
        for name, value in pairs:
            if isinstance(name, ast.Name) and isinstance(value, ast.Name) and value.id in vocabularies:
                yield name.id, vocabularies[value.id]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Neither the docstring nor the strings that stand under what they describe."""
    return [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr) else text


def _target(node: ast.AST | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _join(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer and inner else outer or inner


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:70]} ... {line[-25:]}"
