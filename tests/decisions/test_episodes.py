"""Episodes and drift events: valid against the published schemas, sealed by one rule, and holding what was observed."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.canon import UnsupportedValueError
from readback.decisions.api import Decided
from readback.decisions.contracts.formats import DRIFT, EPISODE
from readback.decisions.model.drift import Drift, read_moment, told_once, written_moment
from readback.decisions.model.seals import RULES, matching_rule, seal_hash, sealed
from readback.decisions.model.words import PATCH_OF, DriftType, Severity
from readback.testing.runtime_virtual import VirtualRuntime
from tests.decisions.given import ABSENT, CORPUS, COUNTS, decide, kind_of, moving, schema
from tests.sdk.given import Desk, opened, ship_of

EPISODES = CORPUS / "deepsigma" / "episodes"


def by_hand(episode: Any) -> str:
    """The rule as the documentation says it, written once more."""
    rest = {key: value for key, value in episode.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def all_endings(folder: Path) -> list[Decided]:
    """One decision of each way to end."""
    runtime = VirtualRuntime()
    good, lies, slow = Desk(), Desk(instead=lambda _ctx: {"success": True}), Desk()
    moving(slow, runtime, 2.0)
    kind = kind_of(folder)
    with opened(runtime=runtime) as rb:
        found = [
            decide(kind, good, rb=rb, operation="1"),
            decide(kind, lies, rb=rb, action=ship_of(lies, name="ship", late_window="0s"), operation="2"),
            decide(kind, Desk(), rb=rb, ages={"stock": 999}, operation="3"),
            decide(kind, slow, rb=rb, operation="4", fallback="cache_bundle"),
        ]
        decision = kind.begin(rb)
        from readback.decisions.model.envelope import Snapshot

        decision.context(Snapshot("", {}))
        decision.planned("Nothing to do.")
        found.append(decision.abstain("nothing to do", counts=COUNTS))
    return found


@ABSENT
@pytest.mark.requirement("DT-episode", "DT-drift-kinds")
def test_every_episode_and_every_drift_is_valid_against_the_published_schemas(tmp_path: Path) -> None:
    endings = all_endings(tmp_path)
    assert [each.episode["outcome"]["code"] for each in endings] == [  # type: ignore[index,call-overload]
        "success", "fail", "abstain", "success", "abstain",
    ]  # fmt: skip
    for each in endings:
        assert schema("episode")(each.episode), each.episode
        assert not [*EPISODE.faults(dict(each.episode), "")]
        for drift in each.drifts:
            assert schema("drift")(drift.as_json()), drift
    assert sum(len(each.drifts) for each in endings) >= 3


@ABSENT
@pytest.mark.parametrize("kind", list(DriftType))
@pytest.mark.parametrize("severity", list(Severity))
def test_a_drift_of_every_kind_and_severity_is_valid(kind: DriftType, severity: Severity) -> None:
    drift = Drift(kind, severity, "cause", "x" * 2_000, "Type", "1", "ep_1", 1_767_225_600_000_000, ("ev",))
    assert schema("drift")(drift.as_json())
    assert not [*DRIFT.faults(drift.as_json(), "")]
    assert set(PATCH_OF) == set(DriftType)


def test_of_the_same_drift_the_worst_is_told_once() -> None:
    mild, worse = (Drift(DriftType.TIME, each, "act", "n") for each in (Severity.YELLOW, Severity.RED))
    other = Drift(DriftType.TIME, Severity.GREEN, "plan", "n")
    assert told_once([mild, other, worse]) == (worse, other)
    assert (
        mild.of(decision_type="T", version="1", episode_id="e", at_us=1, evidence=()).id
        == worse.of(decision_type="T", version="1", episode_id="e", at_us=2, evidence=()).id
    )


# --- seals ---


@pytest.mark.requirement("DT-episode", "DT-seal")
def test_an_episode_is_sealed_with_its_verification_in_it_and_any_change_breaks_the_seal(tmp_path: Path) -> None:
    episode = dict(decide(kind_of(tmp_path), Desk()).episode)
    assert episode["seal"]["sealHash"] == by_hand(episode) == seal_hash(episode)  # type: ignore[index,call-overload]
    assert matching_rule(episode) == "sorted-ascii"
    details = episode["verification"]["details"]  # type: ignore[index,call-overload]
    assert details["methods"]["read_after_write"] == {"result": "pass"}  # type: ignore[index,call-overload]
    for key in episode:
        if key != "seal":
            other = deepcopy(episode)
            other[key] = "changed"
            assert matching_rule(other) is None, key
            del other[key]
            assert matching_rule(other) is None, key


@ABSENT
@pytest.mark.requirement("DT-seal", "L22")
@pytest.mark.parametrize("name", ["01_success", "03_time_drift_fallback", "inconclusive_recorded"])
def test_the_published_episodes_verify_by_our_rule(name: str) -> None:
    episode = json.loads((EPISODES / f"{name}.json").read_text(encoding="utf-8"))
    assert matching_rule(episode) == "sorted-ascii"
    assert sealed(episode, episode["seal"]["sealedAt"]) == episode


def _sealed_by(rule: str, episode: dict[str, Any]) -> dict[str, Any]:
    made = {**episode, "seal": {"sealedAt": "2026-01-01T00:00:00Z", "sealHash": ""}}
    return {**made, "seal": {**made["seal"], "sealHash": RULES[rule](made)[-1]}}


@pytest.mark.requirement("DT-seal")
@pytest.mark.parametrize("rule", RULES)
def test_it_is_said_by_which_rule_another_system_sealed(rule: str) -> None:
    episode = {"episodeId": "e", "actor": {"id": "ä"}, "note": "caf\u0065\u0301", "gone": None}
    assert matching_rule(_sealed_by(rule, episode)) == rule


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(episode=st.dictionaries(st.text(max_size=6).filter(lambda key: key != "seal"), json_values, max_size=5))
def test_whatever_is_sealed_verifies_and_the_order_of_keys_is_nothing(episode: dict[str, Any]) -> None:
    made = sealed(episode, "2026-01-01T00:00:00Z")
    assert matching_rule(made) == "sorted-ascii"
    assert matching_rule(dict(reversed(made.items()))) == "sorted-ascii"
    assert made["seal"]["sealHash"] == by_hand(made)  # type: ignore[index,call-overload]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_has_no_one_written_form_is_not_sealed(value: float) -> None:
    with pytest.raises(UnsupportedValueError):
        seal_hash({"a": value})


@pytest.mark.parametrize("seal", [None, 1, {}, {"sealHash": 1}, {"sealHash": "scaffol"}, [], "x"])
def test_a_seal_that_is_none_matches_no_rule(seal: Any) -> None:
    assert matching_rule({"episodeId": "e", "seal": seal}) is None


# --- what is in it ---


@pytest.mark.requirement("L05")
def test_telemetry_is_counted_over_what_was_seen_and_nothing_else(tmp_path: Path) -> None:
    runtime, desk, kind = VirtualRuntime(), Desk(), kind_of(tmp_path)
    told: list[dict[str, Any]] = []
    with opened(runtime=runtime) as rb:
        for number, seconds in enumerate((0.1, 0.2, 0.9)):
            moving(desk, runtime, seconds)
            desk.orders.clear()
            told.append(dict(decide(kind, desk, rb=rb, operation=f"o{number}").episode))
    first, last = told[0]["telemetry"], told[-1]["telemetry"]
    assert (first["endToEndMs"], first["p95Ms"], first["p99Ms"], first["jitterMs"]) == (100, 100, 100, 0)
    assert (last["endToEndMs"], last["p95Ms"], last["p99Ms"], last["jitterMs"]) == (900, 900, 900, 700)
    assert last["stageMs"] == {"context": 0, "plan": 0, "act": 900, "verify": 0}
    assert told[-1]["verification"]["details"]["samples"] == 3


def test_a_repeated_operation_is_answered_and_not_executed(tmp_path: Path) -> None:
    desk, kind, runtime = Desk(), kind_of(tmp_path), VirtualRuntime()
    with opened(runtime=runtime) as rb:
        first = decide(kind, desk, rb=rb)
        runtime.sleep(600)
        second = decide(kind, desk, rb=rb)
    assert desk.calls == 1
    assert (first.proceed, second.proceed) == (True, True)
    assert second.episode["verification"]["details"]["outcome"]["replayed"] is True  # type: ignore[index,call-overload]


MOMENTS = {
    "2026-02-11T06:34:13Z": 1_770_791_653_000_000,
    "2026-02-11T07:34:13+01:00": 1_770_791_653_000_000,
    "2026-02-11t06:34:13.25z": 1_770_791_653_250_000,
    "2026-02-11": None,
    "2026-02-30T00:00:00Z": None,
    "2026-02-11T06:34:13": None,
    "2026-02-11T24:00:00Z": None,
    "2026-02-11T06:34:13+25:00": None,
    "": None,
    "٢٠٢٦-02-11T06:34:13Z": None,
}


@pytest.mark.parametrize(("text", "at_us"), MOMENTS.items())
def test_moments_are_read_exactly_or_not_at_all(text: str, at_us: int | None) -> None:
    assert read_moment(text) == at_us


@given(at_us=st.integers(0, 4_000_000_000_000_000))
def test_a_written_moment_is_read_back(at_us: int) -> None:
    assert read_moment(written_moment(at_us)) == at_us
