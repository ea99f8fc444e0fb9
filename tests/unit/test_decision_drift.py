"""Drift events and seals, word by word."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from readback.canon import UnsupportedValueError, sha256_hex
from readback.decisions.model.drift import NOTES_MAX_CHARS, Drift, told_once
from readback.decisions.model.seals import BINDING, RULE, RULES, matching_rule, seal_hash, sealed
from readback.decisions.model.verification import VerificationResult, fault_of
from readback.decisions.model.words import DriftType, Severity

BARE = Drift(DriftType.FRESHNESS, Severity.YELLOW, "feature-age", "Too old.")
DRIFT = BARE.of(decision_type="quote", version="2.1", episode_id="ep-7", at_us=1_500_000, evidence=("ev-1", "ev-2"))


def test_a_drift_event_says_this_and_nothing_else() -> None:
    assert DRIFT.as_json() == {
        "driftId": "dr_" + sha256_hex(b"ep-7\nquote::freshness.feature-age")[:24],
        "episodeId": "ep-7",
        "driftType": "freshness",
        "severity": "yellow",
        "detectedAt": "1970-01-01T00:00:01.500000Z",
        "evidenceRefs": ["ev-1", "ev-2"],
        "recommendedPatchType": "ttl_change",
        "fingerprint": {"key": "quote::freshness.feature-age", "version": "2.1"},
        "notes": "Too old.",
    }
    assert (DRIFT.kind, DRIFT.severity, DRIFT.cause) == (BARE.kind, BARE.severity, BARE.cause)


def test_the_same_drift_of_the_same_episode_is_one_event_and_notes_are_bounded() -> None:
    assert replace(DRIFT, at_us=9, evidence=(), notes="x").id == DRIFT.id
    assert replace(DRIFT, episode_id="ep-8").id != DRIFT.id
    assert replace(DRIFT, cause="other").id != DRIFT.id
    assert replace(DRIFT, notes="x" * 900).as_json()["notes"] == "x" * NOTES_MAX_CHARS


def test_of_one_kind_and_cause_the_worst_is_told_in_the_place_of_the_first() -> None:
    red, green = replace(BARE, severity=Severity.RED), replace(BARE, severity=Severity.GREEN)
    other_cause, other_kind = replace(BARE, cause="other"), replace(BARE, kind=DriftType.TIME)
    again = replace(BARE, notes="Again.")
    assert told_once([BARE, other_cause, red, other_kind, green]) == (red, other_cause, other_kind)
    assert told_once([BARE, again]) == (BARE,)
    assert told_once([]) == ()


# --- seals ---

EPISODE: dict[str, Any] = {
    "episodeId": "ep-7",
    "action": "refund",
    "actor": "agent",
    "title": "Caf\u00e9",
    "none": None,
    "rows": [{"b": 2, "a": 1}],
}


def digest(value: Any, *, ascii_only: bool = True) -> str:
    return sha256_hex(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only).encode())


def stating(stated: str, key: str = "sealHash") -> dict[str, Any]:
    return {**EPISODE, "seal": {"sealedAt": "t", key: stated}}


def test_a_seal_is_over_everything_but_itself_and_replaces_the_one_before() -> None:
    first = sealed(EPISODE, "t1")
    assert first == {**EPISODE, "seal": {"sealedAt": "t1", "sealHash": digest(EPISODE)}}
    again = sealed(first, "t2")
    assert again == {**EPISODE, "seal": {"sealedAt": "t2", "sealHash": digest(EPISODE)}}
    assert matching_rule(again) == RULE
    assert matching_rule({**again, "actor": "other"}) is None


COMPOSED = {"episodeId": "ep-7", "action": "refund", "actor": "agent", "title": "Caf\u00e9", "rows": [{"b": 2, "a": 1}]}
THREE = {"episodeId": "ep-7", "action": "refund", "actor": "agent"}


@pytest.mark.parametrize(
    ("rule", "stated"),
    [
        ("sorted-ascii", digest(EPISODE)),
        ("sorted-utf8", digest(EPISODE, ascii_only=False)),
        ("nfc-without-nulls", digest(COMPOSED, ascii_only=False)),
        ("sha256-prefixed", "sha256:" + digest(EPISODE)),
        ("sha256-prefixed", "sha256:" + digest({**EPISODE, "seal": {"sealedAt": "t", "sealHash": ""}})),
        ("three-fields-only", digest(THREE)),
        ("three-fields-only", "sha256:" + digest(THREE)),
        ("literal-scaffold", "scaffold"),
        (None, "sha256:" + digest(COMPOSED)),
        (None, ""),
    ],
)
def test_a_seal_is_known_by_the_rule_that_made_it(rule: str | None, stated: str) -> None:
    assert matching_rule(stating(stated)) == rule


def test_a_seal_may_name_its_hash_otherwise_and_one_without_a_hash_has_no_rule() -> None:
    assert matching_rule(stating(digest(EPISODE), "hash")) == RULE
    other = "sha256:" + digest({**EPISODE, "seal": {"sealedAt": "t", "hash": ""}})
    assert matching_rule(stating(other, "hash")) == "sha256-prefixed"
    seals: tuple[Any, ...] = (None, "x", {}, {"sealHash": 7}, {"sealHash": None, "hash": digest(EPISODE)})
    for seal in seals:
        assert matching_rule({**EPISODE, "seal": seal}) is None
    assert matching_rule(EPISODE) is None


def test_the_same_letters_in_two_spellings_are_one_under_the_rule_that_composes_them() -> None:
    spelled = {**EPISODE, "title": "Cafe\u0301", "e\u0301": ["e\u0301", {"n": None}]}
    stated = digest({**COMPOSED, "\u00e9": ["\u00e9", {}]}, ascii_only=False)
    assert matching_rule({**spelled, "seal": {"sealHash": stated}}) == "nfc-without-nulls"


def test_what_has_no_written_form_is_refused_and_binding_rules_are_named() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for odd in ({"x": float("nan")}, {"x": object()}, {"x": deep}, {"x": "\ud800", 1: 2}):
        with pytest.raises(UnsupportedValueError, match="no one written form"):
            seal_hash(odd)  # type: ignore[arg-type]
    assert RULES.keys() > BINDING
    assert RULES.keys() - BINDING == {"three-fields-only", "literal-scaffold"}


# --- what a custom verifier answers ---


def test_an_answer_is_one_of_three_words_of_its_own_type() -> None:
    for outcome in ("pass", "fail", "inconclusive"):
        assert fault_of(VerificationResult(outcome, "why")) == ""
    others: tuple[Any, ...] = ("passed", "", None, True, type("S", (str,), {})("pass"))
    for odd in others:
        with pytest.raises(ValueError, match="'pass', 'fail' or 'inconclusive'"):
            VerificationResult(odd)
    with pytest.raises(ValueError, match="The detail must be a text"):
        VerificationResult("pass", None)  # type: ignore[arg-type]
    for other, named in (("pass", "str"), (True, "bool"), (None, "NoneType"), ({"outcome": "pass"}, "dict")):
        assert fault_of(other) == f"The verifier returned {named} in place of a VerificationResult."
