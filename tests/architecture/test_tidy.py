"""The sources are tidy: one concept a file, short functions, no swallowed error, no filler, no note to self.

A share of the functions may be long; no function exceeds the hard limit. What a folder may hold is in `test_house`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.tree import ROOT, Module, modules, tracked

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_GOOD = 40
FUNCTIONS_OVER_GOOD_SHARE_MAX = 0.04

BANNED_NAMES = {
    "base",
    "common",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "shared",
    "util",
    "utils",
}
NOTE_TO_SELF = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

# At an outermost boundary every exception becomes a value; that line, and no other, says so with its reason.
# A handler elsewhere names what it catches, or raises again.
BOUNDARY = re.compile(r"#.*\btidy: boundary -- (?P<reason>\S.{15,})$")
BOUNDARIES_MAX = 25

# Words that a docstring may repeat from the name without saying anything more.
FILLER_WORDS = {
    "a", "an", "and", "the", "this", "that", "of", "for", "to", "is", "it", "its", "in", "on", "with", "from",
    "return", "returns", "get", "gets", "set", "sets", "class", "function", "method", "module", "object",
    "self", "given", "value", "represents", "implementation", "initialize", "initialise", "init", "instance",
}  # fmt: skip


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring and decorators: prose is not what makes it long."""
    first = function.body[0]
    prose = 0
    if ast.get_docstring(function) is not None:
        prose = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - prose


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    match handler.type:
        case None:
            return True
        case ast.Tuple(elts=names):
            caught = {name.id for name in names if isinstance(name, ast.Name)}
        case ast.Name(id=name):
            caught = {name}
        case _:
            return False
    return not caught.isdisjoint({"Exception", "BaseException"})


def _swallows(module: Module) -> Iterator[int]:
    for node in module.nodes():
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node):
            if not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
                yield node.lineno
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "suppress":
            if any(isinstance(arg, ast.Name) and arg.id in {"Exception", "BaseException"} for arg in node.args):
                yield node.lineno


def _words(text: str) -> set[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return {word.rstrip("s") for word in re.findall(r"[a-z]+", spaced.lower().replace("_", " "))}


def _fillers(module: Module) -> Iterator[str]:
    for node in module.nodes():
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node)
            if said is not None and not _words(said) - _words(node.name) - {w.rstrip("s") for w in FILLER_WORDS}:
                yield f"{module.path}:{node.lineno} {node.name}: {said!r}"


@pytest.mark.slow
def test_no_file_is_over_the_limit() -> None:
    assert {m.path: m.lines for m in modules() if m.lines > FILE_LINES_MAX} == {}


@pytest.mark.slow
def test_no_function_is_over_the_limit() -> None:
    over = {
        f"{m.path}:{f.lineno} {f.name}": _length(f)
        for m in modules()
        for f in m.functions()
        if _length(f) > FUNCTION_LINES_MAX
    }
    assert over == {}


@pytest.mark.slow
def test_few_functions_are_long() -> None:
    sizes = [(f"{m.path}:{f.lineno} {f.name}", _length(f)) for m in modules() for f in m.functions()]
    assert len(sizes) >= 50, "the walk saw too few functions to prove anything"
    long = {name: size for name, size in sizes if size > FUNCTION_LINES_GOOD}
    assert len(long) <= max(2, FUNCTIONS_OVER_GOOD_SHARE_MAX * len(sizes)), long


@pytest.mark.parametrize(
    ("code", "swallows"),
    [
        ("try: f()\nexcept Exception: pass", True),
        ("try: f()\nexcept: pass", True),
        ("try: f()\nexcept (KeyError, BaseException) as e: g(e)", True),
        ("with suppress(Exception): f()", True),
        ("with contextlib.suppress(Exception): f()", True),
        ("try: f()\nexcept Exception as e: raise G from e", False),
        ("try: f()\nexcept KeyError: pass", False),
        ("with suppress(OSError): f()", False),
    ],
)
def test_swallowing_is_recognised(code: str, swallows: bool) -> None:
    assert any(_swallows(Module("m", "m.py", code, ast.parse(code)))) is swallows


@pytest.mark.requirement("L31")
@pytest.mark.slow
def test_no_error_is_swallowed() -> None:
    guilty = [
        f"{m.path}:{line}"
        for m in modules()
        for line in _swallows(m)
        if not BOUNDARY.search(m.text.splitlines()[line - 1])
    ]
    assert guilty == []


@pytest.mark.slow
def test_boundaries_are_few_and_real() -> None:
    marked = {
        f"{m.path}:{n}" for m in modules() for n, line in enumerate(m.text.splitlines(), 1) if BOUNDARY.search(line)
    }
    swallowing = {f"{m.path}:{line}" for m in modules() for line in _swallows(m)}
    assert marked - swallowing == set(), "nothing is swallowed here any more: take the mark away"
    assert len(marked) <= BOUNDARIES_MAX, sorted(marked)


def test_every_module_says_what_it_is() -> None:
    assert [m.path for m in modules() if not ast.get_docstring(m.tree)] == []


@pytest.mark.slow
def test_no_docstring_only_restates_its_name() -> None:
    assert [filler for m in modules() for filler in _fillers(m)] == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    guilty = [m.path for m in modules() if BANNED_NAMES & set(m.name.removeprefix("readback.").split("."))]
    assert guilty == []


@pytest.mark.slow
def test_no_module_takes_anothers_private_names() -> None:
    guilty = [
        f"{m.path}:{node.lineno} {name.name}"
        for m in modules()
        for node in m.nodes()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("readback")
        for name in node.names
        if name.name.startswith("_") and not name.name.startswith("__")
    ]
    assert guilty == []


@pytest.mark.slow
def test_no_note_to_self_is_left() -> None:
    this = "tests/architecture/test_tidy.py"
    code = [name for name in tracked() if name.endswith((".py", ".sql", ".sh", ".toml", ".md")) and name != this]
    guilty = [name for name in code if NOTE_TO_SELF.search((ROOT / name).read_text(encoding="utf-8"))]
    assert guilty == []
