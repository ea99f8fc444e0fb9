"""Any single change of a citation, or of what it cites, is caught: wherever it stands in a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback.canon import payload_bytes, sha256_hex, stored_bytes
from readback.domain.grounding.citation import CITATION, Citation, Evidence, cite, read_citation
from readback.domain.grounding.report import CitedEvidence, ReportCheck, judge, read_report, resolve
from readback.domain.state import State
from readback.errors import CitationError
from tests.unit.test_belief import outcome

TENANT, ACTION = "acme", "01kdvdna0000056w0xxj2eff9m"
STATE: Any = {
    "status": "shipped",
    "carrier": "dhl",
    "statu": "shipped",
    "parts": [1, 1, {"a/b~c é:]": "shipped"}],
    "n": 7,
}
KEPT = stored_bytes(STATE)
PLACES = ("", "/status", "/parts/0", "/parts/2/a~1b~0c é:]", "5-9", "/n")
TEXTS = ("- [x] it is shipped {}", "It is shipped {}, and that is all.", "> {}", "```\n{}\n```", "<!-- {} -->")
SIGNS = "aF0 :]-/[~%\n\r\t(\u200b\u0430\u00ad\uff1a\ufe0f{}"

odd_signs = st.one_of(st.sampled_from(SIGNS), st.characters(exclude_categories=()))


def checked(
    text: str, evidence: bytes = KEPT, tenant: str = TENANT, action_id: str = ACTION, *, every: bool = False
) -> ReportCheck:
    report = read_report(text)
    resolved: dict[Citation, Any] = {}
    for each in report.action_ids:
        if each == action_id:
            resolved |= resolve(report, each, CitedEvidence(evidence), tenant)
    return judge(report, resolved, every=every)


def _written(place: str) -> str:
    return str(cite(TENANT, ACTION, KEPT, place))


@pytest.mark.parametrize("place", PLACES[:3])
@pytest.mark.requirement("REPORT-bound", "REPORT-resolves")
@pytest.mark.slow
def test_every_sign_of_a_citation_counts(place: str) -> None:
    cited = _written(place)
    for text in TEXTS[:2]:
        assert checked(text.format(cited)).passed
        for at, sign in enumerate(cited):
            for other in ("", *SIGNS):
                if other == sign:
                    continue
                changed = cited[:at] + other + cited[at + 1 :]
                assert not checked(text.format(changed)).passed, (text, changed)


@pytest.mark.requirement("REPORT-bound")
@settings(max_examples=400)
@given(st.sampled_from(PLACES), st.sampled_from(TEXTS), st.data())
@pytest.mark.slow
def test_whatever_is_put_into_a_citation_is_caught(place: str, text: str, data: st.DataObject) -> None:
    cited = _written(place)
    at = data.draw(st.integers(1, len(cited) - 1))
    put = data.draw(odd_signs)
    taken = data.draw(st.integers(0, 1))
    changed = cited[:at] + put + cited[at + taken :]
    if cited in changed:
        return  # the same sign once more in front or behind: the citation itself is as it was
    assert not checked(text.format(changed)).passed


@pytest.mark.requirement("REPORT-bound")
@settings(max_examples=300)
@given(st.sampled_from(PLACES), st.integers(0, len(KEPT) - 1), st.integers(0, 255))
@pytest.mark.slow
def test_a_byte_of_the_evidence_that_is_cited_is_not_changed_unseen(place: str, at: int, byte: int) -> None:
    changed = KEPT[:at] + bytes([byte]) + KEPT[at + 1 :]
    cited = cite(TENANT, ACTION, KEPT, place)
    try:
        same = Evidence(changed).at(cited.place) == Evidence(KEPT).at(cited.place)
    except ValueError:
        same = False
    assert checked(f"- [x] {cited}", changed).passed is same


@pytest.mark.requirement("REPORT-bound")
def test_the_same_value_of_another_place_action_or_tenant_has_another_citation() -> None:
    made = {
        str(cite(tenant, action_id, KEPT, place))[-65:]
        for tenant in ("acme", "acm")
        for action_id in ("a", "b")
        for place in ("/status", "/statu", "/parts/0", "/parts/1", "/parts/2/a~1b~0c é:]")
    }
    assert len(made) == 20
    cited = _written("/status")
    assert [each.fault for each in checked(cited, tenant="other").faults] == ["hash"]
    assert [each.fault for each in checked(cited.replace("/status", "/statu")).faults] == ["hash"]
    assert [each.fault for each in checked(cited.replace("/status", "/none")).faults] == ["place"]
    assert [each.fault for each in checked(cited, action_id="other").faults] == ["unknown"]
    whole = _written("")
    assert [each.fault for each in checked(whole.replace(f"0-{len(KEPT)}", f"0-{len(KEPT) + 1}")).faults] == ["place"]
    assert [each.fault for each in checked(_written("/status"), b"no JSON").faults] == ["place"]


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def _pointers(value: Any, at: str = "") -> list[str]:
    found = [at] if at else []
    if isinstance(value, dict):
        for key, part in value.items():
            found += _pointers(part, f"{at}/{key.replace('~', '~0').replace('/', '~1')}")
    if isinstance(value, list):
        for index, part in enumerate(value):
            found += _pointers(part, f"{at}/{index}")
    return found


@pytest.mark.requirement("REPORT-written", "REPORT-bound")
@settings(max_examples=200)
@given(_json, st.text(min_size=1, max_size=12), st.data())
@pytest.mark.slow
def test_whatever_is_cited_has_one_spelling_and_is_read_back_as_it_was_written(
    value: Any, action_id: str, data: st.DataObject
) -> None:
    try:
        kept = stored_bytes(value)
    except ValueError:
        return
    place = data.draw(st.sampled_from(["", *_pointers(value)]))
    written = cite(TENANT, action_id, kept, place)
    found = CITATION.fullmatch(str(written))
    assert found is not None
    assert read_citation(found) == written
    assert str(written).isascii()
    assert checked(f"- [x] {written}", kept, action_id=action_id).passed
    if place:
        inner = value
        for step in place.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            inner = inner[int(key)] if isinstance(inner, list) else inner[key]
        assert Evidence(kept).at(written.place) == payload_bytes(inner)


@pytest.mark.parametrize(
    "spelled",
    [
        "/%73tatus",
        "/st%61tus",
        "/%2fa",
        "/a%",
        "/a%2",
        "/%ff",
        "/~2",
        "/a~",
        "00-5",
        "0-05",
        "0-0",
        "5-4",
        "9-9",
        "0-9999",
    ],
)
@pytest.mark.requirement("REPORT-bound", "REPORT-hostile")
def test_another_spelling_or_place_is_none(spelled: str) -> None:
    text = f"[readback:{ACTION}:{spelled}:{'a' * 64}]"
    assert not checked(text).passed


@pytest.mark.parametrize(
    "spelled", ["%30" + ACTION[1:], f"%zz{ACTION}", f"{ACTION}%", f"{ACTION}%2", f"{ACTION}%ff", "%e4"]
)
@pytest.mark.requirement("REPORT-bound", "REPORT-hostile")
def test_another_spelling_of_the_action_is_malformed(spelled: str) -> None:
    text = _written("/status").replace(ACTION, spelled)
    assert [each.fault for each in checked(text).faults] == ["malformed"]


@pytest.mark.requirement("REPORT-written")
def test_what_cannot_be_written_down_is_refused_by_name() -> None:
    for place in (
        "/none",
        "/status/x",
        "/parts/01",
        "/parts/3",
        "/~2",
        "status",
        "5-5",
        "6-5",
        "0-100000",
        "00-5",
        "/" * 1100,
    ):
        with pytest.raises(CitationError) as refused:
            cite(TENANT, ACTION, KEPT, place)
        assert refused.value.code == "citation.place"
        assert repr(place[:99])[:-1] in refused.value.message
    with pytest.raises(CitationError):
        cite(TENANT, "a" * 769, KEPT)
    assert str(cite(TENANT, "a" * 768, KEPT)).startswith("[readback:aaa")
    deep = stored_bytes({"a" * 1024: 1})
    assert Evidence(deep).at(cite(TENANT, ACTION, deep, "/" + "a" * 1024).place) == b"1"
    with pytest.raises(CitationError):
        cite(TENANT, ACTION, stored_bytes({"a" * 1025: 1}), "/" + "a" * 1025)
    assert str(cite("acme", "a", b'{"n":7}', "/n")) == (
        "[readback:a:/n:" + sha256_hex(f'["readback/citation/1","acme","a","/n","{sha256_hex(b"7")}"]'.encode()) + "]"
    )
    assert str(cite("acme", "a:b/\u00e9", b"null")).startswith("[readback:a%3Ab%2F%C3%A9:0-4:")


def test_nothing_is_cited_that_stands_upon_what_fell() -> None:
    standing = outcome(1, State.RECONCILED_SUCCESS, authoritative={"status": "shipped"})
    assert standing.cite("/status").startswith("[readback:")
    for fallen in (replace(standing, fallen=("01claim",)), replace(standing, contested=True)):
        with pytest.raises(CitationError) as caught:
            fallen.cite("/status")
        assert caught.value.code == "citation.not-standing"
