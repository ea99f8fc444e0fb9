"""What passes the guard, against the page that a reader is shown: rendered, and looked at as a browser has it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from readback.domain.grounding.report import judge, read_report

SAID = "All is shipped."
FRAGMENTS = (
    "## Open\n", "# Open\n", "Open\n----\n", "**Open:**\n", "Open:\n", "### Not done\n", "## Else\n", "# Else\n",
    "Else\n", "===\n", "---\n", "***\n", "```\n", "~~~\n", "    ```\n", "> ```\n", "  ```\n", "`", "``", "> ", "- ",
    "1. ", "  ", "    ", "\t", "\n", "\n\n", "\r", "\u2028", "\x0b", "\x85", "<div>\n", "</div>\n", "<pre>\n",
    "</pre>\n", "<!-- ", "-->\n", "<details>\n", "</details>\n", "<p hidden>\n", "</p>\n", "<script>\n",
    "</script>\n", "<?x\n", "?>\n", "<x\n", ">\n", "<![CDATA[", "]]>\n", "| a | b |\n", "|---|---|\n", "[x]: /y\n",
    "![", "](x)\n", "&nbsp;", "\\", "a\n",
)  # fmt: skip
NEVER_SHOWN = {"script", "style", "template", "title", "textarea", "details"}
HEADINGS = {f"h{level}" for level in range(1, 7)}
PAGE = MarkdownIt("commonmark").enable("table")


class Page(HTMLParser):
    """What is shown in order: each text, and the tags that it stands in."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.inside: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[tuple[str, list[str]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("br", "hr", "img"):
            self.inside.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        for at in range(len(self.inside) - 1, -1, -1):
            if self.inside[at][0] == tag:
                del self.inside[at:]
                return

    def handle_data(self, data: str) -> None:
        if not any(tag in NEVER_SHOWN or attrs.keys() & {"hidden", "style"} for tag, attrs in self.inside):
            self.shown.append((data, [tag for tag, _ in self.inside]))


def open_at_the_end(text: str) -> bool:
    """Whether the last words of a report are shown below something that says that it is open."""
    level = 0
    for words, tags in Page(PAGE.render(text)).shown:
        on_page = not {"li", "blockquote"} & set(tags)
        name = words.strip().strip(" \t\x0b\x0c\x85\u2028*_#").rstrip(":").strip(" *_")
        heading = next((int(tag[1]) for tag in tags if tag in HEADINGS), 0)
        if name in ("Open", "Not done") and on_page and (heading or "p" in tags):
            level = min(level or 7, heading or 7)
        elif heading and name and on_page and heading <= level:
            level = 0
    return level > 0


@pytest.mark.requirement("REPORT-guard", "REPORT-hostile")
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12))
def test_what_passes_without_a_citation_stands_below_what_a_page_shows_as_open(parts: list[str]) -> None:
    text = "".join(parts) + f"\n\n{SAID}\n"
    if judge(read_report(text), {}, every=True).passed and SAID in "".join(
        each for each, _ in Page(PAGE.render(text)).shown
    ):
        assert open_at_the_end(text), text
