"""The pages agree with the program and with each other: commands, names, links, tables, the changelog."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module

import click
import pytest

import readback
from readback.cli import COMMANDS, group
from scripts import coverage_table, pictures, reference
from tests.docs.pages import PAGES, ROOT, anchors, blocks, links, prose, text_of

CONTRIBUTING_LINES_MAX = 60
_INLINE = re.compile(r"`(readback [^`]+)`")
_PLACEHOLDER = re.compile(r"[<\[{]|\b[A-Z]{2,}\b|\.\.\.")


def test_the_reference_is_the_one_that_the_tables_give() -> None:
    assert reference.run(["--check"]) == 0, "run: python scripts/reference.py --write"


def test_each_picture_is_the_present_one() -> None:
    drawn = pictures.drawn()
    kept = {name: (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8") for name in drawn}
    assert kept == drawn, "run: python scripts/pictures.py"


@pytest.mark.last
def test_the_coverage_table_is_the_present_one() -> None:
    command = ["--check", str(ROOT / "docs/coverage.md")]
    assert coverage_table.main(command) == 0, "run: python scripts/coverage_table.py --write docs/coverage.md"


def test_the_reference_has_each_promised_name() -> None:
    page = text_of("docs/reference/python.md")
    assert [name for name in readback.__all__ if f"| `{name}` |" not in page] == []


def test_the_changelog_has_an_entry_for_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    page = text_of("CHANGELOG.md")
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"no entry for {version}"
    sections = re.findall(r"^### (\w+)$", found[1], re.MULTILINE)
    order = ["Security", "Removed", "Deprecated", "Added", "Changed", "Fixed"]
    assert sections == [name for name in order if name in sections]
    assert len(re.findall(r"^- ", found[1], re.MULTILINE)) >= len(sections) > 0


def test_contributing_is_one_page() -> None:
    assert len(text_of("CONTRIBUTING.md").splitlines()) <= CONTRIBUTING_LINES_MAX


def test_each_decision_has_a_number_of_its_own_which_heads_it() -> None:
    records = sorted((ROOT / "docs/adr").glob("*.md"))
    numbers = [int(record.name[:4]) for record in records]
    assert len(set(numbers)) == len(numbers) > 0
    firsts = [record.read_text(encoding="utf-8").splitlines()[0] for record in records]
    assert [first for first, number in zip(firsts, numbers, strict=True) if not first.startswith(f"# {number}. ")] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    lost = []
    for number, target in links(page):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        if not found.exists():
            lost.append(f"{page}:{number}: {target}")
        elif anchor and anchor not in anchors(str(found.resolve().relative_to(ROOT))):
            lost.append(f"{page}:{number}: {target} has no such heading")
    assert not lost, lost


def _commands(page: str) -> Iterator[tuple[int, str]]:
    """Every `readback ...` that a page shows, in its text and in its blocks."""
    for number, line in prose(page):
        yield from ((number, found[1]) for found in _INLINE.finditer(line))
    for block in blocks(page):
        for number, line in enumerate(block.text.splitlines(), block.line):
            typed = line.removeprefix("$ ").removeprefix(".venv/bin/")
            if typed.startswith("readback ") and block.language in ("", "console", "bash", "sh"):
                yield number, typed


def _complaint(words: list[str]) -> str:
    """What is wrong with a command line; empty where nothing is."""
    if words[0].startswith("-"):
        return "" if words[0] in ("--help", "-h", "--version") else f"no option {words[0]}"
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    module, _, name = COMMANDS[words[0]][0].partition(":")
    command: click.Command = getattr(import_module(module), name)
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(click.Context(command), rest[0])
        if found is None:
            return f"no command {command.name} {rest[0]}"
        command, rest = found, rest[1:]
    rest = rest[: rest.index("--")] if "--" in rest else rest  # what follows is another program's
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known]
    return f"no option {unknown[0]} of {command.name}" if unknown else ""


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/reference")])
def test_every_command_that_is_shown_exists_with_its_options(page: str) -> None:
    wrong = []
    for number, line in _commands(page):
        try:
            words = shlex.split(line, comments=True)[1:]
        except ValueError:
            words = line.split()[1:]
        said = _complaint(words) if words else ""
        if said:
            wrong.append(f"{page}:{number}: {line}: {said}")
    assert not wrong, wrong


def test_a_wrong_command_line_would_be_seen() -> None:
    assert isinstance(group, click.Group)
    assert _complaint(["show", "ID", "--tenant", "acme"]) == ""
    assert _complaint(["ledger", "verify", "--head", "1:ab"]) == ""
    assert _complaint(["shew", "ID"]) == "no command shew"
    assert _complaint(["ledger", "mend"]) == "no command ledger mend"
    assert _complaint(["show", "ID", "--colour"]) == "no option --colour of show"


BANNED = re.compile(r"\.\./shared|issue \d|https?://(?!127\.0\.0\.1|keepachangelog\.com|semver\.org)", re.IGNORECASE)


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_what_a_reader_does_not_have(page: str) -> None:
    found = [f"{page}:{n}: {line}" for n, line in enumerate(text_of(page).splitlines(), 1) if BANNED.search(line)]
    assert not found, found
