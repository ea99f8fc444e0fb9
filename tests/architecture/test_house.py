"""The house keeps its measures: small folders, no fragments, no import cycle.

A fragment is a module of fewer than 60 lines that one other module imports. A fragment belongs into its importer. Those
that are left stand in `fragments.txt`. The list may only shrink: a new fragment fails the test, and so does a
line that names none.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, Module, modules

FOLDER_FILES_MAX = 15
FRAGMENT_LINES_MAX = 59
FRAGMENTS = (Path(__file__).parent / "fragments.txt").read_text(encoding="utf-8").split()

# Lines of code of each adapter of a framework, without blank lines, comments and docstrings. A number may only shrink.
# What a second adapter needs too belongs into the kit, or into a module that both import.
ADAPTER_CODE_LINES = {
    "agent_framework": 158,
    "claude_agent": 175,
    "crewai": 96,
    "google_adk": 156,
    "langchain": 165,
    "llama_index": 131,
    "openai_agents": 175,
    "pydantic_ai": 136,
    "smolagents": 121,
    "strands": 118,
}

# Files, and lines of code, of the rooms that serve no action. A number may only shrink.
SIDE_ROOMS = {"demo": (24, 3014), "bench": (9, 839)}

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}

# An adapter keeps one promise of a port, however few lines that takes.
ADAPTERS = ("readback.adapters.", "readback.stores.", "readback.systems.")


@cache
def _imports() -> dict[str, set[str]]:
    """Which modules of the package each module imports, also inside functions."""
    known = {module.name for module in modules()}
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for node in module.nodes():
            if isinstance(node, ast.Import):
                found[module.name] |= {name.name for name in node.names} & known
            elif isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    found[module.name] |= {f"{node.module}.{name.name}"} & known or {node.module} & known
        found[module.name].discard(module.name)
    return found


def _is_table(module: Module) -> bool:
    """Whether a module holds data alone: names, texts and their types, and no function."""
    return not any(True for _ in module.functions()) and not any(isinstance(n, ast.ClassDef) for n in module.nodes())


def _named_in(module: Module) -> set[str]:
    """What else a module may import by a name in a string, as the command line does."""
    texts = (node.value for node in module.nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {text.partition(":")[0] for text in texts}


def _fragments() -> list[str]:
    importers = Counter(target for module in modules() for target in _imports()[module.name] | _named_in(module))
    return sorted(
        module.name
        for module in modules()
        if module.lines <= FRAGMENT_LINES_MAX
        and importers[module.name] == 1
        and not module.path.endswith("__init__.py")
        and not module.name.startswith(ADAPTERS)
        and not _is_table(module)
    )


def _code_lines(text: str) -> int:
    """Lines with code: blank lines, comments and texts that stand alone, such as docstrings, are left out."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return len(lines)


def test_an_adapter_of_a_framework_stays_small() -> None:
    drivers = {path.stem for path in (ROOT / "tests" / "frameworks" / "drivers").glob("[a-z]*.py")}
    sizes = {
        module.name.rpartition(".")[2]: _code_lines(module.text)
        for module in modules()
        if module.name.startswith("readback.frameworks.") and module.name.rpartition(".")[2] in drivers
    }
    assert sizes.keys() == drivers == ADAPTER_CODE_LINES.keys()
    assert {name: size for name, size in sizes.items() if size > ADAPTER_CODE_LINES[name]} == {}


def test_the_demo_and_the_benchmark_stay_small() -> None:
    for room, (files_max, lines_max) in SIDE_ROOMS.items():
        inside = [module for module in modules() if module.name.startswith(f"readback.{room}")]
        assert len(inside) <= files_max, room
        assert sum(_code_lines(module.text) for module in inside) <= lines_max, room


def test_lines_of_code_are_counted_without_prose() -> None:
    prose = '"""A text."""\n\n# A comment.\n'
    code = 'x = """two\nlines"""  # here\n\n\ndef f():\n    "Says it."\n    return (\n        1\n    )\n'
    assert _code_lines(prose + code) == 6


def test_no_folder_holds_too_many_files() -> None:
    sizes = Counter(str(Path(module.path).parent) for module in modules())
    assert {folder: size for folder, size in sizes.items() if size > FOLDER_FILES_MAX} == {}


@pytest.mark.slow
def test_no_module_is_a_fragment_but_the_listed_ones() -> None:
    assert _fragments() == sorted(FRAGMENTS)


@pytest.mark.slow
def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports for types alone count too: a cycle of concepts is one, whenever it is imported."""
    state: dict[str, int] = {}
    circle: list[str] = []

    def visit(name: str, way: list[str]) -> None:
        state[name] = 1
        for target in sorted(_imports().get(name, ())):
            if target == "readback":
                continue
            if state.get(target) == 1:
                circle.append(" -> ".join([*way[way.index(target) :], target] if target in way else [name, target]))
            elif target not in state:
                visit(target, [*way, target])
        state[name] = 2

    for module in modules():
        if module.name not in state and module.name != "readback":
            visit(module.name, [module.name])
    assert circle == []
