"""The project's pages taken apart: fenced blocks with the notes above them, headings, links, commands in the text.

A comment directly above a block says how it is to be taken: `<!-- file: NAME -->` writes it there, `<!-- not run:
REASON -->` leaves it alone, `<!-- new session -->` begins a fresh folder and program, `<!-- environment: FRAMEWORK -->`
leaves it to `make frameworks`, which runs it where the framework is installed. What stands in a comment `<!-- setup` is
run and not shown. This module runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md", *sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")
))  # fmt: skip

_FENCE = re.compile(r"^(`{3,})(\w*)\s*$")
_NOTE = re.compile(r"^<!-- (file|not run|new session|environment)(?:: (.*?))? -->$")
_HEADING = re.compile(r"^#{1,6} (.+)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is that of its first line of text, counted from 1."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str]


@dataclass(slots=True)
class Session:
    """The blocks that share one folder and one program."""

    page: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page}:{self.blocks[0].line}"


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Every fenced block and hidden set-up of a page, in order."""
    found: list[Block] = []
    notes: dict[str, str] = {}
    lines = text_of(page).splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        fence, note = _FENCE.match(line), _NOTE.match(line)
        if fence is not None or line == "<!-- setup":
            end, language = (fence[1], fence[2]) if fence is not None else ("-->", "python")
            last = lines.index(end, at + 1)
            found.append(Block(page, at + 2, language, "\n".join(lines[at + 1 : last]) + "\n", notes))
            notes, at = {}, last
        elif note is not None:
            notes = {**notes, note[1]: note[2] or ""}
        elif line.strip():
            assert not notes, f"{page}:{at}: a note that stands above no block"
        at += 1
    return tuple(found)


@cache
def sessions(page: str) -> tuple[Session, ...]:
    """The blocks of a page that are run or written, by session."""
    made: list[Session] = []
    for block in blocks(page):
        if "not run" in block.notes or "environment" in block.notes:
            continue
        if block.language not in ("python", "console") and "file" not in block.notes:
            continue
        if not made or "new session" in block.notes:
            made.append(Session(page))
        made[-1].blocks.append(block)
    return tuple(made)


def prose(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a page outside its blocks, with their numbers."""
    inside = ""
    for number, line in enumerate(text_of(page).splitlines(), 1):
        fence = _FENCE.match(line)
        if inside:
            inside = "" if line == inside else inside
        elif fence is not None:
            inside = fence[1]
        elif line == "<!-- setup":
            inside = "-->"
        else:
            yield number, line


def anchors(page: str) -> set[str]:
    """What the headings of a page can be linked by."""
    found: set[str] = set()
    for _, line in prose(page):
        heading = _HEADING.match(line)
        if heading is not None:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


def links(page: str) -> Iterator[tuple[int, str]]:
    """Every link target in the text."""
    for number, line in prose(page):
        for found in re.finditer(r"\]\(([^)\s]+)\)", line):
            yield number, found[1]
