"""Declarations in a report, by structure: the blocks declared as done.

    a section       a heading whose first word is Done, or a line that says Done and nothing else; all below it, up to
                    the next heading of its level, is declared, each item, paragraph, row and heading for itself
    a mark          an item or a heading that is ticked: `- [x]`, or a check mark in front
    a label         a line that begins `Done:`

Blocks under `## Open` (or `## Not done`) are not declared. The end of a section, and the start of an open section, must
be visible on the page as a heading or a paragraph (`outline`). Text in code, quotes, items, comments and HTML can begin
a section of done results, and cannot end a section. No other word counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import field
from html import unescape
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.grounding.confusables import folded
from readback.domain.grounding.outline import Heading, Outline, outline_of

_OPEN: Final = frozenset({"Open", "Not done"})
_TITLES: Final = frozenset({"Report", "Final report"})
_QUOTE: Final = re.compile(r"(?:[ \t]{0,3}>)+[ \t]?")
_HEADING: Final = re.compile(r"(#{1,6})(?:[ \t]+|$)(.*)", re.DOTALL)
_ITEM: Final = re.compile(r"(?:[-*+•‣◦·\u2013\u2014]|\d{1,9}[.)]|\(?[a-z0-9]{1,3}\))[ \t]+", re.IGNORECASE)
_ARROWS: Final = frozenset("→⇒»\u203a\u276f")
_TAGS: Final = (
    r"</?(?:article|blockquote|br|dd|details|div|dl|dt|h[1-6]|hr|li|ol|p|pre|section|summary|table|tbody|td|th|thead|tr"
    r"|ul)"
)
_ELEMENT: Final = re.compile(rf"{_TAGS}\b", re.IGNORECASE)
"""A line beginning with one of these tags is a separate block."""
_NOTHING_SAID: Final = re.compile(r"(?:</?(?:br|dl|hr|ol|table|tbody|thead|tr|ul)[ \t]*/?>[ \t]*)+", re.IGNORECASE)
"""Tags that only contain items and rows. A tag with folding content, such as a heading, counts as text."""
_MARKS_CODE: Final = re.compile(r"[`~]{3,}[ \t]*[^\s`~]{0,32}")
"""The start or end of a code fence, with at most the language. More words count as text."""
_RULE: Final = re.compile(r"[-=*_ \t]{3,}")
_TABLE_RULE: Final = frozenset("|-")
_TICK: Final = re.compile(r"(?:\[\s{0,4}[x\u0445✓✔✅]\s{0,4}\]|[✅✔✓☑🗹🗸☒])\ufe0f?")
_TAG: Final = re.compile(r"<[^<>]{0,200}>")
_NO_LETTERS: Final = re.compile(r"[\W\d_]+")
_LABEL: Final = re.compile(r"[\W_]*done[*_~`\s]*(?::|\s[-\u2013\u2014]\s)")
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HIDING: Final = (
    r"<(?:(?:audio|canvas|datalist|dialog|iframe|noembed|noframes|noscript|object|script|select|style|svg|template"
    r"|textarea|title|video)\b"
    r"""|[a-z](?:[^<>"']{0,256}(?:"[^"]{0,512}"|'[^']{0,512}')){0,16}[^<>"']{0,512}[\s"'](?:hidden|style)\b)"""
)
_HIDES: Final = re.compile(_HIDING, re.IGNORECASE)
_FOLDS: Final = re.compile(r"<details\b", re.IGNORECASE)
_UNFOLDS: Final = re.compile(r"</details\b", re.IGNORECASE)
_PICTURE: Final = re.compile(r"!\[[^\[\]]{0,1024}\](?:\[[^\[\]]{0,1024}\]|\([^()]{0,1024}\))?|\]\([^()]{0,1024}\)")
"""A picture, with a text invisible beside the picture, and a link's destination."""
_WORDS: Final = re.compile(r"[^\W_]")
_UNSEEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)"
    rf"|{_HIDING}"
    r"[^\n]*(?:\n(?![ \t]*(?:\n|\Z))[^\n]*)*"
    r"""|</?[a-z](?:[^<>"']|"[^"]{0,512}"|'[^']{0,512}')*>""",
    re.DOTALL | re.IGNORECASE,
)
"""A comment; the text after a hiding tag, to the end of the paragraph; and the inside of a tag."""
_LABEL_LEVEL: Final = 7


