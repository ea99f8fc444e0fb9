"""The two-way test: every required id has a test, and every id that a test names is in the manifest."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby

import pytest

from tests.requirements.claims import read_claims
from tests.requirements.manifest import WEAK_PROOFS, Requirement, requirements

# How many of each the specification prints. A lost entry is a lost requirement, so the counts stand here
# a second time, made by hand; ours are counted apart.
PRINTED = {
    r"HS-\d\d": 14,
    r"DISC-.*": 12,
    r"STATE-[a-z-]+": 19,
    r"STATE-[a-z-]+->[a-z-]+": 44 + 8,
    r"REC-\d\d": 21,
    r"CLASS-[a-z-]+": 6,
    r"TRUST-\d": 5,
    r"GROUND-.*": 8,
    r"METRIC-.*": 19,
    r"TRACE-.*": 11 + 1,
    r"GATE-.*": 8,
    r"L\d\d": 34,
    r"TRUTH-verdict-\d+": 13,
}


def test_every_required_id_has_a_test() -> None:
    tested = read_claims().ids
    uncovered = [each for each in requirements() if each.required and each.id not in tested]
    if uncovered:
        pytest.fail(_grouped(uncovered), pytrace=False)


def test_every_id_that_a_test_names_is_in_the_manifest() -> None:
    known = {each.id for each in requirements()}
    assert [f"{claim.where}: {claim.id}" for claim in read_claims().claims if claim.id not in known] == []


def test_every_requirement_marker_has_a_test_behind_it() -> None:
    assert list(read_claims().faults) == []


def test_a_deferred_id_is_claimed_by_no_test() -> None:
    """An id with a test is no longer deferred: move it to the required ones, or drop the marker."""
    deferred = {each.id for each in requirements() if not each.required}
    assert [f"{claim.where}: {claim.id}" for claim in read_claims().claims if claim.id in deferred] == []


def test_an_id_without_a_behaviour_test_says_what_its_proof_is() -> None:
    """And an id with one says nothing of the kind."""
    claims = read_claims()
    wrong = []
    for each in requirements():
        proofs = claims.proofs(each.id) - {"skipif"}
        weak = {name for name, kind in WEAK_PROOFS.items() if kind in proofs} if "behaviour" not in proofs else set()
        if each.required and proofs and each.proof not in (weak or {""}):
            wrong.append(
                f"{each.id}: proof is {each.proof or 'not stated'}, its tests are of the kind {sorted(proofs)}"
            )
    assert wrong == []


def test_ids_are_unique_and_plain() -> None:
    ids = [each.id for each in requirements()]
    assert [id_ for id_, count in Counter(ids).items() if count > 1] == []
    assert [id_ for id_ in ids if not re.fullmatch(r"[A-Z]+[A-Za-z0-9>-]*", id_)] == []


def test_every_entry_is_one_sentence_and_every_gap_has_its_reason() -> None:
    assert [each.id for each in requirements() if not each.sentence.endswith(".")] == []
    assert [each.id for each in requirements() if not each.required and not each.reason] == []
    sentences = Counter(each.sentence for each in requirements())
    assert [sentence for sentence, count in sentences.items() if count > 1] == []


@pytest.mark.parametrize(("pattern", "count"), PRINTED.items())
def test_nothing_that_the_specification_prints_is_lost(pattern: str, count: int) -> None:
    assert sum(re.fullmatch(pattern, each.id) is not None for each in requirements()) == count


def test_the_transitions_join_the_listed_states() -> None:
    states = {each.id for each in requirements() if each.table == "STATE"}
    for transition in (each.id for each in requirements() if each.table == "TRANSITION"):
        source, _, target = transition.partition("->")
        assert {source, f"STATE-{target}"} <= states, transition


def _grouped(uncovered: list[Requirement]) -> str:
    lines = [f"{len(uncovered)} required ids have no test:"]
    for (file, table), group in groupby(uncovered, key=lambda each: (each.file, each.table)):
        lines.append(f"\n{table} ({file})")
        lines.extend(f"  {each.id}: {each.sentence}" for each in group)
    return "\n".join(lines)
