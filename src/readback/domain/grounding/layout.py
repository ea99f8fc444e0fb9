"""What a report declares, by its structure: which blocks of it say that something is done.

    a section       a heading whose first word is Done, or a line that says Done and nothing else; all below it, up to
                    the next heading of its level, is declared, each item, paragraph, row and heading for itself
    a mark          an item that is ticked: `- [x]`, or a check mark in front
    a label         a line that begins `Done:`

Under `## Open` (or `## Not done`) nothing is declared. Code fences, quotes, comments and indentation hide nothing: what
stands in them can open a section of what is done and can close none. No other word is looked at.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import field
from html import unescape
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.grounding.lookalikes import folded

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
"""A line that begins with one of these tags is read as one for itself."""
_NOTHING_SAID: Final = re.compile(r"(?:</?(?:br|dl|hr|ol|table|tbody|thead|tr|ul)[ \t]*/?>[ \t]*)+", re.IGNORECASE)
"""What only holds items and rows. One that may fold away what stands in it, such as a heading, says something."""
_FENCE: Final = re.compile(r"(`{3,}|~{3,})")
_MARKS_CODE: Final = re.compile(r"[`~]{3,}[ \t]*[^\s`~]{0,32}")
"""The line that begins or ends a code fence, with the language at most; more words are said there."""
_RULE: Final = re.compile(r"[-=*_ \t]{3,}")
_UNDERLINE: Final = re.compile(r"[ ]{0,3}(=+|-+)[ \t]*")
_TABLE_RULE: Final = frozenset("|-")
_TICK: Final = re.compile(r"(?:\[\s{0,4}[x\u0445✓✔✅]\s{0,4}\]|[✅✔✓☑🗹🗸☒])\ufe0f?")
_TAG: Final = re.compile(r"<[^<>]{0,200}>")
_NO_LETTERS: Final = re.compile(r"[\W\d_]+")
_LABEL: Final = re.compile(r"[\W_]*done[*_~`\s]*(?::|\s[-\u2013\u2014]\s)")
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_UNSEEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?:(?:script|style|template|title|textarea|noscript|iframe|object)\b|[a-z][^<>]{0,512}\s(?:hidden|style)\b)"
    r"[^\n]*(?:\n(?![ \t]*(?:\n|\Z))[^\n]*)*"
    r"""|</?[a-z](?:[^<>"']|"[^"]{0,512}"|'[^']{0,512}')*>""",
    re.DOTALL | re.IGNORECASE,
)
"""A comment; what follows a tag that can hide it, to the end of its paragraph; and what stands in a tag."""
_LABEL_LEVEL: Final = 7


@dataclass(slots=True)
class Block:
    """One thing said: a paragraph, an item, a row or a heading. `declared`: as done; `open`: under an open section.

    `pieces` are where it stands in the text.
    """

    line: int
    declared: bool = False
    open: bool = False
    title: bool = False
    pieces: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Section:
    level: int
    done: bool | None
    """True: Done; False: Open; None: neither, as what is around it."""
    block: Block
    before: int
    """How many blocks there were when it began."""


def comments_in(text: str) -> list[tuple[int, int]]:
    """Where HTML comments stand, which no reader of the page sees."""
    return [found.span() for found in _COMMENT.finditer(text)]


def unseen_in(text: str) -> list[tuple[int, int]]:
    """Where a citation is none that a reader of the page sees: in comments, in tags and behind tags that hide."""
    return [found.span() for found in _UNSEEN.finditer(text)]


def blocks_of(text: str) -> list[Block]:
    """Every block of the text in order; a section of what is done in which nothing stands is one that is declared."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.blocks: list[Block] = []
        self.sections: list[_Section] = []
        self.current: Block | None = None
        self.fence = ""
        self.label: _Section | None = None
        """What a line that says Done or Open has begun, until it is seen whether it is underlined."""
        self.tabled = False
        """Below a table's rule: each line is a row, whatever it begins with."""
        self.headed: Block | None = None
        """A table's first row, until it is seen whether rows follow that it names the columns of."""
        self.shaded = _shaded(text)

    def read(self) -> list[Block]:
        at = 0
        for number, raw in enumerate(self.lines, 1):
            headed, self.headed = self.headed, None
            label, self.label = self.label, None
            if label is not None and self._underlined(label, raw):
                at += len(raw)
                next(self.shaded)
                continue
            row = self._line(number, raw, (at, at + len(raw)))
            if headed is not None and not row:
                self.blocks.append(headed)
            at += len(raw)
        if self.headed is not None:
            self.blocks.append(self.headed)
        for section in self.sections:
            self._close(section)
        return sorted(self.blocks, key=lambda each: each.line)

    def _line(self, number: int, raw: str, place: tuple[int, int]) -> bool:
        """Takes a line; whether it is a row of a table that says something."""
        quote = _QUOTE.match(raw)
        inner = raw[quote.end() :] if quote else raw
        bare = inner.strip()
        indented = len(inner.expandtabs(4)) - len(inner.expandtabs(4).lstrip()) > 3
        was = self.fence
        fenced = self._fenced(bare)
        hidden = next(self.shaded)
        shade = fenced or indented or hidden or quote is not None
        if not bare or (self.fence != was and _MARKS_CODE.fullmatch(bare)):
            self.current, self.tabled = None, False
            return False
        if self._heading(number, bare, place, shade=shade) or self._ruled(number, bare, place, shade=shade):
            return False
        if self._label(number, bare, place, shade=shade):
            return False
        self._said(number, bare, place)
        return bare.startswith("|") or self.tabled

    def _fenced(self, bare: str) -> bool:
        """Whether the line is in a code fence, or is one."""
        found = _FENCE.match(bare)
        if self.fence:
            if found and found[1].startswith(self.fence) and bare.strip(self.fence[0]) == "":
                self.fence = ""
            return True
        if found and found[1][0] == "`" and "`" in bare[found.end() :]:
            return False  # code within a line, which begins nothing
        self.fence = found[1] if found else ""
        return found is not None

    def _heading(self, number: int, bare: str, place: tuple[int, int], *, shade: bool) -> bool:
        marked = _ITEM.match(bare)
        found = _HEADING.fullmatch(bare[marked.end() :] if marked else bare)
        if found is None:
            return False
        block = Block(number, pieces=[place])
        self._headed(block, found[2].strip(" \t#"), len(found[1]), shade=shade or marked is not None)
        return True

    def _headed(self, block: Block, title: str, level: int, *, shade: bool) -> None:
        self.current, self.tabled = None, False
        if not shade:
            self._end(level)
        if _letters(title).split(" ")[0] == "done":
            if not shade:
                self._begin(level, block, done=True)
            elif not self._in(done=True):
                self._begin(_LABEL_LEVEL, block, done=True)
            return
        if _plain(title) in _OPEN and not shade:
            self._begin(level, block, done=False)
            return
        block.title = _plain(title) in _TITLES
        self._add(block)
        if not shade:
            self._begin(level, block, done=None)

    def _ruled(self, number: int, bare: str, place: tuple[int, int], *, shade: bool) -> bool:
        """An underlined heading, a table's rule, a rule across the page."""
        above = self.current if self.current is not None and self.current.line == number - 1 else None
        title = self.text[slice(*above.pieces[0])].strip() if above is not None else ""
        if _TABLE_RULE <= set(bare) <= _TABLE_RULE | set(": \t"):
            if above is not None and "|" in title:
                self.headed = self.blocks.pop()  # it names the columns, and says nothing
            self.current, self.tabled = None, True
            return True
        if above is not None and not _ITEM.match(title) and title[0] not in ">|" and _UNDERLINE.fullmatch(bare):
            self.blocks.pop()
            self._headed(Block(above.line, pieces=above.pieces), title, 1 if bare[0] == "=" else 2, shade=shade)
            return True
        if _RULE.fullmatch(bare) is None:
            return False
        self.current = None
        return True

    def _underlined(self, label: _Section, raw: str) -> bool:
        """A label with a line below it is a heading of its level, which holds for the headings below that too."""
        title = self.text[slice(*label.block.pieces[0])].strip()
        if _ITEM.match(title) or title[0] in ">|" or _UNDERLINE.fullmatch(raw.rstrip("\r\n")) is None:
            return False
        self.sections.pop()  # nothing has begun since
        self._headed(label.block, title, 1 if "=" in raw else 2, shade=False)
        return True

    def _label(self, number: int, bare: str, place: tuple[int, int], *, shade: bool) -> bool:
        """A line that is nothing but a label."""
        done = _letters(bare) == "done"
        plain = _plain(bare)
        opens = plain in _OPEN and plain != bare and not shade and self.current is None
        if not done and not opens:
            return False
        self.current = None
        if not shade:
            self._end(_LABEL_LEVEL)
        if opens or not shade or not self._in(done=True):
            self._begin(_LABEL_LEVEL, Block(number, pieces=[place]), done=done)
            self.label = None if shade else self.sections[-1]
        return True

    def _said(self, number: int, bare: str, place: tuple[int, int]) -> None:
        marked = _ITEM.match(bare)
        rest = _looks(bare[marked.end() :] if marked else bare).strip(" \t*_~`|\\-+")
        declared = _TICK.match(rest) is not None or _LABEL.match(rest) is not None
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
        kinds = [each.done for each in self.sections if each.done is not None]
        return bool(kinds) and kinds[-1] is done

    def _begin(self, level: int, block: Block, *, done: bool | None) -> None:
        self.sections.append(_Section(level, done, block, len(self.blocks)))

    def _end(self, level: int) -> None:
        """What is closed by a heading of this level."""
        for section in [each for each in self.sections if each.level >= level]:
            self._close(section)
        self.sections = [each for each in self.sections if each.level < level]

    def _close(self, section: _Section) -> None:
        if section.done and len(self.blocks) == section.before:
            section.block.declared = True
            self.blocks.append(section.block)


def _shaded(text: str) -> Iterator[bool]:
    """For each line, whether it begins in a comment, or one begins in it."""
    comments, at, place = comments_in(text), 0, 0
    for raw in text.splitlines(keepends=True):
        end = at + len(raw)
        while place < len(comments) and comments[place][1] <= at:
            place += 1
        yield place < len(comments) and comments[place][0] < end
        at = end


def _begins(bare: str) -> bool:
    """Whether a line is read as one for itself: a row, a tag that begins one, or a picture or an arrow for a bullet."""
    first = bare[0]
    return first == "|" or first in _ARROWS or unicodedata.category(first) == "So" or _ELEMENT.match(bare) is not None


def _letters(text: str) -> str:
    """Its words as they look, and nothing else of it."""
    return _NO_LETTERS.sub(" ", _looks(text)).strip()


def _looks(text: str) -> str:
    """What a reader of the page takes it for, in lower case: without tags, with what stands for signs."""
    return folded(unescape(_TAG.sub(" ", text)))


def _plain(text: str) -> str:
    """What is written, less its emphasis and a colon; to the letter, since it takes something from the check."""
    return text.strip(" \t*_").rstrip(":").strip(" \t*_")
