"""What a report declares as done, by its structure alone: found however it is dressed, and nowhere else."""

from __future__ import annotations

import pytest

from readback.domain.grounding.citation import cite
from readback.domain.grounding.report import (
    CITATIONS_MAX,
    CITED_ACTIONS_MAX,
    FAULTS,
    FAULTS_LISTED_MAX,
    REPORT_MAX_BYTES,
    CitedEvidence,
    Fault,
    judge,
    read_report,
    resolve,
)
from readback.errors import HonestyError, OversizeError
from tests.unit.test_grounding_citation import ACTION, KEPT, TENANT, checked

CITED = str(cite(TENANT, ACTION, KEPT, "/status"))

DECLARES = {
    "a heading": "## Done\n- {}\n",
    "a heading of any level": "###### Done\n{}\n",
    "a heading that closes": "# Done #\n{}",
    "a heading with more": "## Done so far (3)\n{}",
    "a heading with marks": "## ✅ **Done**!\n{}",
    "a numbered heading": "## 2. Done\n{}",
    "an underlined heading": "Done\n----\n{}",
    "a heading in HTML": "<h2>Done</h2>\n{}",
    "a line for itself": "Done:\n{}",
    "a bold line": "**DONE**\n\n{}",
    "an item that heads others": "- Done\n  - {}",
    "a heading below another": "# Report\n## Open\n- this\n### Done\n- {}",
    "a tick": "- [x] {}",
    "a big tick": "* [X] {}",
    "a numbered tick": "1. [x] {}",
    "a sign": "✅ {}",
    "a sign in an item": "- ✔\ufe0f {}",
    "a label": "Done: {}",
    "a bold label": "**Done:** {}",
    "a label in an item": "- Done \u2013 {}",
    "a label in a paragraph": "Some words.\nDone: {}",
    "a quote": "> ## Done\n> - {}",
    "a fence": "```markdown\n## Done\n- {}\n```",
    "a fence that never ends": "~~~\n## Done\n- {}",
    "indented": "    ## Done\n    - {}",
    "carriage returns": "## Done\r\n- {}\r\n",
    "old carriage returns": "## Done\r- {}\r",
    "line separators": "## Done\u2028- {}",
    "letters that look alike": "## D\u043en\u0435\n- {}",
    "wide letters": "\uff03\uff03 \uff24\uff4f\uff4e\uff45\n- {}",
    "letters that cannot be seen": "## D\u200bo\u00adn\u2060e\n- {}",
    "a mark that cannot be seen in front": "\u200b## Done\n- {}",
    "mathematical letters": "## \U0001d403\U0001d428\U0001d427\U0001d41e\n- {}",
    "accents": "## D\u00f6ne\n- {}",
    "a ticked row": "| [x] | {} |",
    "a heading that breaks": "## Done<br>all\n{}",
    "signs that stand for letters": "&#68;one:\n- {}",
    "a tick right behind": "-[x] {}",
    "a tick that is masked": "\\- [x] {}",
    "a row": "## Done\n| order | |\n|---|---|\n| {} | |\n",
    "a heading inside": "## Done\n### {}\n",
    "a heading in a fence that closes nothing": "## Done\n```\n# Open\n```\n- {}",
    "a heading in a quote that closes nothing": "## Done\n> # Open\n\n{}",
    "a heading in a comment that closes nothing": "## Done\n<!--\n# Open\n-->\n- {}",
    "an indented heading that closes nothing": "## Done\n\n    # Open\n\n{}",
    "a heading that only looks like open": "## Done\n## \u041epen\n### Done\n{}",
    "an item that closes nothing": "## Done\n- ## Open\n\n- {}",
    "a rule that closes nothing": "## Done\n---\n- {}",
}


@pytest.mark.parametrize("name", DECLARES)
@pytest.mark.requirement("REPORT-declared", "REPORT-hostile")
def test_what_is_declared_has_to_cite(name: str) -> None:
    text = DECLARES[name]
    without = checked(text.format("all is shipped"))
    assert "uncited" in [each.fault for each in without.faults]
    assert without.exit_code == 1
    shown = checked(text.format(f"all is shipped {CITED}"))
    left = [each for each in shown.faults if each.fault != "uncited" or "shipped" in each.cited]
    assert left == [], shown.faults


