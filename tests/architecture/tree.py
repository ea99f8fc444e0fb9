"""The project's own files, as the architecture tests see them."""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "readback"

# A test that sees fewer files than this has looked in the wrong place, and proves nothing.
SOURCE_FILES_MIN = 10


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed source file; `name` is its dotted name, `path` relative to the root of the project."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def nodes(self) -> tuple[ast.AST, ...]:
        """All of the tree, as `ast.walk` gives it."""
        return _nodes(self.tree)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in self.nodes():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


@cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Walked through once: it takes as long as to parse the file."""
    return tuple(ast.walk(tree))


@cache
def modules() -> tuple[Module, ...]:
    """Every Python file of the package, parsed once. They stay, so the collector need not look at them again."""
    found = []
    gc.disable()
    try:
        for path in sorted(SOURCE.rglob("*.py")):
            dotted = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
            text = path.read_text(encoding="utf-8")
            found.append(Module(dotted, str(path.relative_to(ROOT)), text, ast.parse(text, str(path))))
        gc.freeze()
    finally:
        gc.enable()
    assert len(found) >= SOURCE_FILES_MIN, f"only {len(found)} source files under {SOURCE}"
    return tuple(found)


@cache
def tracked() -> tuple[str, ...]:
    """Every file that is committed, or would be: tracked, and untracked but not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    files = tuple(name for name in listed if name and (ROOT / name).is_file())
    assert len(files) >= SOURCE_FILES_MIN
    return files
