"""Runs the blocks of a page as a reader would: files are written, programs run, console commands typed.

A program is a file in which each block stands at its own line of the page, so that an error names the page's line.
What a console prints is held against what the page shows; ids, times, hashes and durations may differ, nothing else,
and a line `...` stands for any number of lines. `python -m tests.docs.running PAGE` writes what is really printed into
the page.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import ROOT, Block, Session, sessions, text_of
from tests.workers import forks

TIMEOUT_SECONDS = 120
COLUMNS = "100"
_ID = re.compile(r"\b[0-9a-hjkmnp-tv-z]{26}\b")
_VARYING = (
    (re.compile(r"\brb-[0-9a-z]+\b"), "<mark>"),
    (_ID, "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "<day>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?Z?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "<hash>"),
    (re.compile(r"\+?\b\d+(\.\d+)? (us|ms|s|min)\b"), "<span>"),
)


PROJECT = "/srv/project"
"""Where a reader is, as the pages have it."""


def environment(folder: Path, *, forked: bool = False) -> dict[str, str]:
    """Only what a reader's shell needs: no settings from outside, this environment's programs first. `forked`: such as
    have themselves forked from a Python that has everything loaded.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("READBACK_", "PYTHON"))}
    home = folder / ".home"
    home.mkdir(exist_ok=True)
    programs = [*([forks.programs()] if forked else []), str(Path(sys.executable).parent), kept.get("PATH", "")]
    return {**kept, "PATH": os.pathsep.join(programs), "HOME": str(home), "XDG_CONFIG_HOME": str(home),
            "COLUMNS": COLUMNS, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}  # fmt: skip


@dataclass(slots=True)
class Reader:
    """Somebody who follows a page in a folder of his own."""

    folder: Path
    forked: bool = False
    """Whether what runs is forked from a Python that has everything loaded, instead of started."""
    ids: dict[str, str] = field(default_factory=dict)
    """The page's ids, by ours."""
    exported: dict[str, str] = field(default_factory=dict)
    last_exit: int = 0
    typed: dict[int, str] = field(default_factory=dict)
    """What was really printed by each console block, as the page would show it, by the block's line."""

    def follow(self, session: Session) -> list[str]:
        """Runs everything; returns what went otherwise than the page says."""
        wrong: list[str] = []
        program: list[Block] = []
        for block in session.blocks:
            if "file" in block.notes:
                path = self.folder / block.notes["file"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                program.append(block)
            else:
                wrong += self._type(block)
        return wrong + (self._run(program) if program else [])

    def _run(self, program: list[Block]) -> list[str]:
        path = self.folder / (program[0].page.replace("/", "_").removesuffix(".md") + "_page.py")
        path.write_text(program_of(program), encoding="utf-8")
        done = self._shell([sys.executable, "-W", "error::RuntimeWarning", str(path)])
        return (
            [] if done.returncode == 0 else [f"{program[0].page}: exit {done.returncode}\n{done.stdout}{done.stderr}"]
        )

    def _shell(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return forks.run(
            command,
            forked=self.forked,
            cwd=self.folder,
            env={**environment(self.folder, forked=self.forked), **self.exported},
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
        )

    def _type(self, block: Block) -> list[str]:
        """Types each command of a console block, and compares what comes with what the page shows."""
        wrong: list[str] = []
        printed: list[str] = []
        for command, shown in _commands(block):
            came = self._answer(command)
            printed += [f"$ {command}", *came]
            self._learn(shown, came)
            if not alike(shown, came):
                wrong.append(
                    f"{block.page}:{block.line}: $ {command}\n--- shown\n{_lines(shown)}--- came\n{_lines(came)}"
                )
        typed = "\n".join(printed) + "\n"
        for ours, real in self.ids.items():
            typed = typed.replace(real, ours)
        self.typed[block.line] = typed
        return wrong

    def _answer(self, command: str) -> list[str]:
        if command == "echo $?":
            return [str(self.last_exit)]
        if command.startswith("export "):
            self.exported |= dict(word.split("=", 1) for word in shlex.split(command)[1:])
            return []
        for ours, real in self.ids.items():
            command = command.replace(ours, real)
        done = self._shell(["bash", "-c", command])
        self.last_exit = done.returncode
        came = (done.stdout + done.stderr).replace(str(self.folder), PROJECT).splitlines()
        return [line.rstrip() for line in came]

    def _learn(self, shown: list[str], came: list[str]) -> None:
        """Which of our ids stands for which of the page's, in the order of their appearance."""
        ours, real = _ID.findall("\n".join(shown)), _ID.findall("\n".join(came))
        for page_id, real_id in zip(dict.fromkeys(ours), dict.fromkeys(real), strict=False):
            self.ids.setdefault(page_id, real_id)


def program_of(blocks: list[Block]) -> str:
    """The blocks as one program, each at its own line of the page."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def _commands(block: Block) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in block.text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"{block.page}:{block.line}: a console block begins with a command"
            found[-1][1].append(line)
    return found


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def plain(line: str) -> str:
    """A line without what differs from run to run, and without the widths that follow from that."""
    for pattern, word in _VARYING:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def alike(shown: list[str], came: list[str]) -> bool:
    """Whether the lines are the same but for what varies. A shown `...` stands for any lines."""
    wanted, found = [plain(line) for line in shown], [plain(line) for line in came]
    parts: list[list[str]] = [[]]
    for line in wanted:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return wanted == found
    at = 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        starts = range(at, len(found) - len(part) + 1)
        if number == 0:
            starts = range(1)
        elif last:
            starts = range(max(at, len(found) - len(part)), len(found) - len(part) + 1)
        place = next((start for start in starts if found[start : start + len(part)] == part), None)
        if place is None:
            return False
        at = place + len(part)
    return True


def rewrite(page: str, folder: Path) -> str:
    """The page with what its consoles really print. A block that leaves lines out (`...`) is kept while it fits."""
    lines = text_of(page).splitlines()
    for number, session in reversed(list(enumerate(sessions(page)))):
        own = folder / str(number)
        own.mkdir()
        reader = Reader(own)
        wrong = reader.follow(session)
        for block in reversed([block for block in session.blocks if block.line in reader.typed]):
            fits = not any(said.startswith(f"{page}:{block.line}:") for said in wrong)
            if not fits or "\n...\n" not in block.text:
                last = block.line - 1 + block.text.count("\n")
                lines[block.line - 1 : last] = reader.typed[block.line].splitlines()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            (ROOT / name).write_text(rewrite(name, Path(place)), encoding="utf-8")
