"""The reference page of contract files: its tables are the checker's.

After an intended change of the tables: `python -m tests.contract_files.test_page` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from readback.contracts.files.build import CONTRACT_KEYS
from readback.contracts.files.schema import _OWN, OPTIONS
from readback.contracts.files.vocabulary import EXECUTORS, SOURCES, Key, Shape
from tests.architecture.tree import ROOT

PAGE = Path(ROOT, "docs", "contract-files.md")
BEGIN, END = "<!-- tables: made by tests.contract_files.test_page -->", "<!-- end of tables -->"
SHAPES = {
    Shape.FIXED: "text or reference",
    Shape.WRITTEN: "text",
    Shape.NUMBER: "number or reference",
    Shape.SECRET: "reference",
    Shape.FLAG: "true or false",
    Shape.WORDS: "list of texts",
    Shape.CODES: "list of exit codes",
    Shape.ENVIRONMENT: "names with texts or references",
    Shape.TEXT: "template",
    Shape.TEXTS: "list of templates",
    Shape.NAMED: "names with templates",
    Shape.HEADERS: "names with templates or references",
    Shape.VALUE: "any value with templates",
    Shape.STATEMENT: "SQL with templates",
    Shape.ADDRESS: "path with templates",
    Shape.ARGV: "list of texts, or `{value: TEMPLATE, argument: data}`",
    Shape.INPUT: "text, or `{value: TEMPLATE, argument: data}`",
    Shape.ARGUMENTS: "names with values with templates",
    Shape.ABSENCE: "`error_matches`, or `at` and `is`",
}


def _key(key: Key) -> str:
    shape = ", ".join(f"`{word}`" for word in key.choices) or SHAPES[key.shape]
    need = "yes" if key.required else ""
    only = f" Only for `{'`, `'.join(key.uses)}`." if key.uses else ""
    return f"| `{key.name}` | {shape} | {need} | {key.said}{only} |"


def tables() -> Iterator[str]:
    yield "## The keys of a contract\n"
    yield "| key | says |\n|---|---|"
    every = {**OPTIONS, **_OWN}
    yield from (f"| `{name}` | {every[name][1]} |" for name in CONTRACT_KEYS)
    yield "\n## Sources\n"
    for source in SOURCES:
        level = f"{source.consistency.value} and {source.independence.value}"
        most = f"{source.at_most[0].value} and {source.at_most[1].value}"
        yield f"### `{source.name}`\n\n{source.said}"
        yield f"Used for {', '.join(source.uses)}; {level} where the file does not say, {most} at most.\n"
        yield "| key | takes | required | says |\n|---|---|---|---|"
        yield from map(_key, source.keys)
        yield ""
    yield "## Executors\n"
    for executor in EXECUTORS:
        yield f"### `execute: {{{executor.name}: ...}}`\n\n{executor.said}\n"
        yield "| key | takes | required | says |\n|---|---|---|---|"
        yield from map(_key, executor.keys)
        yield ""


def made() -> str:
    return "\n".join(tables()).rstrip() + "\n"


def test_the_tables_of_the_page_are_those_of_the_checker() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == made().strip()


if __name__ == "__main__":
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n{made()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
