"""Where a reader of the page sees headings and paragraphs, as CommonMark has it.

Asked by `layout`, which lets nothing else end what is declared as done, nor begin what is open: whether a line is a
heading, or stands in a list, a quote, a code fence or HTML, is told by a parser that renderers agree with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from readback.canon.frozen import dataclass
from readback.errors import OversizeError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

_ENDS: Final = re.compile(r"\r\n|\r|\n")
_TAGS: Final = re.compile(
    r"""<!--.*?-->|(<!--).*|</?[a-z](?:[^<>"']|"[^"]{0,512}"|'[^']{0,512}')*>""", re.DOTALL | re.IGNORECASE
)
"""What is whole; and a comment that does not end, with all behind it, so that its end is looked for once."""
_BEGUN: Final = re.compile(r"<[a-z/!?]", re.IGNORECASE)
_LOOKS_A_LINE: Final = 16
"""How often the parser asks of a line whether a quote begins there: twice in most texts, 14 times in the deepest quotes
and lists. Where quotes without blank lines follow each other it asks of all that is left, at each of them."""
_LOOKS_MIN: Final = 100_000


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading. `level`: 1 to 6; `on_page`: in no list and no quote; `title_end`: less its underline."""

    level: int
    title: str
    on_page: bool
    title_end: int
    end: int


@dataclass(frozen=True, slots=True)
class Outline:
    """By the place in the text where the line begins."""

    headings: Mapping[int, Heading]
    paragraphs: Mapping[int, int]
    """The first lines of those that stand in no list and no quote, and where each ends."""
    fences: frozenset[int]
    """The lines that may begin or end a code fence."""
    html: frozenset[int]
    """The lines of HTML, as far as it is handed on as it is."""
    unended: int
    """Where HTML begins in which a tag has no end: it takes what follows into itself."""


def outline_of(text: str) -> Outline:
    """The outline of a text; whatever is nested too deeply for the parser is not in it. Raises OversizeError for a text
    that would take the parser far longer than others of its size.
    """
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    starts = [0, *(found.end() for found in _ENDS.finditer(text)), len(text)]
    parser = MarkdownIt("commonmark")
    _bound(parser, _LOOKS_MIN + _LOOKS_A_LINE * len(starts))
    tokens: list[Token] = []
    parser.block.parse(_ENDS.sub("\n", text).replace("\0", "\ufffd"), parser, {}, tokens)
    headings: dict[int, Heading] = {}
    paragraphs: dict[int, int] = {}
    fences, html, unended = set(), set(), len(text)
    for token, following in pairwise([*tokens, Token("", "", 0)]):
        if token.map is None:
            continue
        first, behind = token.map
        if token.type == "heading_open":
            underlined = token.markup in ("=", "-")
            headings[starts[first]] = Heading(
                int(token.tag[1:]),
                following.content,
                token.level == 0,
                starts[behind - 1] if underlined else starts[behind],
                starts[behind],
            )
        elif token.type == "paragraph_open" and token.level == 0:
            paragraphs[starts[first]] = starts[behind]
        elif token.type == "fence":
            fences |= {starts[first], starts[behind - 1]}
        elif token.type == "html_block":
            html.update(starts[first:behind])
            if _BEGUN.search(_TAGS.sub(r"\1", token.content)):
                unended = min(unended, starts[first])
    return Outline(headings, paragraphs, frozenset(fences), frozenset(html), unended)


def _bound(parser: MarkdownIt, looks_max: int) -> None:
    from markdown_it.rules_block import blockquote

    left = looks_max

    def counted(state: StateBlock, first: int, end: int, silent: bool) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise OversizeError(
                "The report's quotes and paragraphs run into each other too often to be read.",
                remedy="Write a blank line behind each quote, and report in several parts.",
            )
        return blockquote(state, first, end, silent)

    parser.block.ruler.at("blockquote", counted, {"alt": ["paragraph", "reference", "blockquote", "list"]})
