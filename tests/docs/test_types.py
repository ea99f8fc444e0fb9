"""What the pages show passes mypy as strictly as the package does: a reader's editor has no complaint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Session, sessions
from tests.docs.running import TIMEOUT_SECONDS, program_of

SESSIONS = [
    session
    for page in PAGES
    for session in sessions(page)
    if any(block.language == "python" or block.notes.get("file", "").endswith(".py") for block in session.blocks)
]
TOGETHER = [session for session in SESSIONS if session.page.startswith("docs/how-to/")]
"""Short programs without files of their own: one run of mypy checks all of them."""


def _files(session: Session, name: str = "page.py") -> dict[str, str]:
    files = {block.notes["file"]: block.text for block in session.blocks if "file" in block.notes}
    program = [block for block in session.blocks if block.language == "python" and "file" not in block.notes]
    return {**files, name: program_of(program)} if program else files


def _check(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *(str(folder / name) for name in files if name.endswith(".py"))],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": f"{ROOT / 'src'}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        timeout=3 * TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("session", [one for one in SESSIONS if one not in TOGETHER], ids=lambda session: session.name)
def test_a_page_has_no_type_errors(session: Session, tmp_path: Path) -> None:
    _check(_files(session), tmp_path)


def test_the_guides_have_no_type_errors(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for session in TOGETHER:
        files |= _files(session, f"{Path(session.page).stem.replace('-', '_')}_page.py")
    _check(files, tmp_path)
