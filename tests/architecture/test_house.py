"""The house keeps its measures: small folders, no fragments, no import cycle.

A fragment is a module of fewer than 60 lines that one other module imports. A fragment belongs into its importer. Those
that are left stand in `fragments.txt`. The list may only shrink: a new fragment fails the test, and so does a
line that names none.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.tree import Module, modules

FOLDER_FILES_MAX = 15
FRAGMENT_LINES_MAX = 59
FRAGMENTS = (Path(__file__).parent / "fragments.txt").read_text(encoding="utf-8").split()

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
