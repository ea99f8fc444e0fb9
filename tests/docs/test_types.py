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


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_a_page_has_no_type_errors(session: Session, tmp_path: Path) -> None:
    files = {block.notes["file"]: block.text for block in session.blocks if "file" in block.notes}
    program = [block for block in session.blocks if block.language == "python" and "file" not in block.notes]
    if program:
        files["page.py"] = program_of(program)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *(str(tmp_path / name) for name in files if name.endswith(".py"))],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": f"{ROOT / 'src'}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=3 * TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
