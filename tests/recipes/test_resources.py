"""Creating and updating over a real HTTP API, honest and lying: the query back decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from readback import Attribution, Context, Discrepancy, Outcome, Verdict
from readback.errors import ContractFieldError
from readback.recipes import Resource, ResourceAction, verified_create, verified_update
from readback.systems import HttpExecutor, HttpSource
from tests.recipes.api import Service, serving
from tests.recipes.conftest import Desk

ORDER = Resource("/orders/{key}", "/orders", tenant="tenant")
Fresh = Callable[[str], str]


class Desktop:
    """Whoever writes to the API, and whoever reads it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.api = HttpExecutor(service.url, timeout_s=60, sole=True)
        self.records = HttpSource("records", service.url, canary="/health", timeout_s=60)

    def create_action(self, **choices: Any) -> ResourceAction:
        return verified_create(self.api, self.records, ORDER, **choices)

    def update_action(self, **choices: Any) -> ResourceAction:
        return verified_update(self.api, self.records, ORDER, **choices)

    def create(self, desk: Desk, key: str, fault: str = "") -> Outcome:
        self.service.fault = fault
        with desk.open() as rb:
            return rb.run(self.create_action()(key=key, fields={"n": 7, "note": "new"}), operation=key)

    def update(self, desk: Desk, key: str, fault: str = "", **choices: Any) -> Outcome:
        self.service.fault = fault
        with desk.open() as rb:
            return rb.run(self.update_action(**choices)(key=key, fields={"n": 7, "note": "new"}), operation=key)

    def close(self) -> None:
        self.api.close()
        self.records.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Desktop]:
    with serving() as service:
        made = Desktop(service)
        yield made
        made.close()


@pytest.fixture
def shop(served: Desktop) -> Iterator[Desktop]:
    served.service.honest()
    yield served
    served.service.honest()


@pytest.mark.requirement("RECIPE-resource")
def test_what_was_created_is_found_by_its_stamp(shop: Desktop, desk: Desk, fresh: Fresh) -> None:
    key = fresh("o")
    told = shop.create(desk, key)
    assert told.verified
    assert told.attribution is Attribution.OURS
    assert shop.service.orders[key]["n"] == 7


@pytest.mark.requirement("RECIPE-resource")
def test_an_update_is_made_on_the_very_version_that_was_read(shop: Desktop, desk: Desk, fresh: Fresh) -> None:
    key = fresh("o")
    shop.service.order(key, n=1, note="old")
    told = shop.update(desk, key)
    assert told.verified
    assert shop.service.conditions[-1] == '"1"'
    assert shop.update(desk, fresh("nobody")).attempts == 0
    key = fresh("low")
    shop.service.order(key, n=1, note="old")
    assert shop.update(desk, key, side_effect="ephemeral_write", name="low").verified
    with pytest.raises(ContractFieldError):
        Resource("/orders", "/orders")


@pytest.mark.requirement("RECIPE-resource")
@pytest.mark.parametrize(
    ("fault", "discrepancy"),
    [
        ("lost", Discrepancy.NO_OP_FAILURE),
        ("partial", None),
        ("wrong_type", Discrepancy.VALUE_MISMATCH),
        ("elsewhere", Discrepancy.WRONG_TARGET_MODIFIED),
        ("refused", None),
    ],
)
@pytest.mark.parametrize("kind", ["create", "update"])
def test_an_answer_that_is_not_borne_out_is_not_believed(
    shop: Desktop, desk: Desk, fresh: Fresh, kind: str, fault: str, discrepancy: Discrepancy | None
) -> None:
    key = fresh(fault)
    if kind == "update":
        shop.service.order(key, n=1, note="old")
        shop.service.order(f"{key}-other", n=1, note="old")
    told = shop.create(desk, key, fault) if kind == "create" else shop.update(desk, key, fault)
    assert not told.verified
    assert "completed" not in told.message.lower() or "no verified" in told.message
    if discrepancy is not None:
        assert told.discrepancy is discrepancy


@pytest.mark.requirement("RECIPE-resource", "L07")
@pytest.mark.parametrize("fault", ["unanswered", "refused_landed", "late"])
@pytest.mark.parametrize("kind", ["create", "update"])
def test_l07_what_landed_is_verified_whatever_the_answer_was(
    shop: Desktop, desk: Desk, fresh: Fresh, kind: str, fault: str
) -> None:
    key = fresh(fault)
    if kind == "update":
        shop.service.order(key, n=1, note="old")
    told = shop.create(desk, key, fault) if kind == "create" else shop.update(desk, key, fault)
    assert told.verified
    assert told.attempts == 1


@pytest.mark.requirement("RECIPE-resource")
def test_a_create_that_landed_twice_is_a_duplicate(shop: Desktop, desk: Desk, fresh: Fresh) -> None:
    told = shop.create(desk, fresh("twice"), "twice")
    assert not told.verified
    assert told.discrepancy is Discrepancy.DUPLICATE_SIDE_EFFECT


NOTE = Resource("/notes/{key}", "/notes", tenant="tenant", id_from="id", mark_in="reference", find_by="reference")


@pytest.mark.requirement("RECIPE-resource")
def test_what_the_server_names_is_found_by_its_mark_and_its_id_is_in_the_value(
    shop: Desktop, desk: Desk, fresh: Fresh
) -> None:
    note = verified_create(shop.api, shop.records, NOTE, name="note")
    with desk.open() as rb:
        told = rb.run(note(key=fresh("n"), fields={"text": "hello"}), operation=fresh("note"))
    assert told.verified
    assert told.attribution is Attribution.OURS
    assert isinstance(told.value, dict)
    assert told.value["id"] == shop.service.notes[-1]["id"]


