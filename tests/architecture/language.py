"""Measure the language of docstrings and documents.

    python -m tests.architecture.language              print every package and document
    python -m tests.architecture.language --worst 20   print the twenty worst files
    python -m tests.architecture.language --write      record today's figures of all that is over a limit

The limits are those of plain technical English, measured on well-kept projects. A package or document over a limit
stands in `language_debt.toml` with its figures. A figure there may only fall.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import ROOT, SOURCE, tracked

PRONOUNS_MAX_DOCSTRINGS = 4.0
"""Pronouns and relatives per 100 words in the docstrings of one package."""
PRONOUNS_MAX_DOCUMENT = 4.5
SENTENCE_MAX_DOCUMENT = 18.0
"""Mean words a sentence in one document."""
WORDS_MIN = 60
"""A package with fewer words in its docstrings has no meaningful rate."""
DEBT = Path(__file__).with_name("language_debt.toml")

PRONOUNS = frozenset(
    ("it", "its", "that", "which", "what", "who", "whom", "whose", "one", "they", "them", "their", "those", "these")
)
BANNED = re.compile(
    r"\b(?:whoever|whomever|whosoever|whatever|nobody|somebody|aloud|thereof|hither|(?:is|are) told|is taken for"
    r"|lets? lie|(?:of|for) which|comes to be|(?:goes|gone) on with|left away)\b",
    re.IGNORECASE,
)
_WORD = re.compile("[A-Za-z][A-Za-z'\u2019-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`\"'(])")
_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Measure:
    """The figures of one text.

    Attributes:
        words: Words of prose.
        pronouns: Pronouns and relatives per 100 words.
        banned: Banned words and phrases, counted.
        sentence: Mean words a sentence.
    """

    words: int
    pronouns: float
    banned: int
    sentence: float


def measure(text: str) -> Measure:
    """Measure prose. Code in backquotes counts as one word.

    >>> measure("The store commits the entry. It returns its position.").pronouns
    22.2
    """
    plain = re.sub(r"`[^`]*`", "X", text)
    words = _WORD.findall(plain)
    if not words:
        return Measure(0, 0.0, 0, 0.0)
    pronouns = sum(word.lower() in PRONOUNS for word in words)
    lengths = [
        length
        for block in re.split(r"\n\s*\n", plain)
        for sentence in _SENTENCE_END.split(block)
        if (length := len(_WORD.findall(sentence))) > 2
    ]
    mean = sum(lengths) / max(1, len(lengths))
    return Measure(len(words), round(100 * pronouns / len(words), 1), len(BANNED.findall(plain)), round(mean, 1))


def docstrings_of(source: str) -> str:
    """Return the docstrings of a module, and the strings that follow attributes."""
    found = []
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.append(value.value)
    return "\n\n".join(found)


def prose_of(document: str) -> str:
    """Return the prose of a Markdown document: no code, table, heading, comment or address of a link."""
    text = re.sub(r"<!--.*?-->", "", _FENCE.sub("", document), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#"))]
    return re.sub(r"\]\([^)]*\)", "]", "\n".join(lines))


def packages() -> Iterator[tuple[str, Measure]]:
    """Yield each folder of sources with the measure of its docstrings."""
    folders = sorted({path.parent for path in SOURCE.rglob("*.py")})
    for folder in folders:
        text = "\n\n".join(docstrings_of(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.py")))
        yield str(folder.relative_to(ROOT)), measure(text)


def documents() -> Iterator[tuple[str, Measure]]:
    """Yield each Markdown document of the project with the measure of its prose."""
    for name in tracked():
        if name.endswith(".md") and not name.startswith(("tests/", "src/")):
            yield name, measure(prose_of((ROOT / name).read_text(encoding="utf-8")))


def over_the_limit() -> dict[str, Measure]:
    """Return the packages and documents that are over a limit."""
    found = {}
    for name, each in packages():
        if each.words >= WORDS_MIN and (each.pronouns > PRONOUNS_MAX_DOCSTRINGS or each.banned):
            found[name] = each
    for name, each in documents():
        if each.pronouns > PRONOUNS_MAX_DOCUMENT or each.banned or each.sentence > SENTENCE_MAX_DOCUMENT:
            found[name] = each
    return found


def recorded() -> dict[str, Measure]:
    """Return the figures that `language_debt.toml` records."""
    if not DEBT.exists():
        return {}
    rows = tomllib.loads(DEBT.read_text(encoding="utf-8"))
    return {name: Measure(0, row["pronouns"], row["banned"], row["sentence"]) for name, row in rows.items()}


def write(found: dict[str, Measure]) -> None:
    """Record figures."""
    head = "# Packages and documents over a limit of language.py. A figure may only fall; a row goes when it is met.\n"
    rows = (
        f'"{name}" = {{ pronouns = {one.pronouns}, banned = {one.banned}, sentence = {one.sentence} }}\n'
        for name, one in sorted(found.items())
    )
    DEBT.write_text(head + "".join(rows), encoding="utf-8")


def _worst(count: int) -> Iterable[tuple[str, Measure]]:
    files = [(str(path.relative_to(ROOT)), docstrings_of(path.read_text("utf-8"))) for path in SOURCE.rglob("*.py")]
    measured = [(name, measure(text)) for name, text in files]
    return sorted((one for one in measured if one[1].words >= WORDS_MIN), key=lambda one: -one[1].pronouns)[:count]


def main() -> int:
    """Print or record the figures."""
    parser = argparse.ArgumentParser(prog="language", description="Measure docstrings and documents.")
    parser.add_argument("--worst", type=int, metavar="N", help="print the N worst files")
    parser.add_argument("--write", action="store_true", help="record the figures over a limit")
    asked = parser.parse_args()
    if asked.write:
        write(over_the_limit())
    rows = _worst(asked.worst) if asked.worst else [*packages(), *documents()]
    sys.stdout.write(f"{'words':>8}{'pronouns/100':>14}{'banned':>8}{'words/sentence':>16}  text\n")
    for name, each in rows:
        sys.stdout.write(f"{each.words:>8}{each.pronouns:>14}{each.banned:>8}{each.sentence:>16}  {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
