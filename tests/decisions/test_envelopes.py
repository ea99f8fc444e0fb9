"""Envelopes: everything wrong with one is named at once and with its place, and nothing of it is used."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.agent_errors import EnvelopeError
from readback.decisions.api import DecisionType
from readback.decisions.contracts import verifiers as verifiers_module
from readback.decisions.contracts.formats import ACTION, DRIFT, ENVELOPE, EPISODE
from readback.decisions.contracts.load import load_envelope
from readback.decisions.model.words import BlastRadius, DegradeStep, Stage
from readback.errors import SettingsError
from tests.decisions.given import ABSENT, CORPUS, asking, changed, schema, verifier, written

DEEPSIGMA = CORPUS / "deepsigma"
YAML = """\
decisionType: ShipOrder
version: "1.0.0"
deadlineMs: soon
stageBudgetsMs: {context: 1, plan: 1, act: 1, verify: 1}
freshness: {defaultTtlMs: 5, featureTtl: {stock: 3}}
limits: {maxHops: 1, maxFanout: 1, maxToolCalls: 1}
degradeLadder:
  - step: hitl
  - step: hitl
  - step: retry
verification:
  requiredAboveBlastRadius: small
  methods: [read_after_write, smell_check]
safeAction: {requireIdempotency: yes, requireRollbackAbove: small, blastRadiusMax: none}
"""


def refusal(content: object, name: str = "e.json", folder: Path | None = None) -> dict[str, str]:
    """Where, and why."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(EnvelopeError) as raised:
        load_envelope(data, name, folder)
    problems = raised.value.details["problems"]
    assert isinstance(problems, list)
    return {each["key"]: each["reason"] for each in problems}


@pytest.mark.requirement("DT-methods", "DT-load")
def test_every_fault_of_a_file_is_named_with_its_line() -> None:
    with pytest.raises(EnvelopeError) as raised:
        load_envelope(YAML.encode(), "ship.dte.yaml")
    problems = raised.value.details["problems"]
    assert isinstance(problems, list)
    found = {each["key"]: each["line"] for each in problems}
    assert found == {
        "deadlineMs": 3,
        "freshness.featureTtl": 5,
        "limits": 6,
        "degradeLadder[1]": 9,
        "degradeLadder[2].step": 10,
        "verification.methods[1]": 13,
        "safeAction.requireIdempotency": 14,
        "safeAction.blastRadiusMax": 14,
    }
    assert "ship.dte.yaml:3:1: deadlineMs" in raised.value.message
    assert raised.value.exit_code == 5


@pytest.mark.requirement("DT-methods", "L03")
@pytest.mark.parametrize("method", ["health_check", "read_after_writ", "Read_After_Write", "../x", "", "a b", "none"])
def test_a_method_that_nobody_knows_is_a_load_error(method: str) -> None:
    assert "verification.methods[0]" in refusal(changed(verification=asking(method)))


@pytest.mark.requirement("DT-methods", "DT-load")
def test_an_envelope_that_asks_for_verification_and_names_no_method_is_refused() -> None:
    assert "no methods" in refusal(changed(verification=asking()))["verification"]
    fine = changed(verification={"methods": [], "requiredAboveBlastRadius": "medium"})
    assert load_envelope(json.dumps(fine).encode(), "e.json").envelope.verification.methods == ()


HOSTILE = {
    "nothing": b"",
    "no-object": b"[1]",
    "null": b"null",
    "cut": b'{"decisionType": "a"',
    "twice": b'{"version": "1", "version": "2"}',
    "nan": b'{"deadlineMs": NaN}',
    "infinity": b'{"deadlineMs": 1e999}',
    "deep": b"[" * 100_000,
    "digits": b'{"deadlineMs": ' + b"9" * 10_000 + b"}",
    "not-utf8": b"\xff\xfe",
    "huge": b" " * 1_048_577,
    "surrogate": b'{"version": "\\ud800"}',
}


@pytest.mark.requirement("DT-load")
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_json_file_is_refused_and_nothing_more(data: bytes) -> None:
    assert refusal(data)


BOMBS = {
    "nothing": "",
    "alias": "a: &a [x]\nb: *a\n",
    "bomb": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
    "tag": "decisionType: !!python/object/apply:os.system ['true']\n",
    "own-tag": "decisionType: !thing a\n",
    "twice": "version: a\nversion: b\n",
    "two-documents": "version: a\n---\nversion: b\n",
    "deep": "a: " + "[" * 200 + "]" * 200,
    "merge": "<<: {version: a}\n",
    "no-yaml": "a: [\n",
    "control": "a: \x00\n",
    "number-as-version": "version: 1.0\n",
}


@pytest.mark.requirement("DT-load")
@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_hostile_yaml_file_is_refused_and_nothing_more(text: str) -> None:
    assert refusal(text.encode(), "e.yaml")


def test_a_file_that_is_none_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(SettingsError):
            DecisionType.load(path)
    with pytest.raises(SettingsError):
        DecisionType.load(written(tmp_path, changed()), verifiers=tmp_path / "none")


