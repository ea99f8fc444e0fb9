"""What the pages show happens as they show it: programs run, commands print what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, Session, blocks, sessions
from tests.docs.running import Reader, alike

NOT_RUN_MAX = 6
STARTED = ("README.md", "docs/coding-agents.md")
"""The pages whose programs and commands are started, as a reader starts them; those of the others are forked."""
SESSIONS = [session for page in PAGES for session in sessions(page)]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_a_page_does_what_it_shows(session: Session, tmp_path: Path) -> None:
    wrong = Reader(tmp_path, forked=session.page not in STARTED).follow(session)
    assert not wrong, "\n".join(wrong)


def test_the_pages_show_programs_and_few_of_them_are_not_run() -> None:
    shown = [block for page in PAGES for block in blocks(page) if block.language in ("python", "console")]
    left_out = [block for block in shown if "not run" in block.notes]
    assert len(shown) > 20, "the pages were not found, so nothing was proved"
    assert len(left_out) <= NOT_RUN_MAX, [f"{block.page}:{block.line}" for block in left_out]
    assert all(block.notes["not run"] for block in left_out), "each says why"


@pytest.mark.parametrize(
    ("shown", "came", "same"),
    [
        (["id 01m7y22twj4g2a8brstxtda3m3"], ["id   01m7y2atbx7nynbedq8ghv66w0"], True),
        (["state unknown"], ["state failed"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["a", "...", "c"], ["a", "b", "c"], True),
        (["a", "...", "c"], ["a", "b"], False),
        (["...", "c"], ["a", "c", "b"], False),
        (["b", "..."], ["a", "b"], False),
    ],
)
def test_only_what_varies_may_differ(shown: list[str], came: list[str], same: bool) -> None:
    assert alike(shown, came) is same
