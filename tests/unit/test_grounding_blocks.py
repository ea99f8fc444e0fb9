"""How a report falls into blocks, form by form: what each is taken for, and where each stands."""

from __future__ import annotations

import pytest

from readback.domain.grounding.layout import blocks_of


def shown(text: str) -> str:
    """A word a block: its line, then D where it is declared, O where it is open, T where it is a title."""
    words = []
    for block in blocks_of(text):
        marks = ("D" if block.declared else "") + ("O" if block.open else "") + ("T" if block.title else "")
        words.append(f"{block.line}{marks}")
    return " ".join(words)


def said(text: str) -> list[str]:
    """What each block says, in the words of the text."""
    return ["".join(text[begin:end] for begin, end in block.pieces) for block in blocks_of(text)]


FORMS: dict[str, tuple[str, str]] = {
    # sections by headings of both forms
    "a section holds to the next heading of its level": ("# Done\na\n\nb\n# Else\nc\n", "2D 4D 5 6"),
    "a heading below is a block of it": ("# Done\n## More\na\n# Else\nc\n", "2D 3D 4 5"),
    "an open section below a done one": ("# Done\na\n## Open\nb\n", "2D 4O"),
    "a done section below an open one": ("# Open\na\n## Done\nb\n## Else\nc\n", "2O 4D 5O 6O"),
    "an underlined heading": ("Done\n----\na\n\nElse\n====\nb\n", "3D 5 7"),
    "an underline of one sign": ("Else\n=\na\n", "1 3"),
    "also of a label": ("Done:\n-\na\n\n# Else\nb\n", "3D 5 6"),
    "Open, underlined, with a level below": ("Open\n====\na\n\nElse\n----\nb\n", "3O 5O 7O"),
    "a label that is an item is not underlined": ("- Done\n----\na\n\n###### Else\nb\n", "3D 5 6"),
    "nor one in a quote": ("> Done\n----\na\n\n###### Else\nb\n", "3D 5 6"),
    "nor one whose underline is words": ("Done\n--- a\nb\n\n###### Else\nc\n", "2D 5 6"),
    "one with a level below, and a paragraph between": ("Done\n----\n\na\n\n### Else\nb\n", "4D 6D 7D"),
    "a level of two below one": ("Done\n====\na\n\nElse\n----\nb\n", "3D 5D 7D"),
    "a level of one ends two": ("Done\n----\na\n\nElse\n====\nb\n", "3D 5 7"),
    "a level of two ends two": ("Done\n----\na\n\nElse\n----\nb\n", "3D 5 7"),
    "an item is no heading by what stands under it": ("- Else\n---\nb\n", "1 3"),
    "a quote is no heading by what stands under it": ("> Else\n===\nb\n", "1 3"),
    "a line further up is not underlined": ("Else\n\n---\nb\n", "1 4"),
    "two lines are underlined by their second alone": ("a\nb\n---\nc\n", "1 4"),
    "a rule across the page parts what is said": ("a\n***\nb\n", "1 3"),
    "a section with nothing in it is declared itself": ("# Done\n# Else\na\n", "1D 2 3"),
    "also at the end": ("a\n# Done\n", "1 2D"),
    "an open section with nothing in it says nothing": ("# Open\n# Else\na\n", "2 3"),
    "titles": ("# Report\n# Final report\n# Reports\na\n", "1T 2T 3 4"),
    "a heading with a mark before it": ("- # Done\na\n", "2D"),
    "which closes none": ("# Done\na\n- # Else\nb\n", "2D 3D 4D"),
    "and opens no open one": ("# Done\na\n- # Open\nb\n", "2D 3D 4D"),
    # labels
    "a line that says Done": ("Done\na\n\nb\n", "2D 4D"),
    "a label ends with a heading of any level": ("Done:\na\n###### Else\nb\n", "2D 3 4"),
    "a label ends with another": ("Done:\na\n\nOpen:\nb\n", "2D 5O"),
    "Open needs its colon": ("Done:\na\n\nOpen\nb\n", "2D 4D"),
    "and its own paragraph": ("Done:\na\nOpen:\nb\n", "2D"),
    "a bold one": ("Done:\na\n\n**Open**\nb\n", "2D 5O"),
    "Not done": ("Done:\na\n\n**Not done:**\nb\n", "2D 5O"),
    "to the letter": ("Done:\na\n\nOPEN:\nb\n", "2D 4D"),
    "a label with nothing below it": ("a\n\nDone:\n", "1 3D"),
    # what stands in fences, quotes, comments and behind indentation
    "a fence closes no section": ("# Done\na\n```\n# Else\nb\n```\nc\n", "2D 4D 5D 7D"),
    "a fence opens one": ("a\n```\n# Done\nb\n```\nc\n", "1 4D 6D"),
    "a fence opens no open one": ("# Done\n```\n# Open\nb\n```\nc\n", "3D 4D 6D"),
    "a fence ends with its own sign": ("```\n~~~\n# Else\n```\n# Else\nb\n", "3 5 6"),
    "and at least as many": ("# Done\n````\na\n```\n# Else\n````\nb\n# Else\nc\n", "3D 5D 7D 8 9"),
    "and nothing behind": ("# Done\n```\n# Else\n``` x\n# Else\n```\nb\n", "3D 4D 5D 7D"),
    "code within a line begins no fence": ("```a``` b\n# Done\nc\n# Else\nd\n", "1 3D 4 5"),
    "tildes do": ("# Done\n~~~a~~~ b\n# Else\nc\n", "2D 3D 4D"),
    "a quote closes no section": ("# Done\na\n> # Else\nb\n", "2D 3D 4D"),
    "a quote opens one": ("a\n\n> # Done\n> b\n\n# Else\nc\n", "1 4D 6 7"),
    "a quote's label below done opens none anew": ("# Done\na\n\n> Done:\n> b\n", "2D 5D"),
    "three spaces are none": ("# Done\na\n   # Else\nb\n", "2D 3 4"),
    "four close no section": ("# Done\na\n    # Else\nb\n", "2D 3D 4D"),
    "nor does a tab": ("# Done\na\n\t# Else\nb\n", "2D 3D 4D"),
    "four in a quote neither": ("# Done\na\n>     # Else\nb\n", "2D 3D 4D"),
    "a comment closes no section": ("# Done\na\n<!--\n# Else\n-->\nb\n", "2D 4D 5D"),
    "a comment in the line neither": ("# Done\na\n# Else <!-- x -->\nb\n", "2D 3D 4D"),
    "behind it one does": ("# Done\na\n<!-- x -->\n# Else\nb\n", "2D 4 5"),
    "a second comment counts too": ("# Done\n<!-- x -->\n<!-- y\n# Else\n-->\n# Else\nb\n", "2D 4D 5D 6 7"),
    # what a reader of the page sees as a heading, and what only looks like one
    "a heading of several lines": ("Done so\nfar\n===\na\n\n## Else\nb\n", "4D 6D 7D"),
    "whose first word is in a later one": ("For today\nDone\n---\na\n", "4D"),
    "a label goes on as one": ("*Done*\nand dusted\n---\na\n\n### Else\nb\n", "4D 6D 7D"),
    "in a quote too": ("> Done so\n> far\n> ===\n\na\n", "5D"),
    "a ticked heading": ("## ✅ a\nb\n", "1D 2"),
    "a ticked one that is underlined": ("✅ a\n===\nb\n", "1D 3"),
    "a label within one": ("a\nDone: b\n---\nc\n", "4D"),
    "a heading below a line of code is one": ("# Done\na\n```\nb\n```\n# Else\nc\n", "2D 4D 6 7"),
    "an indented fence ends none": ("# Done\n```\n    ```\n# Else\n```\na\n", "4D 6D"),
    "an indented fence begins none": ("# Done\n\n    ```\n```\n# Else\n```\na\n", "5D 7D"),
    "a quoted fence ends none": ("# Done\n```\n> ```\n# Else\n```\na\n", "4D 6D"),
    "a fence in an item ends with it": ("# Done\n- a\n  ```\n  # Else\n  ```\n# Else\nb\n", "2D 4D 6 7"),
    "a heading in an item closes none": ("# Done\n- a\n\n  # Else\n\nb\n", "2D 4D 6D"),
    "a heading in HTML closes none": ("# Done\n<div>\n# Else\n</div>\n\na\n", "2D 3D 4D 6D"),
    "nor does one that HTML underlines": ("# Done\n<div>\n===\n\na\n", "2D 5D"),
    "nor what is preformatted": ("# Done\n<pre>\n\n# Else\n\n</pre>\n\na\n", "2D 4D 6D 8D"),
    "nor an instruction": ("# Done\n<?x\n\n# Else\n?>\n\na\n", "2D 4D 5D 7D"),
    "nor a link's address, underlined": ("# Done\n[x]: /y\n===\na\n", "2D 4D"),
    "nor one without words": ("# Done\n#\na\n", "2D 3D"),
    "nor one of signs": ("# Done\n# &nbsp;&#8203;***\na\n", "2D 3D"),
    "nor one that is a picture": ("# Done\n# ![Else](x.png)\na\n", "2D 3D"),
    "nor a link without words": ("# Done\n# [](Else)\na\n", "2D 3D"),
    "a link with words does": ("# Done\na\n# [Else](x)\nb\n", "2D 3 4"),
    "nor one that is hidden": ("# Done\n# <span hidden>Else</span>\na\n", "2D 3D"),
    "nor a row": ("## Done\n| Else |\n---\na\nb\n", "2D 4D 5D"),
    "tabs within a heading indent nothing": ("# Done\na\n# Else\tb\tc\td\te\nf\n", "2D 3 4"),
    "another sign ends no line of a heading": ("# Done\na\n# Else\u2028# b\nc\n", "2D 3 5"),
    "an open label in a quote opens none": ("# Done\na\n\n> Open:\n\nb\n", "2D 4D 6D"),
    "a label that ends with another sign opens none": ("Done:\na\n\n**Open~**\nb\n", "2D 4D"),
    "a label below another that says nothing": ("Done:\n\nDone:\na\n", "1D 4D"),
    "one in a quote is none": ("Done:\n\n> Done:\na\n", "4D"),
    "nor is one that nothing follows": ("# Done\na\n\n> Done:\n", "2D"),
    "a heading in a quote opens none anew": ("# Done\na\n> ## Done\n", "2D"),
    "and holds to the next heading": ("> # Done\na\n\n## Else\nb\n", "2D 4 5"),
    "a tick below what is open": ("# Open\n- [x] a\n", "2D"),
    "a label ends a table": ("| a | b |\n|---|---|\nDone:\nc\n", "1 4D"),
    "a comment further down hides no heading": ("# Done\na\n# Else\nb\n\n<!-- x -->\n", "2D 3 4 6"),
    "nor one right behind it": ("# Done\na\n# Else\n<!-- x -->\n", "2D 3 4"),
    "below a heading of two lines it still does": ("Done\n====\na\n<!--\n# Else\n-->\n# Else\nb\n", "3D 5D 6D 7 8"),
    "tildes with code behind them begin a fence": ("# Done\n~~~ `a`\n# Else\nc\n", "2D 3D 4D"),
    "the language of code may be Done": ("a\n~~~ Done\nb\n~~~\nc\n", "1 3 5"),
    "what is said beside it may not": ("# Open\n~~~ Done 1\na\n~~~\n## Else\nb\n", "3D 5O 6O"),
    "behind a tag that hides nothing ends": ("# Done\na <div hidden>\n\n# Else\n\n</div>\n\nb\n", "2D 4D 6D 8D"),
    "however it is written": ("# Done\na <div x='>'\nhidden>\n\n# Else\nb\n", "2D 5D 6D"),
    "nor is anything open": ("a <b style='x'>\n\n# Open\n\nb\n", "1 3 5"),
    "a fold ends nothing": ("# Done\na <details>\n\n# Else\nb\n", "2D 4D 5D"),
    "until it is over": (
        "# Done\n<details>\n<summary>a</summary>\n\n# b\n\n</details>\n\n# Else\nc\n",
        "2D 3D 5D 7D 9 10",
    ),
    "which words in code do not say": ("# Done\na <details>\n\n```\n</details>\n```\n# Else\nb\n", "2D 5D 7D 8D"),
    "one within another": ("# Done\n<details>\n<details>\n</details>\n\n# Else\n", "2D 3D 4D 6D"),
    "words of its paragraph are of a label": ("Open:\nb\n\nc\n", "2O 4"),
    "and nothing behind them": ("Done:\n\na\n\nOpen:\nb\n\nc\n", "3D 6O 8D"),
    "one without words ends what is open": ("# Open\na\n# &nbsp;\nb\n", "2O 3 4"),
    "and not what is done around it": ("# Done\n## Open\na\n## ***\nb\n", "3O 4D 5D"),
    "HTML ends nothing that is open": ("# Open\n<div>\n# Else\n</div>\n\nb\n", "2O 3O 4O 6O"),
    "an item in HTML may begin what is done": ("<div>\n- # Done so far\na\n", "1 3D"),
    "one below another that says the same": ("# Done\na\n## Done\n", "2D 3D"),
    "a label beside a comment begins none anew": ("Done:\n\nDone: <!-- x -->\na\n", "4D"),
    "a comment that only some see as one": ("# Done\na <!--\n# Else\n-->\n# Else\nb\n", "2D 3D 4D 5 6"),
    "a tick in the second line of one": ("a\n✅ b\n===\n", "1D"),
    "columns that a heading follows are said": ("| a | b |\n|---|---|\n# Else\n", "1 3"),
    "bars in a heading begin no table": ("# a | b\nc\nd\n", "1 2"),
    "a rule with all its signs": ("| a | b |\n|:-- \t|---|\nc\nd\n", "3 4"),
    "rows above the columns' names are said": ("a | b\nc | d\n--|--\ne\n", "1 4"),
    "columns have bars": ("a\n--|--\nb\n", "1 3"),
    "a tag without an end takes what follows": ("# Done\n<p>a<a href='\n\n# Else\n\n'>\n\nb\n", "2D 4D 6D 8D"),
    "one with an end and a comment does not": ("# Done\n<p title='>'>a <!-- < --></p>\n\n# Else\nb\n", "2D 4 5"),
    "nor one with a comment in a later line": ("## Done\na\nb <!-- x -->\n---\nc\n", "2D 5D"),
    # items, rows, paragraphs
    "a paragraph goes on, an item begins": ("a\nb\n- c\n  d\n2. e\n", "1 3 5"),
    "ticks": ("- [x] a\n- [ ] b\n* [X] c\n", "1D 2 3D"),
    "a tick within a paragraph begins a block": ("a\n✅ b\nc\n", "1 2D"),
    "labels within a line": ("Done: a\nb\n\nUndone: c\n", "1D 4"),
    "rows below a rule, whatever they begin with": ("a | b\n--|--\nc | d\ne | f\n\ng\nh\n", "3 4 6"),
    "columns that nothing follows are said": ("| a | b |\n|---|---|\n\nc\n", "1 4"),
    "also at the end of the report": ("| a | b |\n|---|:-:|\n", "1"),
    "a rule without a row above": ("a\n\n|---|\nb\nc\n", "1 4 5"),
    "a heading ends a table": ("a | b\n--|--\nc | d\n# Else\ne\nf\n", "3 4 5"),
    "a line of tags says nothing": ("a\n<ul>\n<li>b\n<li>c\n</ul>\nd\n", "1 3 4 6"),
    "one that may fold away does": ("# Done\n<details>\na\n", "2D"),
    "bullets of other kinds": ("a\n● b\n→ c\n(1) d\nb) e\n\u2013 f\n", "1 2 3 4 5 6"),
    "nothing": ("", ""),
    "nothing but space": (" \n\t\n", ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_falls_into_these_blocks(form: str) -> None:
    text, blocks = FORMS[form]
    assert shown(text) == blocks


def test_a_block_is_where_it_stands() -> None:
    assert said("# Report\na\nb\n\nElse\n----\n- c\n  d\n") == ["# Report\n", "a\nb\n", "Else\n", "- c\n  d\n"]
    assert said("a\r\n# Done\r\nb") == ["a\r\n", "b"]