def test_a_sound_envelope_says_what_stands_in_it() -> None:
    found = load_envelope(json.dumps(changed()).encode(), "e.json").envelope
    assert (found.decision_type, found.version, found.deadline_ms) == ("ShipOrder", "1.0.0", 10_000)
    assert found.stage_budgets_ms[Stage.VERIFY] == 2_000
    assert found.freshness.ttl_ms("stock") == 100
    assert found.freshness.ttl_ms("other") == 500
    assert [each.rung for each in found.ladder] == [DegradeStep.CACHE_BUNDLE, DegradeStep.HITL, DegradeStep.ABSTAIN]
    assert found.safe_action.allowed_types == ("ship",)
    assert found.requires_verification(BlastRadius.TINY)
    assert not found.requires_rollback(BlastRadius.TINY)
    assert len(found.sha256) == 64


# --- custom verifiers ---

BAD = {
    "no-function": "x = 1",
    "not-callable": "verify = 1",
    "async": "async def verify(context): ...",
    "generator": "def verify(context):\n    yield 1",
    "no-argument": "def verify(): ...",
    "two-arguments": "def verify(a, b): ...",
    "raises": "raise RuntimeError('no')",
    "exits": "raise SystemExit(0)",
    "syntax": "def verify(context:",
    "missing-import": "import no_such_module_anywhere\ndef verify(context): ...",
}


@pytest.mark.requirement("DT-custom", "L25")
@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_a_verifier_that_cannot_be_used_is_a_fault_of_the_envelope_before_anything_runs(
    tmp_path: Path, body: str
) -> None:
    folder = verifier(tmp_path, body)
    assert (
        "my_verifier" in refusal(changed(verification=asking("my_verifier")), folder=folder)["verification.methods[0]"]
    )


@pytest.mark.requirement("DT-custom")
def test_only_the_verifiers_that_are_named_are_imported(tmp_path: Path) -> None:
    folder = verifier(tmp_path, "raise RuntimeError('imported')", "other")
    verifier(tmp_path, "def verify(context): ...")
    found = load_envelope(json.dumps(changed(verification=asking("my_verifier"))).encode(), "e.json", folder)
    assert list(found.verifiers) == ["my_verifier"]
    assert found.verifiers["my_verifier"].source.startswith("verifiers/my_verifier.py@")


@pytest.mark.requirement("DT-custom")
def test_a_file_that_hides_a_built_in_method_is_refused(tmp_path: Path) -> None:
    folder = verifier(tmp_path, "def verify(context): ...", "read_after_write")
    assert "hides" in refusal(changed(), folder=folder)["verification.methods"]


@pytest.mark.requirement("DT-custom")
def test_an_installed_verifier_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offered = EntryPoint("my_verifier", "tests.decisions.installed:verify", verifiers_module.GROUP)

    def points(*, group: str) -> list[EntryPoint]:
        return [offered] if group == verifiers_module.GROUP else []

    monkeypatch.setattr(verifiers_module, "entry_points", points)
    content = json.dumps(changed(verification=asking("my_verifier"))).encode()
    assert load_envelope(content, "e.json").verifiers["my_verifier"].name == "my_verifier"
    folder = verifier(tmp_path, "def verify(context): ...")
    assert "both" in refusal(changed(verification=asking("my_verifier")), folder=folder)["verification.methods[0]"]


# --- the shapes, held against the published schemas ---


def _whole(name: str) -> Any:
    if name == "dte":
        return changed()
    file = DEEPSIGMA / {"episode": "episodes/01_success.json", "drift": "drift/time_drift.json"}[name]
    return json.loads(file.read_text(encoding="utf-8"))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in _paths(each, (*path, key)))]


def _mutated(value: Any, path: tuple[Any, ...], what: Any) -> Any:
    if not path:
        return what
    made = deepcopy(value)
    at = made
    for key in path[:-1]:
        at = at[key]
    if what == "remove":
        del at[path[-1]]
    elif what == "add" and isinstance(at[path[-1]], dict):
        at[path[-1]]["unknownKey"] = 1
    else:
        at[path[-1]] = what
    return made


SHAPES = {"dte": ENVELOPE, "episode": EPISODE, "drift": DRIFT}
STRICTER = ("startedAt", "endedAt", "capturedAt", "sealedAt", "detectedAt", "methods")
"""Where ours asks for more: real times, and names that are not empty."""


@ABSENT
@pytest.mark.parametrize("name", SHAPES)
@given(data=st.data())
def test_ours_refuses_what_the_published_schema_refuses_and_takes_what_it_takes(name: str, data: st.DataObject) -> None:
    valid, whole = schema(name), _whole(name)
    assert valid(whole)
    assert not [*SHAPES[name].faults(whole, "")]
    path = data.draw(st.sampled_from(_paths(whole)))
    leaf = st.sampled_from(["remove", "add", None, True, 0, -1, 7, 1.5, "", "small", "none", [], {}, [1], {"a": 1}])
    changed_ = _mutated(whole, path, data.draw(leaf))
    ours = not [*SHAPES[name].faults(changed_, "")]
    if any(part in STRICTER for part in path):
        assert not ours or valid(changed_)
    else:
        assert ours is valid(changed_), (path, changed_)


@ABSENT
def test_an_action_of_another_form_is_no_action_of_an_episode() -> None:
    assert [*ACTION.faults({"action_id": "12345678", "action_type": "ROTATE_KEYS"}, "")]