@pytest.mark.parametrize(
    "text",
    [
        "## Done\n",
        "## Done\n\n## Open\n- all\n",
        "Done.",
        "Done\n====",
        "# A\n## Done\n# B\ntext",
        f"## Done\n- one {CITED}\n- two\n",
        f"## Done\n- one {CITED}\n\n  and more",
        f"## Done\n- one {CITED}\n### All else, too\n",
        f"## Done\n- one\n  - part {CITED}",
        f"- [x] one <!-- {CITED} -->",
        f"- [x] one <!-- {CITED}",
        f"- [x] [one]({CITED})",
        f"- [x] one\n\n{CITED}: https://example.org",
        f"- [x] one ![{CITED}](x.png)\n- [x] two",
        f"- [x] {CITED}(https://example.org)",
        f"- [x] one\n\n{CITED}",
        f"| a |\n|---|\n\n## Done\n| x |\n| y {CITED} |",
    ],
)
@pytest.mark.requirement("REPORT-declared", "REPORT-hostile")
def test_each_thing_that_is_declared_cites_for_itself_and_where_it_is_seen(text: str) -> None:
    check = checked(text)
    assert {each.fault for each in check.faults} == {"uncited"}
    assert check.faults_total == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I could not do it.",
        "## Not done\n- o-1",
        "## What was done\n- looked at o-1",
        "- [ ] o-1",
        "## Open\nAll of it.\n",
        "The work is done: nothing is left.",
        "Abandoned: o-1",
        "done-for-you",
        f"## Done\n- one {CITED}\n\n## Next\n- o-2\n",
        f"## Done\n- one\n  {CITED}\n- two {CITED} {CITED}\n\n**Open:**\n- three\n",
        f"## Done\n- one [{CITED}]\n- two ({CITED}), as seen.\n",
        f"## Done\n| order | shown |\n|---|---|\n| one | {CITED} |\n",
    ],
)
@pytest.mark.requirement("REPORT-declared")
def test_no_other_word_is_looked_at(text: str) -> None:
    assert checked(text).faults == ()


@pytest.mark.requirement("REPORT-declared", "REPORT-guard")
def test_asked_for_everything_only_what_is_under_open_needs_no_citation() -> None:
    for text, uncited in (
        (f"# Report\n\nOne {CITED}\n\n## Open\n- two\n\n### Why\nthree\n", 0),
        ("All is shipped.", 1),
        ("# All is shipped\n\n## Open\n- nothing", 1),
        ("# Final report\n\nAll is shipped.\n\n## Not done\n- nothing", 1),
        ("## 0pen\n- one", 2),
        ("## \u041epen\n- one", 2),
        ("> ## Open\n\nAll is shipped.", 2),
        ("## Open\n- one\n## Next\n- two", 2),
    ):
        assert judge(read_report(text), {}, every=True).faults_total - text.count("[readback") == uncited, text


@pytest.mark.requirement("REPORT-hostile", "REPORT-resolves")
@pytest.mark.parametrize(
    "text",
    [
        "| All is shipped |\n| --- |\n",
        "| All is shipped |\n| --- |\n\n| row |\n",
        "| All is shipped |\n| --- |\n| --- |\n",
        "``` All is shipped ```\n",
        "``` All is shipped\n```\n",
        "~~~\n``` All is shipped\n~~~\n",
        "~~~\n```shipped\n~~~\n",
    ],
)
def test_asked_for_everything_neither_a_table_without_rows_nor_the_marks_of_code_hide_a_word(text: str) -> None:
    check = judge(read_report(text), {}, every=True)
    assert [fault.fault for fault in check.faults] == [Fault.UNCITED] * check.faults_total
    assert not check.passed


@pytest.mark.parametrize(
    "text", ["```python\n```\n", "~~~ json\n~~~\n", f"| order | state |\n|---|---|\n| 1 | {CITED} |\n"]
)
def test_the_language_of_code_and_the_names_of_columns_say_nothing(text: str) -> None:
    assert not any(fault.fault is Fault.UNCITED for fault in judge(read_report(text), {}, every=True).faults)


def test_code_within_a_line_ends_no_section_that_comes_after_it() -> None:
    text = f"Shipped {CITED}\n``` order 17 ``` {CITED}\n## Open\n- the invoice\n"
    assert not any(fault.fault is Fault.UNCITED for fault in judge(read_report(text), {}, every=True).faults)


def test_a_citation_that_only_names_a_link_is_not_seen() -> None:
    link = f"- [x] [all is shipped]{CITED}\n"
    assert checked(link).passed
    hidden = checked(f"{link}\n{CITED}: https://example.com\n")
    assert [fault.fault for fault in hidden.faults] == [Fault.UNCITED]


