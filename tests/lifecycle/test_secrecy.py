"""What a contract redacts stays out of everything that is written or told, wherever it turns up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from readback import Context, Outcome, Readback, Reading, action
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.house import House

SECRET = "SECRET-4111111111111111"
PLACES = (
    "nowhere",
    "a check that raises",
    "a check that returns it",
    "an expression",
    "an identity",
    "a precondition",
    "the tool's exception",
    "the tool's reference",
    "the tool's error",
    "the tool's answer under another name",
    "the reader's exception",
    "an unavailable source's detail",
    "a version and an author",
)
REDACTED = ["requested.card", "authoritative.card", "observed.id", "observed.error"]


def _quotes(requested: dict[str, str]) -> bool:
    raise KeyError(requested["card"])


def _returns(requested: dict[str, str]) -> object:
    return requested["card"]


def _run(place: str) -> tuple[Outcome, MemoryStore]:
    paid: list[str] = []
    ensure: dict[str, Any] = {"last four": "authoritative.last4 == requested.last4"}
    extra = {
        "a check that raises": _quotes,
        "a check that returns it": _returns,
        "an expression": "int(requested.card) == 5",
    }
    if place in extra:
        ensure["extra"] = extra[place]
    identity = {"target": "authoritative.id", "tenant": "authoritative.tenant"}
    if place == "an identity":
        identity["account"] = "authoritative.card"
    terms: dict[str, Any] = {"require": {"known": _quotes}} if place == "a precondition" else {}

    @action(
        name="pay",
        kind="set",
        side_effect="low_risk_internal",
        target="card/x",
        identity=identity,
        ensure=ensure,
        within="2s",
        polls=["0s"],
        redact=REDACTED,
        **terms,
    )
    def pay(ctx: Context, card: str, last4: str, account: str) -> object:
        paid.append(card)
        if place == "the tool's exception":
            raise ValueError(f"no such card {card}")
        answers = {
            "the tool's reference": {"id": card},
            "the tool's error": {"error": f"not taken: {card}"},
            "the tool's answer under another name": {"note": f"took {card}", "number": card},
        }
        return answers.get(place, {"ok": True})

    @pay.read(source="cards", consistency="strong", independence="other_client")
    def row(ctx: Context, card: str, last4: str, account: str) -> Reading:
        if not paid:
            return Reading.of({"id": "x", "tenant": "acme", "last4": "0000"}, version=1)
        if place == "the reader's exception":
            raise ValueError(f"no row {card}")
        if place == "an unavailable source's detail":
            return Reading.unavailable(f"no row {card}")
        found = {"id": "x", "tenant": "acme", "last4": "1111", "card": card}
        if place == "a version and an author":
            return Reading.of(found, version=card, author=card)
        return Reading.of(found, version=2)

    store = MemoryStore()
    with Readback.open(store=store, runtime=VirtualRuntime(), tenant="acme", principal="agent:desk") as rb:
        outcome = rb.run(pay(card=SECRET, last4="1111", account="a"), operation="pay", wait=30)
        assert rb.get(outcome.id).as_json() == outcome.as_json()
    return outcome, store


@pytest.mark.parametrize("place", PLACES)
def test_a_redacted_value_is_nowhere_in_what_is_kept_or_told(place: str) -> None:
    outcome, kept = _run(place)
    store = kept.reopened()
    assert store.events(outcome.id)
    for event in store.events(outcome.id):
        assert SECRET.encode() not in event.envelope, event.kind
    for evidence in store._content.evidence.values():
        assert SECRET.encode() not in evidence.body
    for told in (json.dumps(outcome.as_json()), outcome.for_model(), outcome.message, repr(outcome)):
        assert SECRET not in told


def test_the_action_itself_is_judged_by_the_real_values() -> None:
    outcome, _ = _run("nowhere")
    assert outcome.verified
    assert _run("the tool's answer under another name")[0].verified


def test_a_check_that_ends_the_program_is_a_verifier_fault_and_the_program_goes_on() -> None:
    @action(
        name="quit",
        kind="set",
        side_effect="ephemeral_write",
        target="file:x",
        ensure={"gone": _leaves},
        within="1s",
        polls=["0s"],
    )
    def quits(ctx: Context) -> object:
        return {"ok": True}

    @quits.read(source="files", consistency="strong", independence="same_client")
    def look(ctx: Context) -> Reading:
        return Reading.of({"size": 1})

    with Readback.open(store=MemoryStore(), runtime=VirtualRuntime(), tenant="acme", principal="p") as rb:
        outcome = rb.run(quits(), wait=30)
    assert not outcome.verified
    assert outcome.why == "verifier_error"


def _leaves(authoritative: object) -> bool:
    raise SystemExit(3)


@pytest.mark.parametrize("dies", [False, True])
def test_a_part_of_what_is_known_as_redacted_is_not_taken_for_one_that_is_not_there(dies: bool) -> None:
    house = House()
    house.shop.rows["o-1"]["card"] = {"token": "old"}
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, card={"token": "another"})
    kept = "has(before.card.token) ? authoritative.card.token == before.card.token : true"
    status = "authoritative.status == requested.status"
    made = house.action(ensure={"status": status, "kept": kept}, redact=["before.card"], polls=["3s", "2s"])
    told = house.run(made, wait_s=1)
    if dies:
        house.die()
    told = house.wait(told.id)
    assert not told.verified
