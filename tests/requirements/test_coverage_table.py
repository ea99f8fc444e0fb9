"""The coverage table counts what the manifest asks for and what the tests claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.coverage_table import BEGIN, END, main, render
from tests.requirements.manifest import read_manifest

DATA = """
spec = "s"
[[table]]
name = "A"
area = "Area"
section = "Section"
[table.required]
A-1 = "One."
A-2 = "Two."
[table.deferred]
A-3 = { sentence = "Three.", reason = "absent" }
"""


def test_a_row_counts_required_tested_and_deferred(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(DATA, encoding="utf-8")
    block = render(read_manifest(tmp_path), frozenset({"A-1", "A-3"}))
    assert "| Area | s | 2 | 1 | 1 |" in block.splitlines()


def test_a_written_table_passes_the_check_and_a_changed_one_fails_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    assert main(["--check", str(page)]) == 1
    assert main(["--write", str(page)]) == 0
    assert main(["--check", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n| Area |")
    assert text.endswith(f"|\n{END}\nafter\n")


@pytest.mark.parametrize("text", ["nothing here", f"{END} {BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_a_place_for_the_table_is_left_alone(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert main(["--write", str(page)]) == 2
    assert page.read_text(encoding="utf-8") == text