def test_what_only_looks_like_a_citation_fails_wherever_it_stands() -> None:
    bare = CITED[1:-1]
    for text in (
        f"\uff3b{bare}\uff3d", f"[{bare.replace('readback', 'Readback')}]", f"[{bare.replace('a', chr(0x430), 1)}]",
        f"({bare})", f"【{bare}】", f"[[{bare}", f"{bare}", "[readback:", "[ readback : x ]", "`[readback:x:/y:z]`",
        f"[readback:{CITED}:/x:{'a' * 64}]", f"[{bare.replace(':', chr(0xff1a))}]", f"[\u200b{bare}]",
        f"[rea\ndback{bare[8:]}]", f"[{bare[:-1]}\u2060{bare[-1]}]", f"[{bare}0]", f"[{bare.upper()}]",
    ):  # fmt: skip
        found = {each.fault for each in checked(text).faults}
        assert found == {"malformed"}, text
    for text in ("readback: yes", "Readback says: no", "sha256:" + "a" * 64, f"evidence:sha256:{'a' * 64}", "[a](b:c)"):
        assert checked(text).passed, text
    check = checked(f"one\r\ntwo \U0001d403 [readback:x]\r\n\u200bthree [\u200breadback:x]\nfour {CITED[:-1]}")
    assert [(each.fault, each.line) for each in check.faults] == [("malformed", 2), ("malformed", 3), ("malformed", 4)]


