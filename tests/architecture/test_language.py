"""The project writes plain English: few pronouns, short sentences, no banned word."""

from __future__ import annotations

from tests.architecture.language import (
    PRONOUNS_MAX_DOCUMENT,
    Measure,
    docstrings_of,
    measure,
    over_the_limit,
    prose_of,
    recorded,
)

SLACK = 0.5
"""A recorded figure further above the real one than this is out of date."""


def test_every_text_is_within_the_limits_or_no_worse_than_recorded() -> None:
    debt = recorded()
    worse = {}
    for name, found in over_the_limit().items():
        limit = debt.get(name)
        if limit is None or (
            found.pronouns > limit.pronouns or found.banned > limit.banned or found.sentence > limit.sentence
        ):
            worse[name] = (found, limit)
    assert worse == {}, "write plainer, or run `python -m tests.architecture.language --worst 20` to see where"


def test_a_recorded_figure_falls_with_the_text() -> None:
    over = over_the_limit()
    loose = {
        name: (over.get(name), limit)
        for name, limit in recorded().items()
        if name not in over or limit.pronouns - over[name].pronouns > SLACK or limit.banned - over[name].banned > 5
    }
    assert loose == {}, "run `python -m tests.architecture.language --write`"


def test_pronouns_and_banned_words_are_counted_outside_code() -> None:
    text = "The worker that sees it tells whoever asks. Use `that_which_is` for `it`."
    assert measure(text) == Measure(12, 16.7, 1, 6.0)
    assert measure(text).pronouns > PRONOUNS_MAX_DOCUMENT


def test_code_tables_and_headings_of_a_document_are_no_prose() -> None:
    document = "# What it is\n\nThe store commits.\n\n| that | which |\n\n```python\nit = that\n```\n"
    assert prose_of(document).split() == ["The", "store", "commits."]


def test_strings_after_attributes_are_docstrings() -> None:
    source = '"""Module."""\nLIMIT = 3\n"""Seconds."""\ndef f():\n    """Return."""\n    return "no docstring"\n'
    assert docstrings_of(source).split() == ["Module.", "Seconds.", "Return."]