@dataclass(slots=True)
class Block:
    """One statement: a paragraph, an item, a row or a heading. `declared`: as done; `open`: under an open section.

    `pieces`: the places in the text.
    """

    line: int
    declared: bool = False
    open: bool = False
    title: bool = False
    pieces: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Section:
    level: int
    done: bool
    """A section of done results, else a section of open results."""
    block: Block
    before: int
    """Number of blocks before the section."""


def comments_in(text: str) -> list[tuple[int, int]]:
    """The places of HTML comments, invisible on the page."""
    return [found.span() for found in _COMMENT.finditer(text)]


def unseen_in(text: str) -> list[tuple[int, int]]:
    """The places without visible citations: comments, tags, and text after hiding tags."""
    return [found.span() for found in _UNSEEN.finditer(text)]


def blocks_of(text: str) -> list[Block]:
    """Every block of the text in order. An empty section of done results counts as a declared block."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.blocks: list[Block] = []
        self.sections: list[_Section] = []
        self.current: Block | None = None
        self.tabled = False
        """Below a table's rule every line is a row, whether marked or not."""
        self.headed: Block | None = None
        """A table's first row. Following rows make the first row a header."""
        self.lasts_to = 0
        """The end of an open section begun by a label inside a paragraph; 0 without one."""
        self.outline = outline_of(text)
        self.shaded = _shaded(text, self.outline)

    def read(self) -> list[Block]:
        at = heading_end = 0
        for number, raw in enumerate(self.lines, 1):
            begin, at = at, at + len(raw)
            hidden = next(self.shaded)
            if begin < heading_end:
                continue
            if 0 < self.lasts_to <= begin:
                self.lasts_to = 0
                self.sections = [each for each in self.sections if each.block.pieces]
            headed, self.headed = self.headed, None
            heading, row = self.outline.headings.get(begin), False
            if heading is not None:
                heading_end = heading.end
                self._headed(Block(number, pieces=[(begin, heading.title_end)]), heading, hidden=hidden)
                self.tabled = "|" in heading.title and heading.title_end < heading.end  # table rows, in some renderers
            else:
                row = self._line(number, raw, (begin, at), hidden=hidden)
            if headed is not None and not row:
                self.blocks.append(headed)
        if self.headed is not None:
            self.blocks.append(self.headed)
        for section in self.sections:
            self._close(section)
        return sorted(self.blocks, key=lambda each: each.line)

    def _line(self, number: int, raw: str, place: tuple[int, int], *, hidden: bool) -> bool:
        """Read a line. Returns whether the line is a table row with text."""
        quote = _QUOTE.match(raw)
        bare = (raw[quote.end() :] if quote else raw).strip()
        if not bare.strip("`~") or (place[0] in self.outline.fences and _MARKS_CODE.fullmatch(bare)):
            self.current, self.tabled = None, False
            return False
        if self._heading(number, bare, place) or self._ruled(number, bare):
            return False
        if self._label(number, bare, place, shade=hidden or place[0] not in self.outline.paragraphs):
            return False
        self._said(number, bare, place)
        return self.tabled

    def _heading(self, number: int, bare: str, place: tuple[int, int]) -> bool:
        """An apparent heading that is none on the page: in code, in HTML, or behind an invisible letter."""
        marked = _ITEM.match(bare)
        found = _HEADING.fullmatch(bare[marked.end() :] if marked else bare)
        if found is None:
            return False
        written = Heading(len(found[1]), found[2].strip(" \t#"), on_page=False, title_end=place[1], end=place[1])
        self._headed(Block(number, pieces=[place]), written)
        return True

    def _headed(self, block: Block, heading: Heading, *, hidden: bool = False) -> None:
        self.current, self.tabled = None, False
        title, level = heading.title.strip(), heading.level
        shade = hidden or not heading.on_page or not _shows(title)
        if heading.on_page:
            self._end(level, seen=not shade)
        if any(_letters(line).split(" ")[0] == "done" for line in title.splitlines()):
            if not shade or not self._in(done=True):
                self._begin(_LABEL_LEVEL if shade else level, block, done=True)
            return
        if _plain(title) in _OPEN and not shade:
            self._begin(level, block, done=False)
            return
        block.title = _plain(title) in _TITLES
        block.declared = any(_declares(line) for line in title.splitlines())
        self._add(block)

    def _ruled(self, number: int, bare: str) -> bool:
        """A table's rule, or a rule across the page."""
        if _TABLE_RULE <= set(bare) <= _TABLE_RULE | set(": \t"):
            above = self.current
            if above is not None and above.line == number - 1 and "|" in self.text[slice(*above.pieces[0])]:
                self.headed = self.blocks.pop()  # the header row, no statement
            self.current, self.tabled = None, True
            return True
        if _RULE.fullmatch(bare) is None:
            return False
        self.current = None
        return True

    def _label(self, number: int, bare: str, place: tuple[int, int], *, shade: bool) -> bool:
        """A line with only a label."""
        done = _letters(bare) == "done"
        plain = _plain(bare)
        opens = plain in _OPEN and plain != bare and not shade
        if not done and not opens:
            return False
        self.current = None
        if opens and self.outline.paragraphs[place[0]] > place[1]:  # part of a longer paragraph
            self._begin(_LABEL_LEVEL, Block(number), done=False)
            self.lasts_to = self.outline.paragraphs[place[0]]
            return True
        if not shade:
            self._end(_LABEL_LEVEL)
        if not shade or not self._in(done=True):
            self._begin(_LABEL_LEVEL, Block(number, pieces=[place]), done=done)
        return True

    def _said(self, number: int, bare: str, place: tuple[int, int]) -> None:
        marked = _ITEM.match(bare)
        declared = _declares(bare[marked.end() :] if marked else bare)
        if _NOTHING_SAID.fullmatch(bare):
            self.current = None
            return
        if self.current is not None and not (marked or declared or self.tabled or _begins(bare)):
            self.current.pieces.append(place)
            return
        self.current = self._add(Block(number, pieces=[place], declared=declared))

    def _add(self, block: Block) -> Block:
        block.declared = block.declared or self._in(done=True)
        block.open = not block.declared and self._in(done=False)
        self.blocks.append(block)
        return block

    def _in(self, *, done: bool) -> bool:
        return bool(self.sections) and self.sections[-1].done is done

    def _begin(self, level: int, block: Block, *, done: bool) -> None:
        self.sections.append(_Section(level, done, block, len(self.blocks)))

    def _end(self, level: int, *, seen: bool = True) -> None:
        """Close the sections ended by a heading of this level. An unseen heading closes only open sections."""
        sections, self.sections = self.sections, []
        for section in sections:
            if section.level >= level and (seen or not section.done):
                self._close(section)
            else:
                self.sections.append(section)

    def _close(self, section: _Section) -> None:
        if section.done and len(self.blocks) == section.before:
            section.block.declared = True
            self.blocks.append(section.block)