@pytest.mark.slow
@pytest.mark.requirement("REPORT-hostile")
@pytest.mark.parametrize(
    "unit",
    [
        "[", "]", "[readback:", "> ", "#", "-", "|-", "`", "<!--", "<", "- [x] ", "## Done\n", "> # Done\n", "\u200b",
        ":/", "readback:" + "a" * 500, "\u0430", "Done\n", "## Open\n### Done\n", "|a|\n|-|\n", "*_", "~", " ", "%",
        "a\n--\n", "[x](", "done", ":0-1:" + "a" * 62, "\r", "[readback ", '<a "', "<details>",
        "- a\n", "> a\n\n", "1. a\n   ", "[a]: b\n", "a\n",
    ],
)  # fmt: skip
def test_a_huge_report_of_one_thing_over_and_over_is_checked_in_time(unit: str) -> None:
    """What takes the square of a report's size takes longer at its limit than a test may."""
    size = REPORT_MAX_BYTES // 4 if "\n" in unit else REPORT_MAX_BYTES
    judge(read_report(unit * (size // len(unit.encode()))), {}, every=True)


@pytest.mark.slow
@pytest.mark.requirement("REPORT-hostile")
@pytest.mark.parametrize("unit", ['"- ## Done\n> --\nDone:', "> # a\nb\n"])
def test_a_report_whose_quotes_run_into_each_other_is_refused_where_that_would_take_hours(unit: str) -> None:
    few = read_report(unit * 20)
    judge(few, {}, every=True)
    with pytest.raises(OversizeError, match="a blank line behind each quote"):
        read_report(unit * 2_000)


@pytest.mark.slow
@pytest.mark.requirement("REPORT-hostile")
@pytest.mark.parametrize(
    "unit",
    ["> " * 18 + "a\nb\nc\nd\n", "> - > - > - > - a\n", "- a\n  - b\n    - c\n", "> a\n> b\n\n", "- a\n\n  > b\n"],
)
def test_a_report_of_many_quotes_and_lists_is_read(unit: str) -> None:
    assert read_report(unit * 1_000).blocks


@pytest.mark.requirement("REPORT-hostile")
def test_limits_hold_to_the_last_sign() -> None:
    assert read_report("x" * REPORT_MAX_BYTES).text
    for text in ("x" * (REPORT_MAX_BYTES + 1), "\u00e4" * (REPORT_MAX_BYTES // 2) + "x"):
        with pytest.raises(OversizeError):
            read_report(text)
    assert len(read_report(CITED * CITATIONS_MAX).citations) == CITATIONS_MAX
    with pytest.raises(OversizeError):
        read_report(CITED * (CITATIONS_MAX + 1))
    others = [CITED.replace(ACTION, f"a{n}") for n in range(CITED_ACTIONS_MAX)]
    assert len(read_report("".join(others)).action_ids) == CITED_ACTIONS_MAX
    with pytest.raises(OversizeError):
        read_report("".join([*others, CITED]))
    check = checked("\n".join(["- [x] no"] * (FAULTS_LISTED_MAX + 1)))
    assert (check.faults_total, len(check.faults), check.faults[-1].line) == (
        *(FAULTS_LISTED_MAX + 1, FAULTS_LISTED_MAX),
        FAULTS_LISTED_MAX,
    )


@pytest.mark.requirement("REPORT-resolves")
def test_a_check_says_what_is_wrong_where_and_how_it_ends() -> None:
    check = checked(f"# Report\n\n## Done\n- one {CITED}\n- {'two ' * 80}\n\n[readback:nothing]\n")
    assert check.as_json() == {
        "passed": False, "run": "", "citations": 1, "actions": 1, "declared": 3, "faults_total": 3, "exit_code": 1,
        "faults": [
            {"code": "uncited", "line": 5, "message": FAULTS[Fault.UNCITED], "cited": f"- {'two ' * 80}"[:160].strip(),
             "action": ""},
            {"code": "malformed", "line": 7, "message": FAULTS[Fault.MALFORMED], "cited": "[readback:nothing]",
             "action": ""},
            {"code": "uncited", "line": 7, "message": FAULTS[Fault.UNCITED], "cited": "[readback:nothing]",
             "action": ""},
        ],
    }  # fmt: skip
    assert set(FAULTS) == set(Fault)
    report = read_report(f"{CITED} {CITED}")
    [cited] = report.cited(ACTION)
    assert report.cited("other") == ()
    for fault in Fault:
        ended = judge(report, {cited: fault}, run="r-1")
        assert (ended.passed, ended.faults_total, ended.run) == (False, 2, "r-1")
        assert ended.exit_code == (3 if fault in ("pending", "undetermined", "erased", "missing", "outdated") else 1)
        assert (
            ended.as_json()["faults"]
            == [{"code": fault, "line": 1, "message": FAULTS[fault], "cited": CITED, "action": ACTION}] * 2
        )
        assert judge(read_report(f"{CITED}\n- [x] no"), {cited: fault}).exit_code == 1
    ground = CitedEvidence(KEPT, Fault.RETRACTED)
    assert resolve(report, ACTION, ground, TENANT) == {cited: Fault.RETRACTED}
    assert [each.fault for each in judge(report, {}).faults] == ["unknown", "unknown"]
    with pytest.raises(HonestyError):
        bool(judge(report, {}))


SECOND = {
    "a row of a table without outer bars": "Order {0} | State\n--- | ---\no-17 | shipped {0}\n{1}",
    "a row without bars": "Order {0}\n|---|\no-17 shipped {0}\n{1}",
    "a row without bars behind rows with them": "| Order | State |\n|---|---|\n| o-17 | shipped {0} |\n{1}",
    "an item with a letter": "a) o-17 is shipped {0}\nb) {1}",
    "an item in brackets": "(1) o-17 is shipped {0}\n(2) {1}",
    "a bullet of another kind": "● o-17 is shipped {0}\n● {1}",
    "an arrow": "→ o-17 is shipped {0}\n→ {1}",
    "a picture for a bullet": "\U0001f4e6 o-17 is shipped {0}\n\U0001f4e6 {1}",
    "an item in HTML": "<ul>\n<li>o-17 is shipped {0}</li>\n<li>{1}</li>\n</ul>",
    "a paragraph in HTML": "<p>o-17 is shipped {0}</p>\n<p>{1}</p>",
    "a row in HTML": "<table>\n<tr><td>o-17</td><td>{0}</td></tr>\n<tr><td>{1}</td></tr>\n</table>",
}


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("every", [True, False])
@pytest.mark.requirement("REPORT-declared", "REPORT-hostile")
def test_what_is_read_as_a_thing_of_its_own_is_not_covered_by_the_citation_before_it(name: str, every: bool) -> None:
    text = ("" if every else "## Done\n") + SECOND[name]
    assert [each.fault for each in checked(text.format(CITED, "o-18 is shipped"), every=every).faults] == ["uncited"]
    assert checked(text.format(CITED, f"o-18 is shipped {CITED}"), every=every).passed


@pytest.mark.requirement("REPORT-declared")
def test_the_columns_of_a_table_without_outer_bars_need_no_citation_either() -> None:
    assert checked(f"# Report\n## Done\nOrder | State\n--- | ---\no-17 | shipped {CITED}\n\n## Open\n- x\n").passed


UNSEEN = {
    "an attribute": "<p title='{}'>All is shipped.</p>",
    "an attribute with more in it": '<p title="a > b {} c">All is shipped.</p>',
    "a value without quotes": "<p title={}>All is shipped.</p>",
    "an address": "All is shipped <https://shop.example/{}>",
    "a hidden element": "All is shipped.\n<span class=x hidden>{}</span>",
    "an element that is styled away": "All is shipped <b style='display:none'>{}</b>",
    "a script": "All is shipped <script>{}</script>",
}


@pytest.mark.parametrize("name", UNSEEN)
@pytest.mark.requirement("REPORT-declared", "REPORT-hostile")
def test_a_citation_in_a_tag_or_behind_one_that_hides_is_none_that_a_reader_sees(name: str) -> None:
    assert [each.fault for each in checked(UNSEEN[name].format(CITED), every=True).faults] == ["uncited"]


@pytest.mark.requirement("REPORT-declared")
@pytest.mark.parametrize(
    "text", ["<p>All is shipped {}</p>", "As 3 < 4, all is shipped {}, and 5 > 4.", "<b>Sent</b> {}"]
)
def test_a_citation_beside_tags_and_signs_is_seen(text: str) -> None:
    assert checked(text.format(CITED), every=True).passed


@pytest.mark.requirement("REPORT-declared", "REPORT-hostile")
@pytest.mark.parametrize("tag", ["details", "div hidden", "section", "blockquote"])
def test_what_is_open_is_not_declared_so_by_a_heading_that_is_folded_away(tag: str) -> None:
    text = f"<{tag}>\n\n## Open\n\n</{tag.split()[0]}>\n\nAll is shipped.\n"
    assert not checked(text, every=True).passed


PASSED_BEFORE_ITS_TIME = {
    "code behind an indented fence": "```\n    ```\n## Open\n```\n\n{}\n",
    "code behind a quoted fence": "```\n> ```\n## Open\n```\n\n{}\n",
    "code in an item": "- log {0}\n\n  ```\n  ## Open\n  ```\n\n- {1}\n",
    "HTML": "<p>\n## Open\n</p>\n\n{}\n",
    "an item's paragraph": "- log {0}\n\n  ## Open\n\n{1}\n",
    "a tag that hides": "log {0} <p hidden>\n\n## Open\n\n</p>\n\n{1}\n",
    "a fold": "log {0} <details>\n\n## Open\n\n</details>\n\n{1}\n",
}
"""Reports in which only a parser of another kind sees that what follows is open."""


@pytest.mark.parametrize("name", PASSED_BEFORE_ITS_TIME)
@pytest.mark.requirement("REPORT-guard", "REPORT-hostile")
def test_what_no_reader_sees_as_open_has_to_cite(name: str) -> None:
    form = PASSED_BEFORE_ITS_TIME[name]
    text = form.format(CITED, "All is shipped.") if "{0}" in form else form.format("All is shipped.")
    shown = [each.cited for each in checked(text, every=True).faults if each.fault is Fault.UNCITED]
    assert any("All is shipped." in each for each in shown), shown


@pytest.mark.requirement("REPORT-declared")
def test_a_report_of_many_forms_that_cites_all_it_says_passes() -> None:
    text = (
        f"Final report\n============\n\n## Done\n\n1. order o-17 {CITED}\n\n   ```json\n   {{}} {CITED}\n   ```\n"
        f"2. its invoice {CITED}\n   - sent {CITED}\n\n| order | state |\n|:--|--:|\n| o-17 | {CITED} |\n\n<br>\n\n"
        "Open\n----\n- o-18\n\n```\n# log\n```\n\n### Why\n> no stock\n"
    )
    assert checked(text, every=True).faults == ()


@pytest.mark.requirement("REPORT-resolves")
def test_a_report_without_a_fault_ends_with_zero_and_one_with_a_fault_names_its_line() -> None:
    assert checked(f"- [x] one {CITED}").exit_code == 0
    lines = "\n".join(f"{n} of many words" for n in range(200))
    [fault] = checked(f"{lines}\n\n- [x] no\n").faults
    assert fault.line == 202


@pytest.mark.requirement("REPORT-hostile")
def test_half_a_character_is_read_as_any_other() -> None:
    assert checked(f"- [x] \ud800 {CITED}").passed