@pytest.mark.requirement("RECIPE-resource")
@pytest.mark.parametrize("fault", ["lost", "partial", "wrong_type"])
def test_what_the_server_names_and_does_not_hold_is_not_verified(
    shop: Desktop, desk: Desk, fresh: Fresh, fault: str
) -> None:
    note = verified_create(shop.api, shop.records, NOTE, name="note")
    shop.service.fault = fault
    with desk.open() as rb:
        told = rb.run(note(key=fresh("n"), fields={"n": 7, "note": "hello"}), operation=fresh("note"))
    assert not told.verified


@pytest.mark.requirement("RECIPE-resource")
def test_a_duplicate_freezes_its_own_intent_and_not_the_collection(shop: Desktop, desk: Desk, fresh: Fresh) -> None:
    note = verified_create(shop.api, shop.records, NOTE, name="note")
    shop.service.fault = "twice"
    with desk.open() as rb:
        twice = rb.run(note(key=fresh("n"), fields={"text": "hello"}), operation=fresh("note"))
        other = rb.run(note(key=fresh("n"), fields={"text": "hello"}), operation=fresh("note"))
    assert twice.discrepancy is Discrepancy.DUPLICATE_SIDE_EFFECT
    assert other.verified


def test_an_id_and_a_mark_are_two_members() -> None:
    with pytest.raises(ContractFieldError, match="one member"):
        Resource("/notes/{key}", "/notes", id_from="id", mark_in="id")


@pytest.mark.requirement("RECIPE-resource", "HS-07")
def test_a_cache_neither_confirms_nor_denies(shop: Desktop, desk: Desk, fresh: Fresh) -> None:
    """It shows the wanted state of before though the write was lost; and the old one though it landed."""
    key = fresh("confirms")
    shop.service.order(key, n=7, note="new", stamp="old")
    shop.records.get(_context(), "/orders/{key}", params={"key": key})
    shop.service.order(key, n=99, note="changed", version=2)
    shop.service.reading = "stale"
    told = shop.update(desk, key, "lost")
    assert not told.verified
    shop.service.honest()
    for lasting in (True, False):
        other = fresh("denies")
        shop.service.order(other, n=1, note="old")
        shop.records.get(_context(), "/orders/{key}", params={"key": other})
        shop.service.reading, shop.service.stale_left = "stale", 1_000 if lasting else 3
        told = shop.update(desk, other)
        assert shop.service.orders[other]["n"] == 7
        assert told.verified is not lasting
        assert told.verdict is not Verdict.REFUTED
        shop.service.honest()


@pytest.mark.requirement("RECIPE-resource")
def test_another_writer_in_between_is_not_overwritten(shop: Desktop, desk: Desk, fresh: Fresh) -> None:
    key = fresh("between")
    shop.service.order(key, n=1, note="old")
    get = shop.records.get

    def changed_meanwhile(*args: Any, **kwargs: Any) -> Any:
        shop.records.get = get  # type: ignore[method-assign]
        seen = get(*args, **kwargs)
        shop.service.order(key, n=5, note="theirs", version=2, stamp="theirs")
        return seen

    shop.records.get = changed_meanwhile  # type: ignore[method-assign]
    told = shop.update(desk, key)
    assert not told.verified
    assert shop.service.orders[key]["n"] == 5


@pytest.mark.requirement("RECIPE-resource", "L26")
@pytest.mark.parametrize("reading", ["down", "hidden"])
def test_l26_a_service_that_shows_nothing_is_not_believed_to_hold_nothing(
    shop: Desktop, desk: Desk, fresh: Fresh, reading: str
) -> None:
    key = fresh(reading)
    with desk.open() as rb:
        proposal = shop.create_action()(key=key, fields={"n": 7})
        shop.service.reading = reading
        told = rb.run(proposal, operation=key)
    assert told.verdict is not Verdict.VERIFIED
    assert told.verdict is not Verdict.REFUTED


@pytest.mark.requirement("RECIPE-resource")
@pytest.mark.parametrize("name", ["id", "stamp", "tenant"])
def test_what_says_which_resource_it_is_and_whose_is_no_field_to_change(
    shop: Desktop, desk: Desk, fresh: Fresh, name: str
) -> None:
    key = fresh("moved")
    shop.service.order(key, n=1)
    before = json.dumps(shop.service.orders)
    with desk.open() as rb:
        changed = rb.run(shop.update_action()(key=key, fields={name: "globex"}), operation=key)
        made = rb.run(shop.create_action()(key=fresh("new"), fields={name: "globex"}), operation=fresh("new"))
    assert (changed.attempts, made.attempts) == (0, 0)
    assert json.dumps(shop.service.orders) == before
    with desk.open() as rb:
        assert rb.run(
            shop.create_action()(key=fresh("own"), fields={"tenant": "acme"}), operation=fresh("own")
        ).verified


def test_another_tenants_resource_is_not_ours(shop: Desktop, desk: Desk, fresh: Fresh) -> None:
    key = fresh("theirs")
    shop.service.order(key, tenant="globex", n=7, note="new")
    assert not shop.update(desk, key).verified


def _context() -> Context:
    return Context("a", "acme", "agent:desk", "op", "x", "key", "rb-x")
