"""Supports, markers and marks: what a claim may rest on, and what it may say where there is too little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readback.traces import Policy, Report, read_policy
from readback.traces.format.policy import Mark
from tests.citations.deviations import claim, of, output, renamed
from tests.citations.forging import (
    DOCS,
    Event,
    Forge,
    canonical,
    honest,
    judged,
    marked_run,
    named,
    pleading,
    support,
)

MARKS = Policy(insufficient_statuses=frozenset({"unproven"}), insufficient_marks=(Mark("insufficient", True),))


def aside(forge: Forge, supports: list[Event], **otherwise: Any) -> Event:
    """One more claim, made after the derived one and listed with it."""
    more = Forge(nodes=forge.nodes, files=dict(forge.files))
    made = more.claim(2, "Aside.", supports, **{"claim_type": "observed", **otherwise})
    forge.events.insert(forge.events.index(of(forge, "claim_emitted")) + 1, more.events[0])
    output(forge, "derive")["claim_ids"].append(made["id"])
    return made


def report_of(forge: Forge, folder: Path, policy: Policy | None = None) -> Report:
    return judged(forge.write(folder), policy or Policy())


@pytest.mark.requirement("L24")
def test_a_support_counts_in_what_its_kind_indexes(tmp_path: Path) -> None:
    forge = honest()
    answer = of(forge, "tool_returned")["result"]["result"]
    before = claim(forge)
    aside(
        forge,
        [
            support("claim", before["id"], before["statement"].encode(), 0, 4),
            support("tool_call", of(forge, "tool_called")["call"]["id"], canonical(answer), 0, 12),
        ],
    )
    assert report_of(forge, tmp_path).passed


@pytest.mark.requirement("VC-span-bounds", "L24")
@pytest.mark.parametrize(("start", "end", "code"), [(0, 53, "span.bounds"), (52, 53, "span.bounds"), (0, 52, None)])
def test_a_span_ends_with_the_file_of_its_evidence(start: int, end: int, code: str | None, tmp_path: Path) -> None:
    forge = honest()
    evidence = of(forge, "evidence_registered")["evidence"]
    assert len(DOCS["d1"]) == 52
    aside(forge, [support("evidence", evidence["id"], DOCS["d1"].encode(), start, end)])
    report = report_of(forge, tmp_path)
    assert report.codes == ({code} if code else frozenset())


def test_bytes_and_not_characters_are_cited(tmp_path: Path) -> None:
    """The second document begins with an ü, which is two bytes long."""
    forge = honest()
    evidence = of(forge, "evidence_registered", 1)["evidence"]
    as_characters = support("evidence", evidence["id"], DOCS["d2"].encode(), 0, 4) | {
        "snippet_sha256": support("x", "x", DOCS["d2"][:4].encode(), 0, 99)["snippet_sha256"]
    }
    aside(forge, [as_characters])
    assert "span.hash" in report_of(forge, tmp_path).codes


def test_one_citation_given_twice_counts_once(tmp_path: Path) -> None:
    forge = honest()
    one = claim(forge)["supports"][0]
    marker = f"[evidence:{one['ref_id']}:{one['span'][0]}-{one['span'][1]}:{one['snippet_sha256']}]"
    renamed(forge, supports=[one, dict(one)], statement=f"Twice. {marker} {marker}")
    assert "grounding.too-few" in report_of(forge, tmp_path).codes


@pytest.mark.parametrize("kind", ["claim", "tool_call"])
def test_a_claim_may_not_rest_on_what_comes_after_it(kind: str, tmp_path: Path) -> None:
    forge = honest()
    later = named("claim", "later") if kind == "claim" else named("call", "later")
    aside(forge, [support(kind, later, b"text", 0, 4)])
    code = "support.unknown-claim" if kind == "claim" else "support.unknown-call"
    assert report_of(forge, tmp_path).codes == {code}


@pytest.mark.requirement("VC-citations")
@pytest.mark.parametrize(
    "marker",
    [
        "[evidence:ev]",
        "[Evidence:ev:0-1:{sha}]",
        "[evidence:ev:01-2:{sha}]",
        "[evidence:ev:0-1:{short}]",
        "[ evidence :",
    ],
)
def test_what_only_looks_like_a_marker_is_refused(marker: str, tmp_path: Path) -> None:
    forge = honest()
    text = marker.format(sha="0" * 64, short="0" * 63)
    renamed(forge, statement=f"{claim(forge)['statement']} {text}")
    assert "grounding.marker-malformed" in report_of(forge, tmp_path).codes


@pytest.mark.requirement("L23")
def test_a_run_cannot_ask_for_less_evidence_than_the_caller(tmp_path: Path) -> None:
    forge = honest(constraints={"min_supports_per_claim": 1})
    assert report_of(forge, tmp_path / "a").passed
    assert report_of(forge, tmp_path / "b", Policy(min_supports_per_claim=3)).codes == {"grounding.too-few"}
    assert "grounding.too-few" in report_of(honest(constraints={"min_supports_per_claim": 3}), tmp_path / "c").codes


@pytest.mark.requirement("L23")
def test_a_run_cannot_declare_another_policy_than_its_specification(tmp_path: Path) -> None:
    forge = honest()
    forge.metadata["reasoning_policy"] = {"min_supports_per_claim": 1}
    assert report_of(forge, tmp_path).codes == {"policy.declared"}


@pytest.mark.requirement("VC-insufficient-evidence")
def test_a_plea_of_too_little_evidence_passes_without_derived_claims(tmp_path: Path) -> None:
    assert report_of(pleading(), tmp_path).passed


@pytest.mark.requirement("VC-insufficient-evidence")
@pytest.mark.parametrize(
    "mark", [{"structured": {"insufficient": True}}, {"status": "unproven", "structured": {"note": 1}}]
)
def test_a_plea_passes_where_every_derived_claim_bears_a_mark_that_the_policy_names(
    mark: dict[str, Any], tmp_path: Path
) -> None:
    forge = marked_run(**mark)
    assert report_of(forge, tmp_path, MARKS).passed
    assert not report_of(forge, tmp_path / "default").passed


@pytest.mark.requirement("VC-insufficient-evidence")
@pytest.mark.parametrize("structured", [{"insufficient": 1}, {"insufficient": "true"}, {"other": True}, None])
def test_what_is_not_exactly_the_policys_mark_is_no_mark(structured: Any, tmp_path: Path) -> None:
    assert "insufficient.both" in report_of(marked_run(structured=structured or {"a": 1}), tmp_path, MARKS).codes


@pytest.mark.requirement("VC-insufficient-evidence")
def test_one_unmarked_derived_claim_beside_marked_ones_fails_the_plea(tmp_path: Path) -> None:
    forge = marked_run(structured={"insufficient": True})
    at = forge.events.index(of(forge, "claim_emitted"))
    more = Forge(nodes=forge.nodes)
    more.claim(2, "And this is so.", [])
    forge.events.insert(at + 1, more.events[0])
    assert "insufficient.both" in report_of(forge, tmp_path, MARKS).codes


@pytest.mark.requirement("VC-insufficient-evidence")
def test_a_mark_without_a_plea_excuses_nothing(tmp_path: Path) -> None:
    forge = honest()
    renamed(forge, supports=[], statement="It may be so.", structured={"insufficient": True})
    assert "insufficient.mark-alone" in report_of(forge, tmp_path, MARKS).codes


@pytest.mark.requirement("VC-insufficient-evidence")
def test_a_marked_claim_is_never_final(tmp_path: Path) -> None:
    forge = marked_run(structured={"insufficient": True})
    claimed = claim(forge)
    forge.events = forge.events[:-4]
    forge.concluded(claimed)
    assert "final.unsupported" in report_of(forge, tmp_path, MARKS).codes


def test_a_policy_is_read_as_it_is_documented() -> None:
    text = b'{"version": 1, "min_supports_per_claim": 2, "insufficient": {"statuses": ["unproven"], "structured": '
    policy = read_policy(text + b'[{"key": "insufficient", "equals": true}]}}', "p")
    assert policy == Policy(2, MARKS.insufficient_statuses, MARKS.insufficient_marks, given=True)


def test_steps_that_do_not_wait_for_each_other_may_overlap(tmp_path: Path) -> None:
    forge = honest()
    understood = forge.events.pop(1)
    started = forge.events.pop(1)
    forge.events[1:1] = [understood, started]
    assert report_of(forge, tmp_path / "a").passed
    forge.events[1], forge.events[2] = forge.events[2], forge.events[1]
    assert report_of(forge, tmp_path / "b").codes == {"step.before-dependency"}


@pytest.mark.parametrize(("asked", "passes"), [("2", True), (2.0, True), ("two", False), (True, False), ([2], False)])
def test_a_specification_asks_for_supports_as_the_format_reads_it(asked: Any, passes: bool, tmp_path: Path) -> None:
    forge = honest(constraints={"min_supports_per_claim": asked})
    forge.metadata["reasoning_policy"] = {"min_supports_per_claim": 2}
    assert report_of(forge, tmp_path).codes == (frozenset() if passes else {"policy.declared"})
