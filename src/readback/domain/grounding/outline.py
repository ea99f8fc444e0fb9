"""Visible headings and paragraphs of a page, by CommonMark.

Called by `layout`: only a visible heading or paragraph ends a declared section or begins an open section. A CommonMark
parser decides, in agreement with renderers, whether a line is a heading, or is inside a list, a quote, a code fence or
HTML.
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
"""Complete tags and comments; and an unterminated comment with all text after, so that its end is searched once."""
_BEGUN: Final = re.compile(r"<[a-z/!?]", re.IGNORECASE)
_LOOKS_A_LINE: Final = 16
"""Allowed checks of a line for the start of a quote. Most texts need 2, the deepest quotes and lists 14.

Consecutive quotes without blank lines make the parser check all remaining lines, for each quote.
"""
_LOOKS_MIN: Final = 100_000


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading. `level`: 1 to 6; `on_page`: outside lists and quotes; `title_end`: end without the underline."""

    level: int
    title: str
    on_page: bool
    title_end: int
    end: int


@dataclass(frozen=True, slots=True)
class Outline:
    """The outline, by the position of a line's start."""

    headings: Mapping[int, Heading]
    paragraphs: Mapping[int, int]
    """First lines of paragraphs outside lists and quotes, with the end of each."""
    fences: frozenset[int]
    """Lines at the start or end of a code fence."""
    html: frozenset[int]
    """Lines of HTML passed through unchanged."""
    unended: int
    """Start of HTML with an unterminated tag. The tag swallows the following text."""


def outline_of(text: str) -> Outline:
    """Return the outline of a text, without parts nested too deeply for the parser.

    Raises OversizeError for a text that takes the parser far longer than other texts of the same size.
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
