"""The page of the report: complete in one file, without a script, and inert whatever a tool answers."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from readback.domain.outcome.shadow import shadow_judgement
from readback.shadow.judging import JudgedCall, Look, Result, WatchedCall
from readback.shadow.page import page, text
from readback.shadow.report import SHOWN_MAX, ContractCounts, ShadowAction, ShadowReport, ToolCounts

HOSTILE = "</pre><script>alert(1)</script><img src=https://evil.test/x onerror=alert(1)>\x1b[31m\u202e\u0000'\""
NAMES = re.compile(r"(?:src|href|srcset|action|data|poster|background)\s*=", re.IGNORECASE)


class Parsed(HTMLParser):
    """The elements of a page, and the attributes that may load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loading: list[tuple[str, str]] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        self.loading += [(tag, name) for name in given if name.startswith("on") or name in ("src", "href", "style")]


def hostile_report() -> ShadowReport:
    state = {"content": [{"type": "text", "text": HOSTILE}], "isError": True}
    look = Look(HOSTILE, {HOSTILE: HOSTILE}, state, state)
    call = WatchedCall(HOSTILE, 1, HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, True, True, HOSTILE, (look,))
    judged = JudgedCall(call, Result.CONTRADICTED, HOSTILE, HOSTILE)
    counts = ToolCounts(HOSTILE, HOSTILE, 2, 2, 0, 1, 0, 1, reasons={HOSTILE: 1})
    said = shadow_judgement({"state": "failed", "verdict": "refuted", "detail": HOSTILE}, "a", HOSTILE, HOSTILE)
    actions = (ShadowAction(HOSTILE, 1, HOSTILE, HOSTILE, said), ShadowAction("b", 1, "c", "d", None))
    return ShadowReport(1, (counts,), (judged,), (ContractCounts(HOSTILE, 2, refuted=1, open=1),), actions)


@pytest.mark.requirement("SHADOW-page")
def test_a_hostile_output_stays_text() -> None:
    made = page(hostile_report(), "2026-01-01 UTC")
    parsed = Parsed()
    parsed.feed(made)
    assert not {"script", "img", "iframe", "object", "embed", "link", "svg", "form", "base", "a"} & {*parsed.tags}
    assert parsed.loading == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in made
    assert not set(made) & {"\x1b", "\u202e", "\x00"}
    assert "\\u{202e}" in made
    assert text("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"


@pytest.mark.requirement("SHADOW-page")
def test_the_page_loads_nothing_and_its_policy_allows_its_own_style_alone() -> None:
    made = page(hostile_report(), "2026-01-01 UTC")
    parsed = Parsed()
    parsed.feed(made)
    style = made.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert parsed.policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.requirement("SHADOW-page")
def test_a_page_of_an_empty_ledger_says_so() -> None:
    made = page(ShadowReport(1, (), (), (), ()), "2026-01-01 UTC")
    assert "No call was watched." in made


def test_single_calls_over_the_limit_are_counted_and_not_listed() -> None:
    report = hostile_report()
    many = ShadowReport(1, report.tools, report.calls * (SHOWN_MAX + 5), (), ())
    assert page(many, "now").count("<article>") == SHOWN_MAX
    assert f"The newest {SHOWN_MAX} of {SHOWN_MAX + 5} are shown." in page(many, "now")
    listed = many.as_json()["calls"]
    assert isinstance(listed, list)
    assert len(listed) == SHOWN_MAX
