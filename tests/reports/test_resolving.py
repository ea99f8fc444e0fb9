"""Citations of a final report, resolved by both clients: what stands passes, and nothing else does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from readback import Context, Outcome, Readback, Reading, action
from readback.canon import sha256_hex, stored_bytes
from readback.domain.grounding.citation import digest
from readback.domain.grounding.report import CITATIONS_MAX, CITED_ACTIONS_MAX, REPORT_MAX_BYTES, ReportCheck
from readback.errors import CitationError, HonestyError, OversizeError, ReadbackError, UsageError
from readback.ports.storage.store import Evidence
from readback.testing.store_memory import MemoryStore
from tests.reports.reversing import reversed_saga
from tests.sdk.given import TENANT, Desk, opened, opened_async, ship_of

BY_EVE: dict[str, Any] = {"who": "human:eve", "reason": "Seen by hand."}


@pytest.fixture
def desk() -> Desk:
    return Desk()


def shipped(rb: Readback, desk: Desk, order_id: str = "o-1", **given: Any) -> Outcome:
    return rb.run(ship_of(desk)(order_id=order_id, carrier="dhl"), operation=f"ship {order_id}", **given)


def codes(check: ReportCheck) -> list[str]:
    return [each.fault.value for each in check.faults]


@pytest.mark.requirement("REPORT-resolves", "REPORT-written")
def test_a_report_that_cites_what_stands_passes_in_both_clients(desk: Desk) -> None:
    store = MemoryStore()
    with opened(store, run="r-1") as rb:
        told = shipped(rb, desk)
        text = f"# Report\n\n## Done\n- o-1 is shipped {told.cite('/status')} {told.cite()}\n"
        check = rb.check_report(text)
        assert (check.passed, check.exit_code, check.faults) == (True, 0, ())
        assert (check.run, check.citations, check.actions, check.declared) == ("r-1", 2, 1, 1)
        assert rb.check_report(text, "r-1", every=True).passed
        with pytest.raises(HonestyError):
            bool(check)

    async def same() -> None:
        async with opened_async(store.reopened(), run="r-1") as other:
            assert (await other.check_report(text)).as_json() == check.as_json()
            assert await other.guard_report(text) == text
            assert (await other.guard_report("All is shipped.")).startswith("Run r-1: ")

    asyncio.run(same())


@pytest.mark.requirement("REPORT-written")
def test_a_citation_of_the_outcome_at_hand_is_that_of_the_ledger_and_made_as_documented(desk: Desk) -> None:
    odd = {"ratio": 0.1, "whole": 1.0, "big": 2**53 + 1, "öl/~ :]%": ["ä", None, {"": "\u202e[readback:"}], "e": 1e300}

    @action(
        kind="set", side_effect="low_risk_internal", target="odd/{requested.name}", within="5s",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure={"there": "authoritative.ratio == 0.1"},
    )  # fmt: skip
    def put(ctx: Context, name: str) -> object:
        return {"ok": True}

    @put.read(source="odd", consistency="strong", independence="other_client")
    def odd_row(ctx: Context, name: str) -> Reading:
        return Reading.of({"id": name, "tenant": TENANT, **odd}, version=1, stamp=ctx.stamp)

    with opened(run="r-1") as rb:
        told = rb.run(put(name="one"), operation="put")
        assert told.verified
        kept = stored_bytes(told.authoritative)
        for place in ("", "/ratio", "/whole", "/big", "/e", "/öl~1~0 :]%", "/öl~1~0 :]%/0", "/öl~1~0 :]%/2/", "3-17"):
            cited = told.cite(place)
            assert cited == rb.get(told.id).cite(place)
            assert rb.check_report(f"## Done\n- {cited}").passed, cited
        whole = digest(TENANT, told.id, f"0-{len(kept)}", kept)
        assert told.cite() == f"[readback:{told.id}:0-{len(kept)}:{whole}]"
        assert sha256_hex(kept) == rb._session.fold(told.id).reading_ref
        for nothing in (
            "/none",
            "/ratio/0",
            "/öl~1~0 :]%/00",
            "/öl~1~0 :]%/9",
            "ratio",
            "/~2",
            "5-5",
            "0-99999",
            "04-9",
        ):
            with pytest.raises(CitationError) as refused:
                told.cite(nothing)
            assert refused.value.code == "citation.place"


@pytest.mark.requirement("REPORT-standing", "REPORT-written")
def test_what_is_pending_unknown_or_failed_is_neither_cited_nor_taken(desk: Desk) -> None:
    with opened(run="r-1") as rb:
        good = shipped(rb, desk)
        cited = good.cite()
        desk.instead = lambda _ctx: (202, {"status": "queued"})
        pending = rb.run(ship_of(desk)(order_id="o-2", carrier="dhl"), operation="two", wait=0)
        forged = cited.replace(good.id, pending.id)
        with pytest.raises(CitationError) as refused:
            pending.cite()
        assert refused.value.code == "citation.not-standing"
        check = rb.check_report(f"## Done\n- o-2 {forged}")
        assert (codes(check), check.exit_code) == (["pending"], 3)
        assert rb.check_report(f"- {forged}\n- [x] o-3").exit_code == 1
        ended = rb.wait(pending.id)
        assert not ended.verified
        [code] = codes(rb.check_report(forged))
        assert code in ("contested", "retracted")
        desk.instead = lambda _ctx: (_ for _ in ()).throw(RuntimeError("no"))
        failed = rb.run(ship_of(desk, execute={"honours_key": False})(order_id="o-4", carrier="dhl"), operation="four")
        assert not failed.verified
        [code] = codes(rb.check_report(cited.replace(good.id, failed.id)))
        assert code in ("not_verified", "undetermined")


@pytest.mark.requirement("REPORT-standing")
def test_a_claim_that_falls_takes_every_citation_with_it_and_one_that_is_reinstated_brings_them_back(
    desk: Desk,
) -> None:
    with opened(run="r-1") as rb:
        first = shipped(rb, desk)
        second = shipped(rb, desk, "o-2", upon=[first])
        one, two = f"- [x] {first.cite('/status')}", f"- [x] {second.cite('/status')}"
        assert rb.check_report(f"{one}\n{two}").passed
        rb.retract(first.id, **BY_EVE)
        check = rb.check_report(f"{one}\n{two}")
        assert codes(check) == ["retracted", "fallen"]
        assert (check.exit_code, [each.line for each in check.faults]) == (1, [1, 2])
        for told in (rb.get(first.id), rb.get(second.id)):
            with pytest.raises(CitationError):
                told.cite()
        rb.reinstate(first.id, **BY_EVE)
        assert rb.check_report(f"{one}\n{two}").passed


@pytest.mark.requirement("REPORT-standing")
def test_other_tenants_other_runs_sagas_and_what_is_not_there_cannot_be_cited(desk: Desk) -> None:
    store = MemoryStore()
    with opened(store, run="r-1") as rb:
        told = shipped(rb, desk)
        saga = rb.saga([ship_of(desk)(order_id="o-7", carrier="dhl").as_step("one")], operation="s")
        cited = told.cite()
        with pytest.raises(CitationError) as refused:
            saga.cite()
        assert refused.value.code == "citation.saga"
        assert codes(rb.check_report(cited.replace(told.id, saga.id))) == ["saga"]
        step = saga.steps["one"].outcome
        assert step is not None
        assert rb.check_report(f"- [x] {step.cite()}").passed
        assert codes(rb.check_report(cited, "r-2")) == ["other_run"]
        assert codes(rb.check_report(cited.replace(told.id, "nobody"))) == ["unknown"]
    with opened(store.reopened()) as rb:
        assert rb.check_report(cited).passed  # no run is named: all of the tenant
        with pytest.raises(UsageError):
            rb.guard_report(cited)
    with opened(store.reopened(), tenant="other") as rb:
        assert codes(rb.check_report(cited)) == ["unknown"]


@pytest.mark.requirement("REPORT-standing")
def test_a_step_that_its_saga_has_reversed_cannot_be_cited_any_more() -> None:
    with opened(run="r-1") as rb:
        cited, told = reversed_saga(rb)
        assert told.id in cited
        assert codes(rb.check_report(f"- [x] {cited}")) != []
        assert cited not in rb.guard_report(f"- [x] {cited}")


@pytest.mark.requirement("REPORT-standing", "REPORT-guard")
def test_evidence_that_was_erased_is_said_to_be_erased_and_cannot_be_told(desk: Desk, tmp_path: Path) -> None:
    with Readback.open(f"sqlite:///{tmp_path}/l.db", tenant=TENANT, principal="agent:ops", run="r-1") as rb:
        told = shipped(rb, desk)
        text = f"- [x] {told.cite()} {told.cite('/status')}"
        rb.erase(told.id, who="human:dpo", reason="Asked for.")
        check = rb.check_report(text)
        assert (codes(check), check.exit_code) == (["erased", "erased"], 3)
        assert "erased" in check.faults[0].message
        with pytest.raises(CitationError) as refused:
            rb.get(told.id).cite()
        assert refused.value.code == "citation.erased"
        assert rb.guard_report(text) != text


class _Altered(MemoryStore):
    """A store that hands out other bytes of one piece of evidence, or none."""

    instead: tuple[str, bytes | None] | None = None

    def evidence(self, tenant: str, action_id: str, digest: str) -> Evidence | None:
        found = super().evidence(tenant, action_id, digest)
        if found is None or self.instead is None or self.instead[0] != digest:
            return found
        return None if self.instead[1] is None else Evidence(digest, found.media, self.instead[1])


@pytest.mark.requirement("REPORT-bound", "REPORT-guard")
def test_every_single_byte_of_the_evidence_counts(desk: Desk) -> None:
    store = _Altered()
    with opened(store, run="r-1") as rb:
        told = shipped(rb, desk)
        text, ref = f"- [x] {told.cite()}", rb._session.fold(told.id).reading_ref
        kept = stored_bytes(told.authoritative)
        for at in range(len(kept)):
            store.instead = (ref, kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :])
            assert not _passes(rb, text)
        store.instead = (ref, None)
        assert codes(rb.check_report(text)) == ["missing"]
        assert rb.check_report(text).exit_code == 3
        store.instead = None
        assert rb.check_report(text).passed


def _passes(rb: Readback, text: str) -> bool:
    try:
        return rb.check_report(text).passed
    except ReadbackError:
        return False


@pytest.mark.requirement("REPORT-hostile")
def test_what_is_too_large_or_no_text_is_refused_and_thousands_of_citations_are_resolved(desk: Desk) -> None:
    with opened(run="r-1") as rb:
        told = shipped(rb, desk)
        many = "\n".join(f"- [x] {told.cite()}" for _ in range(CITATIONS_MAX))
        check = rb.check_report(many)
        assert (check.passed, check.citations, check.actions, check.declared) == (True, CITATIONS_MAX, 1, CITATIONS_MAX)
        odd: Any = b"bytes"
        for given in ("x" * (REPORT_MAX_BYTES + 1), "\u00e4" * (REPORT_MAX_BYTES // 2 + 1), f"{many}\n{told.cite()}"):
            with pytest.raises(OversizeError):
                rb.check_report(given)
            assert rb.guard_report(given) == rb.belief().message
        others = "\n".join(told.cite().replace(told.id, f"a{n}") for n in range(CITED_ACTIONS_MAX + 1))
        with pytest.raises(OversizeError):
            rb.check_report(others)
        with pytest.raises(UsageError):
            rb.check_report(odd)
        lots = rb.check_report("\n".join(["- [x] no"] * 3000))
        assert (lots.faults_total, len(lots.faults)) == (3000, 1000)


@action(
    kind="set", side_effect="ephemeral_write", target="light/{requested.name}", within="1s",
    ensure={"so": "authoritative.state == requested.state || requested.state == 'stuck'"},
)  # fmt: skip
def switch(ctx: Context, name: str, state: str) -> object:
    if state != "stuck":
        LIGHTS[name] = state
    return {"ok": True}


@switch.read(source="lights", consistency="strong", independence="other_client")
def light(ctx: Context, name: str, state: str) -> Reading:
    if state == "lost":
        return Reading.unavailable("it is dark")
    return Reading.of({"state": LIGHTS[name], "by": ctx.stamp}, stamp=ctx.stamp)


@action(
    kind="read", side_effect="read_only", target="light/{requested.name}", within="1s",
    ensure={"seen": "authoritative.state != ''"},
    identity={"target": "authoritative.name == requested.name", "tenant": "not_offered"},
)  # fmt: skip
def look_at(ctx: Context, name: str) -> object:
    return {"ok": True}


@look_at.read(source="lights", consistency="strong", independence="other_client")
def light_now(ctx: Context, name: str) -> Reading:
    return Reading.of({"name": name, "state": LIGHTS[name]})


LIGHTS: dict[str, str] = {}


@pytest.mark.requirement("REPORT-resolves")
def test_a_value_that_a_later_action_changed_is_superseded_and_what_happened_is_not() -> None:
    store = MemoryStore()
    with opened(store, run="r-1") as rb:
        on = rb.run(switch(name="hall", state="on"), operation="1")
        other = rb.run(switch(name="yard", state="on"), operation="2")
        value, whole = f"## Done\n- on {on.cite('/state')}\n", f"## Done\n- switched {on.cite()}\n"
        assert rb.check_report(value).passed

        rb.run(switch(name="hall", state="on"), operation="3")
        assert rb.check_report(value).passed  # another action, and the same value

        off = rb.run(switch(name="hall", state="off"), operation="4")
        check = rb.check_report(value)
        assert (codes(check), check.exit_code) == (["superseded"], 1)
        assert rb.guard_report(value).startswith("Run r-1: ")
        assert rb.check_report(whole).passed
        assert rb.check_report(f"## Done\n- off {off.cite('/state')}\n- yard {other.cite('/state')}\n").passed

        rb.run(switch(name="hall", state="lost"), operation="5", wait=0)
        check = rb.check_report(f"## Done\n- off {off.cite('/state')}\n")
        assert (codes(check), check.exit_code) == (["outdated"], 3)

    async def same() -> None:
        async with opened_async(store.reopened(), run="r-1") as again:
            assert codes(await again.check_report(value)) == ["outdated"]

    asyncio.run(same())


@pytest.mark.requirement("REPORT-resolves")
def test_a_value_that_was_read_anew_is_superseded_by_what_that_reading_shows() -> None:
    with opened(run="r-1") as rb:
        on = rb.run(switch(name="hall", state="on"), operation="1")
        value = f"## Done\n- on {on.cite('/state')}\n"
        rb.run(look_at(name="hall"), operation="2")
        assert rb.check_report(value).passed
        LIGHTS["hall"] = "off"  # somebody else
        rb.run(look_at(name="hall"), operation="3")
        assert codes(rb.check_report(value)) == ["superseded"]
        assert rb.check_report(value, "r-2").exit_code == 1
