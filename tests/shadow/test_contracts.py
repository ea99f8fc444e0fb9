"""Contracts in shadow mode: judged as ever, told to the operator alone, and never verified for anyone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from readback import AsyncReadback, Readback, State, Verdict, bootstrap
from readback.audit.checks.ledger import audit
from readback.client.operations.replaying import nothing_loaded, replay_bundle
from readback.domain.contract.shadowing import Mode, ShadowTerms
from readback.domain.records.replayed import Comparison
from readback.domain.verdict import Level
from readback.errors import (
    CitationError,
    NotVerifiedError,
    PayloadConflictError,
    SettingsError,
    UnknownPrincipalError,
    UsageError,
)
from readback.kit import Kit
from readback.mcp import ActionServer
from readback.shadow.report import shadow_report
from readback.telemetry import metrics_of
from tests.record.conftest import bundle_of
from tests.shadow.given import Lamp, allow, switch_of

URL = "sqlite:///readback.db"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    allow(monkeypatch, tmp_path, 'shadow = ["switch"]\n')
    return tmp_path


@pytest.mark.requirement("SHADOW-never-verified")
def test_a_shadow_action_is_judged_and_told_as_verified_to_no_one() -> None:
    lamp = Lamp()
    with Readback.open(URL, shadow=True) as rb:
        told = rb.run(switch_of(lamp)(True))
        assert (told.state, told.verdict, told.verified, told.standing) == (
            State.UNKNOWN,
            Verdict.UNDETERMINED,
            False,
            False,
        )
        assert told.level is Level.NORMALISED
        assert told.claims == ()
        assert "completed" not in told.message + told.for_model()
        assert told.observation is not None
        assert told.observation.body == "switched"
        assert told.shadow is not None
        assert told.shadow.verdict is Verdict.VERIFIED
        assert told.shadow.words.startswith("The action completed successfully.")
        with pytest.raises(NotVerifiedError):
            _ = told.value
        with pytest.raises(CitationError):
            told.cite()
        again = rb.get(told.id)
        assert again.as_json() == told.as_json()
    assert lamp.calls == [True]


@pytest.mark.requirement("SHADOW-would-tell")
@pytest.mark.parametrize(("works", "verdict"), [(True, Verdict.VERIFIED), (False, Verdict.REFUTED)])
def test_the_report_holds_the_words_of_the_enforced_mode(works: bool, verdict: Verdict) -> None:
    enforced, shadowed = Lamp(), Lamp()
    with Readback.open("memory:") as rb:
        plain = rb.run(switch_of(enforced)(works))
    with Readback.open(URL, shadow=True) as rb:
        told = rb.run(switch_of(shadowed)(works))
        found = shadow_report(rb._session)
    assert told.shadow is not None
    assert (told.shadow.verdict, told.shadow.words, told.shadow.row) == (verdict, plain.message, plain.row)
    assert told.shadow.state is plain.state
    [counts] = found.contracts
    assert (counts.actions, counts.verified, counts.refuted) == (1, int(works), int(not works))
    [listed] = found.actions
    assert listed.judgement == told.shadow
    assert len(found.differing) == int(not works)


@pytest.mark.requirement("SHADOW-no-recovery")
def test_shadow_calls_no_tool_a_second_time_and_reverses_nothing() -> None:
    lamp = Lamp()
    switch = switch_of(lamp)

    @switch.compensate(kind="set", ensure={"off": "authoritative.on == false"})
    def undo(works: bool) -> None:
        lamp.undone += 1

    with Readback.open(URL, shadow=True, actions=[switch]) as rb:
        told = rb.run(switch(False))
        assert told.shadow is not None
        assert told.shadow.verdict is Verdict.REFUTED
        rb.resume()
        assert rb.get(told.id).due_us is None
    assert lamp.calls == [False]
    assert lamp.undone == 0


@pytest.mark.requirement("SHADOW-two-keys")
@pytest.mark.parametrize(
    ("allowed", "asked", "mode", "covered"),
    [
        ((), False, None, False),
        ((), True, None, False),
        ((), False, Mode.SHADOW, False),
        (("switch",), False, None, False),
        (("other",), True, Mode.SHADOW, False),
        (("switch",), True, None, True),
        (("switch",), False, Mode.SHADOW, True),
        (("*",), True, None, True),
        (("*",), False, Mode.SHADOW, True),
        (("*", "switch"), True, Mode.ENFORCED, False),
    ],
)
def test_shadow_needs_the_settings_and_a_request_and_no_contract_that_is_enforced(
    allowed: tuple[str, ...], asked: bool, mode: Mode | None, covered: bool
) -> None:
    assert ShadowTerms(allowed, asked).covers("switch", mode) is covered


@pytest.mark.requirement("SHADOW-enforced-stays")
@pytest.mark.parametrize("keys", [{"mode": "enforced"}, {"name": "other"}])
def test_an_enforced_contract_is_never_lowered(keys: dict[str, Any]) -> None:
    with Readback.open(URL, shadow=True) as rb:
        told = rb.run(switch_of(Lamp(), **keys)(True))
    assert told.verified
    assert (told.mode, told.shadow) == ("", None)


@pytest.mark.requirement("SHADOW-two-keys")
def test_a_contract_that_says_shadow_needs_the_settings_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, place, "")
    with Readback.open(URL) as rb:
        assert rb.run(switch_of(Lamp(), mode="shadow")(True)).verified
    allow(monkeypatch, place, 'shadow = ["*"]\n')
    with Readback.open(URL) as rb:
        assert rb.run(switch_of(Lamp(), mode="shadow")(True)).mode == "shadow"


@pytest.mark.requirement("SHADOW-two-keys")
def test_a_request_without_the_settings_is_an_error_and_opens_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, place, "")
    with pytest.raises(SettingsError, match="allow no contract"):
        Readback.open(URL, shadow=True)
    assert not (place / "readback.db").exists()
    with pytest.raises(UsageError, match="True or False"):
        Readback.open(URL, shadow="yes")  # type: ignore[arg-type]


@pytest.mark.requirement("SHADOW-two-keys")
def test_a_settings_file_of_the_folder_counts_only_if_pinned(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, place, "")
    (place / "readback.toml").write_text('shadow = ["*"]\n')
    with pytest.raises(SettingsError, match="allow no contract"):
        Readback.open(URL, shadow=True)


@pytest.mark.requirement("SHADOW-keeps-checks")
def test_approvals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    lamp = Lamp()
    with Readback.open(URL, shadow=True, approvers=[]) as rb:
        told = rb.run(switch_of(lamp, approval="required")(True), operation="on")
    assert (told.hold, told.attempted) == ("approval", False)
    assert lamp.calls == []
    assert not told.unworded


@pytest.mark.requirement("SHADOW-keeps-checks")
def test_a_freeze_stays_and_a_shadow_judgement_freezes_nothing() -> None:
    keys: dict[str, Any] = {"side_effect": "high_risk_external", "may_change": ["on"]}
    with Readback.open(URL, shadow=True) as rb:
        told = rb.run(switch_of(Lamp(beside={"colour": "red"}), **keys)(True), operation="one")
        assert told.shadow is not None
        assert told.shadow.recovery == "freeze_and_alert"
        assert (rb.freezes(), rb.incidents(), told.incident, told.review) == ((), (), "", "")
    with Readback.open(URL) as rb:
        rb.run(switch_of(Lamp(beside={"colour": "red"}), **keys)(True), operation="two")
        assert rb.freezes()
    lamp = Lamp()
    with Readback.open(URL, shadow=True) as rb:
        frozen = rb.run(switch_of(lamp)(True), operation="three")
    assert (frozen.code, frozen.attempted, frozen.unworded) == ("frozen", False, False)
    assert lamp.calls == []


@pytest.mark.requirement("SHADOW-keeps-checks")
def test_one_operation_acts_once_and_another_payload_under_it_is_refused() -> None:
    lamp = Lamp()
    switch = switch_of(lamp)
    with Readback.open(URL, shadow=True) as rb:
        first = rb.run(switch(True), operation="on")
        again = rb.run(switch(True), operation="on")
        assert (again.id, again.replayed) == (first.id, True)
        with pytest.raises(PayloadConflictError):
            rb.run(switch(False), operation="on")
    with Readback.open(URL) as rb:  # enforced later: the shadow action stays one, and nothing acts twice
        later = rb.run(switch(True), operation="on")
        assert (later.id, later.mode, later.verified) == (first.id, "shadow", False)
    assert lamp.calls == [True]


@pytest.mark.requirement("SHADOW-keeps-checks")
def test_a_principal_without_a_right_is_refused() -> None:
    with Readback.open(URL, shadow=True) as rb, pytest.raises(UnknownPrincipalError):
        rb.run(switch_of(Lamp(), principals=["human:*"])(True))


@pytest.mark.requirement("SHADOW-passes")
@pytest.mark.parametrize("code", ["precondition", "source.unavailable"])
def test_a_refusal_by_the_state_of_the_world_is_recorded_and_the_call_goes_on(code: str) -> None:
    lamp = Lamp()
    keys: dict[str, Any] = {"require": {"off limits": "requested.works == false"}}
    if code == "source.unavailable":
        keys, lamp.readable = {"side_effect": "medium_risk_write"}, False
    with Readback.open("memory:") as rb:
        plain = rb.run(switch_of(Lamp(readable=lamp.readable), **keys)(True), operation="on")
    assert plain.code == code
    with Readback.open(URL, shadow=True) as rb:
        told = rb.run(switch_of(lamp, **keys)(True), operation="on")
        found = shadow_report(rb._session)
    assert lamp.calls == [True]
    assert told.shadow is not None
    assert (told.shadow.refused, told.shadow.words) == (code, plain.message)
    assert found.contracts[0].refused == 1


@pytest.mark.requirement("SHADOW-saga")
def test_a_step_of_a_saga_is_enforced() -> None:
    lamp = Lamp()
    with Readback.open(URL, shadow=True) as rb:
        told = rb.saga([switch_of(lamp)(True).as_step("on")], name="evening", operation="evening")
        assert told.verified
        [step] = rb.list(contract="switch")
        assert (step.mode, step.verified) == ("", True)


@pytest.mark.requirement("SHADOW-ledger")
def test_the_ledger_is_sound_and_the_record_replays_to_the_same_judgement(place: Path) -> None:
    lamp = Lamp()
    switch = switch_of(lamp)
    with Readback.open(URL, shadow=True) as rb:
        ids = [rb.run(switch(works)).id for works in (True, False)]
        assert not audit(rb._session.store).faults
        for each in ids:
            data = bundle_of(rb._session.store, rb._session.store.events(each))
            for plans in (nothing_loaded, {"switch": switch.plan}.get):
                found = replay_bundle(data, bootstrap.predicate_engine(), plans)
                assert {one.comparison for one in found.judgements} == {Comparison.SAME}, found.judgements
    with Readback.open(URL) as rb:
        assert rb.get(ids[0]).mode == "shadow"  # the first entry fixes the mode


@pytest.mark.requirement("SHADOW-metrics")
def test_metrics_count_shadow_apart() -> None:
    lamp = Lamp()
    with Readback.open(URL, shadow=True) as rb:
        rb.run(switch_of(lamp)(True))
        rb.run(switch_of(lamp)(False))
    with Readback.open(URL) as rb:
        rb.run(switch_of(Lamp())(True))
        found = metrics_of(rb)
        samples = {
            (family.series.name, *(value for name, value in labels.items() if name not in GROUP)): count
            for family in found.families()
            for labels, count in family.samples
            if labels.get("contract") == "switch"
        }
        success = found.measured()["verification-success"]["switch"]
    assert (success.over, success.under) == (1, 1)
    assert samples["actions_total",] == 1
    assert samples["verifications_total", "verified"] == 1
    assert samples["verifications_total", "undetermined"] == 0
    assert samples["unknown_actions",] == 0
    assert samples["shadow_actions_total",] == 2
    for judgement, count in (("verified", 1), ("refuted", 1), ("undetermined", 0), ("refused", 0)):
        assert samples["shadow_judgements_total", judgement] == count


GROUP = {"contract", "kind", "side_effect", "ledger"}


@pytest.mark.requirement("SHADOW-kit")
def test_the_kit_hands_on_the_tools_own_answer() -> None:
    lamp = Lamp()
    switch = switch_of(lamp)
    with Kit.open(URL, actions=[switch], shadow=True, run="chat") as kit:
        result = kit.tool("switch").run({"works": False})
        assert (result.text, result.is_error, result.ok, result.status) == ("switched", False, False, "not_verified")
        assert result.data["mode"] == "shadow"
        assert result.data["verdict"] == "undetermined"
        assert kit.final("The lamp is on.").ok


@pytest.mark.requirement("SHADOW-unworded")
def test_served_actions_in_shadow_promise_no_verified_result() -> None:
    async def work() -> Any:
        async with ActionServer([switch_of(Lamp())], url=URL, shadow=True) as server, Client(server.server) as client:
            tools = {tool.name: tool.description for tool in (await client.list_tools()).tools}
            return tools["switch"], await client.call_tool("switch", {"works": False})

    described, result = asyncio.run(work())
    assert "verified" not in (described or "")
    assert ([block.text for block in result.content], result.is_error) == (["switched"], False)


@pytest.mark.requirement("SHADOW-never-verified")
def test_the_async_client_is_in_shadow_too() -> None:
    async def work() -> Any:
        async with AsyncReadback.open(URL, shadow=True) as rb:
            return await rb.run(switch_of(Lamp())(True))

    told = asyncio.run(work())
    assert (told.mode, told.verified) == ("shadow", False)