def _shaded(text: str, outline: Outline) -> Iterator[bool]:
    """Yield for each line whether a human may not see the line.

    A comment covers the line's start, or begins inside the line; or an earlier tag hides the line. A hiding tag, an
    unterminated tag, or a folding tag without an end in parsed HTML hides all later text.
    """
    comments, at, place, folds = comments_in(text), 0, 0, 0
    hiding = _HIDES.search(text)
    veiled = min(outline.unended, len(text) if hiding is None else hiding.start())
    for raw in text.splitlines(keepends=True):
        end = at + len(raw)
        while place < len(comments) and comments[place][1] <= at:
            place += 1
        yield folds > 0 or at > veiled or (place < len(comments) and comments[place][0] < end)
        ended = len(_UNFOLDS.findall(raw)) if at in outline.html else 0
        folds = max(0, folds + len(_FOLDS.findall(raw)) - ended)
        at = end


def _begins(bare: str) -> bool:
    """Whether a line is a separate block: a row, a block tag, or a line with a picture or an arrow as bullet."""
    first = bare[0]
    return first == "|" or first in _ARROWS or unicodedata.category(first) == "So" or _ELEMENT.match(bare) is not None


def _declares(text: str) -> bool:
    """Whether a tick or a label declares a line as done."""
    rest = _looks(text).strip(" \t*_~`|\\-+")
    return _TICK.match(rest) is not None or _LABEL.match(rest) is not None


def _shows(title: str) -> bool:
    """Whether a heading shows words. A heading without words separates nothing."""
    if title[:1] == "|" or _HIDES.search(title) or "<!--" in title:
        return False
    return bool(_WORDS.search(_looks(_PICTURE.sub(" ", title))))


def _letters(text: str) -> str:
    """The visible words alone."""
    return _NO_LETTERS.sub(" ", _looks(text)).strip()


def _looks(text: str) -> str:
    """The visible text in lower case: without tags, with entities decoded."""
    return folded(unescape(_TAG.sub(" ", text)))


def _plain(text: str) -> str:
    """The exact text without emphasis and a final colon. Not folded, since a match here removes text from the check."""
    return text.strip(" \t*_").rstrip(":").strip(" \t*_")
