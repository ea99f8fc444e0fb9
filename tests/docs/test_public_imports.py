"""Documents, examples and their tests import public names only: what a reader copies keeps working."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, text_of

PUBLIC = (
    "readback",
    "readback.assurance.canary",
    "readback.cli",
    "readback.decisions",
    "readback.demo.systems",
    "readback.errors",
    "readback.kit",
    "readback.mcp",
    "readback.recipes",
    "readback.systems",
    "readback.telemetry",
)
PUBLIC_BELOW = ("readback.testing", "readback.frameworks")
"""Every module of these packages is public."""
_IMPORT = re.compile(r"^\s*(?:from|import) (readback[.\w]*)", re.MULTILINE)


def _imports(text: str) -> Iterator[str]:
    """Yield the modules of the package that a program or a page imports."""
    yield from (found[1] for found in _IMPORT.finditer(text))


def _below(module: str) -> bool:
    return f"{module}.".startswith(tuple(f"{each}." for each in PUBLIC_BELOW))


def _private(text: str) -> list[str]:
    return [each for each in _imports(text) if each not in PUBLIC and not _below(each)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_imports_public_names_only(page: str) -> None:
    assert _private(text_of(page)) == []


@pytest.mark.parametrize("folder", ["examples", "tests/docs"])
def test_examples_and_tests_of_documents_import_public_names_only(folder: str) -> None:
    files = sorted((ROOT / folder).glob("*.py"))
    assert len(files) > 3
    private = {path.name: found for path in files if (found := _private(path.read_text(encoding="utf-8")))}
    assert private == {}


@pytest.mark.parametrize("module", [*PUBLIC, *PUBLIC_BELOW])
def test_a_public_module_says_so(module: str) -> None:
    path = Path(*module.split("."))
    file = next(each for each in (ROOT / "src" / path / "__init__.py", ROOT / "src" / f"{path}.py") if each.exists())
    assert re.search(r"\b[Pp]ublic\b", ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")


def test_a_private_import_would_be_seen() -> None:
    assert _private(
        "from readback.engine.run import Run\nimport readback.testing.worlds\nfrom readback import action"
    ) == ["readback.engine.run"]
