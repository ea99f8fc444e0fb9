"""Markdown from values, and texts from sources. Called by reference.py and reference_domain.py; it knows no table."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from enum import Enum
from types import ModuleType
from typing import Final

from scripts.reference_words import WORDS

WIDTH: Final = 118


def anchor(title: str) -> str:
    """What a heading is linked by."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def prose(text: str) -> str:
    """A paragraph, filled."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, a line each row, with an empty line after it."""
    made = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    made += [f"| {' | '.join(_cell(each) for each in row)} |" for row in rows]
    return "\n".join(made) + "\n"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def words(values: Iterable[object]) -> str:
    """Words of a vocabulary, in their order."""
    return ", ".join(f"`{each}`" for each in values)


def yes(value: bool) -> str:
    """`yes`, or a dash."""
    return "yes" if value else "-"


def span(us: int) -> str:
    """A duration in its largest whole unit."""
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000)):
        if us >= size and us % size == 0:
            return f"{us // size} {unit}"
    return f"{us:,} us" if us else "0 s"


def first_sentence(thing: object) -> str:
    """Of a docstring."""
    said = " ".join((inspect.getdoc(thing) or "").split())
    found = re.match(r".*?[.](?=\s+[A-Z`]|$)", said)
    return (found[0] if found else said).strip()


def constants(module: ModuleType) -> dict[str, str]:
    """The names that a module assigns at its top, with the text that stands below each, in their order."""
    body = ast.parse(inspect.getsource(module)).body
    found: dict[str, str] = {}
    for statement, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        said = after.value if isinstance(after, ast.Expr) else None
        text = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
        found.update({each.id: " ".join(text.split()) for each in targets if isinstance(each, ast.Name)})
    return found


def meanings(name: str, listed: Iterable[str]) -> dict[str, str]:
    """The meanings of a vocabulary's words, in its own order. Exits where words and meanings differ."""
    there, known = list(listed), WORDS[name]
    if set(there) != set(known):
        raise SystemExit(f"scripts/reference_words.py differs from {name}: {sorted(set(there) ^ set(known))}")
    return {word: known[word] for word in there}


def vocabulary(kinds: type[Enum], head: str = "word") -> str:
    """A vocabulary with its meanings."""
    found = meanings(kinds.__name__, [str(each.value) for each in kinds])
    return table((head, "meaning"), [(f"`{word}`", meaning) for word, meaning in found.items()])
