"""The demo's order service does what it is told, lies included; what is true is read from its own file."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from readback.demo.systems.launch import Systems, SystemsError
from tests.demo.waiting import eventually

# ---- the order service, honest


def test_an_honest_mutation_is_stamped_versioned_and_found_by_its_stamp(systems: Systems, shop: httpx.Client) -> None:
    answer = shop.post("/orders/o-1/ship", json={"carrier": "dhl"}, headers={"X-Stamp": "st-1"})
    order = systems.truth.order("o-1")
    assert (answer.status_code, answer.json()) == (200, order)
    assert order is not None
    assert (order["status"], order["carrier"], order["stamp"], order["version"]) == (
        "shipped",
        "dhl",
        "st-1",
        2,
    )
    changes = shop.get("/search", params={"stamp": "st-1"}).json()["changes"]
    assert [(c["resource"], c["id"], c["tenant"]) for c in changes] == [("orders", "o-1", "acme")]
    read = shop.get("/orders/o-1")
    assert (read.headers["X-Source"], read.headers["ETag"], read.json()) == ("primary", '"2"', order)


def test_a_repeated_key_has_no_second_effect_and_another_payload_is_refused(
    systems: Systems, shop: httpx.Client
) -> None:
    charge, key = {"order_id": "o-2", "amount_cents": 500, "currency": "EUR"}, {"Idempotency-Key": "key-2"}
    first, second = (shop.post("/charges", json=charge, headers=key) for _ in range(2))
    other = shop.post("/charges", json={**charge, "amount_cents": 501}, headers=key)
    assert first.json() == second.json()
    assert second.headers["Idempotent-Replay"] == "true"
    assert (other.status_code, other.json()["error"]) == (422, "key_reused")
    assert len(systems.truth.charges("o-2")) == 1
    known = shop.get("/keys/key-2").json()
    assert (known["status"], known["answer"]) == ("done", first.json())
    assert shop.get("/keys/never-seen").status_code == 404


def test_a_charge_is_queued_first_and_captured_a_moment_later(systems: Systems, shop: httpx.Client) -> None:
    answer = shop.post("/charges", json={"order_id": "o-3", "amount_cents": 500, "currency": "EUR"})
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    eventually(lambda: systems.truth.charges("o-3")[0]["status"] == "captured")
    refund = {"charge_id": answer.json()["id"], "amount_cents": 200}
    assert shop.post("/refunds", json=refund).status_code == 201
    assert shop.post("/refunds", json={**refund, "amount_cents": 400}).json()["error"] == "too_much"
    assert systems.truth.charges("o-3")[0]["refunded_cents"] == 200


def test_notes_ignore_keys_so_that_a_blind_retry_appends_twice(systems: Systems, shop: httpx.Client) -> None:
    for _ in range(2):
        shop.post("/orders/o-4/notes", json={"text": "call back"}, headers={"Idempotency-Key": "key-4"})
    assert systems.truth.notes("o-4") == ["call back", "call back"]


def test_one_fulfilment_books_a_shipment_takes_stock_and_packs_the_order(systems: Systems, shop: httpx.Client) -> None:
    before = systems.truth.stock("sku-lamp") or 0
    answer = shop.post("/orders/o-5/fulfil", json={"carrier": "ups", "sku": "sku-lamp", "qty": 2})
    assert answer.json()["status"] == "ok"
    assert [row["qty"] for row in systems.truth.shipments("o-5")] == [2]
    assert systems.truth.stock("sku-lamp") == before - 2
    assert (systems.truth.order("o-5") or {})["status"] == "packed"


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code"),
    [
        ("POST", "/orders/o-6/ship", {"carrier": "pigeon"}, {}, 422),
        ("POST", "/orders/none/ship", {"carrier": "dhl"}, {}, 404),
        ("POST", "/orders/o-6/ship", {"carrier": "dhl"}, {"X-Tenant": "initech"}, 403),
        ("PATCH", "/orders/o-6", {"note": "x"}, {"If-Match": '"7"'}, 412),
        ("PATCH", "/orders/o-6", {"version": 9}, {}, 422),
        ("POST", "/charges", {"order_id": "o-6", "amount_cents": 1.5, "currency": "EUR"}, {}, 422),
        ("GET", "/orders/none", None, {}, 404),
        ("GET", "/orders/o-6", None, {"X-Tenant": "initech"}, 403),
        ("GET", "/orders?colour=red", None, {}, 400),
        ("POST", "/nowhere", {}, {}, 404),
    ],
)
def test_a_bad_request_is_refused_and_writes_nothing(
    systems: Systems,
    shop: httpx.Client,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
    code: int,
) -> None:
    assert shop.request(method, path, json=body, headers=headers).status_code == code
    assert (systems.truth.order("o-6") or {})["version"] == 1


# ---- the order service, lying


@pytest.mark.parametrize(
    ("fault", "params", "code", "said"),
    [
        ("silent_noop", {}, 200, '{"status": "ok"}'),
        ("accepted_lost", {}, 202, '{"status": "accepted"}'),
        ("success_false", {}, 200, '"success": false'),
        ("refuse", {"code": 503}, 503, "unavailable"),
        ("silent_noop", {"answer": "honest"}, 200, '"carrier": "dhl"'),
    ],
)
def test_a_fault_that_commits_nothing(
    systems: Systems, shop: httpx.Client, fault: str, params: dict[str, Any], code: int, said: str
) -> None:
    systems.fault(fault, match={"method": "POST", "path": "/orders/o-7/ship"}, **params)
    answer = shop.post("/orders/o-7/ship", json={"carrier": "dhl"})
    assert answer.status_code == code
    assert said in answer.text
    assert (systems.truth.order("o-7") or {})["version"] == 1


@pytest.mark.parametrize(("fault", "version"), [("timeout_before", 1), ("timeout_after", 2)])
def test_a_timeout_says_nothing_whether_it_committed_or_not(
    systems: Systems, shop: httpx.Client, fault: str, version: int
) -> None:
    order_id = {"timeout_before": "o-8", "timeout_after": "o-9"}[fault]
    systems.fault(fault, match={"path": f"/orders/{order_id}"})
    with pytest.raises(httpx.ReadTimeout):
        shop.patch(f"/orders/{order_id}", json={"note": "x"}, timeout=0.2)
    eventually(lambda: (systems.truth.order(order_id) or {})["version"] == version)


def test_an_error_after_the_commit_leaves_the_effect_and_the_key(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("error_after_commit", match={"stamp": "st-10"})
    charge = {"order_id": "o-10", "amount_cents": 500, "currency": "EUR"}
    headers = {"X-Stamp": "st-10", "Idempotency-Key": "key-10"}
    assert shop.post("/charges", json=charge, headers=headers).status_code == 500
    assert shop.get("/keys/key-10").json()["status"] == "done"
    assert shop.post("/charges", json=charge, headers=headers).status_code == 202
    assert systems.truth.effects("st-10") == {"charges": 1}


@pytest.mark.parametrize(("answer", "code"), [("accepted", 202), ("honest", 200)])
def test_a_late_effect_is_said_to_be_there_and_is_not(
    systems: Systems, shop: httpx.Client, answer: str, code: int
) -> None:
    systems.fault("late", match={"path": "/orders/o-11/cancel"}, ms=60_000, answer=answer)
    headers = {"Idempotency-Key": f"key-11-{answer}"}
    assert shop.post("/orders/o-11/cancel", headers=headers).status_code == code
    assert (systems.truth.order("o-11") or {})["status"] == "open"
    assert shop.post("/orders/o-11/cancel", headers=headers).json()["error"] == "in_progress"


def test_a_late_effect_lands_after_the_answer(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("late", match={"path": "/orders/o-12/cancel"}, ms=50)
    assert shop.post("/orders/o-12/cancel", headers={"Idempotency-Key": "key-12"}).status_code == 202
    eventually(lambda: (systems.truth.order("o-12") or {})["status"] == "cancelled")
    assert shop.get("/keys/key-12").json()["status"] == "done"


def test_a_lagging_replica_denies_what_is_true_and_then_follows(systems: Systems, shop: httpx.Client) -> None:
    for note, ms in (("", 50), ("old", 50), ("new", 60_000)):
        systems.fault("replica_lag", match={"path": "/orders/o-13"}, ms=ms)
        shop.patch("/orders/o-13", json={"note": note})
    eventually(lambda: shop.get("/replica/orders/o-13").json()["note"] == "old")
    assert shop.get("/orders/o-13").json()["note"] == "new"


def test_the_replica_tells_the_commit_that_it_has_reached(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("replica_lag", match={"path": "/orders/o-15"}, ms=60_000)
    shop.patch("/orders/o-15", json={"note": "new"})
    commit = int(shop.get("/orders/o-15").headers["X-Commit"])
    assert int(shop.get("/replica/orders/o-15").headers["X-Commit"]) < commit
    systems.clear_faults()
    assert int(shop.get("/replica/orders/o-15").headers["X-Commit"]) >= commit


@pytest.mark.parametrize("view", ["replica", "cache"])
def test_a_lagging_view_confirms_a_write_that_was_lost(systems: Systems, shop: httpx.Client, view: str) -> None:
    systems.fault(f"{view}_confirms", match={"path": "/orders/o-16"})
    assert shop.patch("/orders/o-16", json={"note": "new"}).json()["note"] == "new"
    assert shop.get(f"/{view}/orders/o-16").json()["note"] == "new"
    assert (systems.truth.order("o-16") or {})["note"] == ""


def test_a_partial_fulfilment_does_only_the_named_parts(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("partial", match={"path": "/orders/o-17/fulfil"}, keep=["shipment", "stock"])
    answer = shop.post("/orders/o-17/fulfil", json={"carrier": "ups", "sku": "sku-mug", "qty": 1})
    assert answer.json()["order"]["status"] == "packed"
    assert len(systems.truth.shipments("o-17")) == 1
    assert (systems.truth.order("o-17") or {})["status"] == "open"


def test_a_write_lands_at_another_tenant(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("wrong_tenant", match={"path": "/orders/o-20"})
    said = shop.patch("/orders/o-20", json={"note": "x"}, headers={"X-Stamp": "st-20"}).json()
    assert (said["tenant"], said["note"]) == ("acme", "x")
    assert (systems.truth.order("o-20") or {})["note"] == ""
    assert (systems.truth.order("o-20", "globex") or {})["note"] == "x"
    own = shop.get("/search", params={"stamp": "st-20"}).json()["changes"]
    everywhere = shop.get("/search", params={"stamp": "st-20"}, headers={"X-Tenant": "*"}).json()["changes"]
    assert (own, [change["tenant"] for change in everywhere]) == ([], ["globex"])


def test_a_write_lands_on_another_order(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("wrong_target", match={"path": "/orders/o-21/ship"}, target="o-22")
    assert shop.post("/orders/o-21/ship", json={"carrier": "dhl"}).json()["id"] == "o-21"
    assert [(systems.truth.order(o) or {})["status"] for o in ("o-21", "o-22")] == ["open", "shipped"]


def test_other_values_are_written_than_the_answer_says(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("wrong_value", match={"path": "/orders/o-23"}, set={"address": "1 Elsewhere", "note": "?"})
    assert shop.patch("/orders/o-23", json={"address": "2 Here"}).json()["address"] == "2 Here"
    order = systems.truth.order("o-23") or {}
    assert (order["address"], order["note"]) == ("1 Elsewhere", "?")


def test_an_effect_is_applied_twice_under_one_key(systems: Systems, shop: httpx.Client) -> None:
    before = systems.truth.stock("sku-chair") or 0
    systems.fault("duplicate", match={"path": "/stock/sku-chair/adjust"})
    headers = {"X-Stamp": "st-24", "Idempotency-Key": "key-24"}
    said = shop.post("/stock/sku-chair/adjust", json={"delta": -3}, headers=headers).json()
    assert said["qty"] == before - 3
    assert systems.truth.stock("sku-chair") == before - 6
    assert systems.truth.effects("st-24") == {"stock": 2}


def test_a_charge_that_was_queued_is_declined(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("declined", match={"path": "/charges"})
    shop.post("/charges", json={"order_id": "o-26", "amount_cents": 500, "currency": "EUR"})
    eventually(lambda: [row["status"] for row in systems.truth.charges("o-26")] == ["declined"])


def test_reads_are_down_until_the_outage_ends_or_is_taken_back(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("outage", match={"method": "PATCH", "path": "/orders/o-29"}, ms=60_000)
    assert shop.patch("/orders/o-29", json={"note": "x"}).status_code == 200
    assert shop.get("/orders/o-29").status_code == 503
    systems.fault("outage", match={"method": "PATCH", "path": "/orders/o-29"}, ms=50)
    assert shop.patch("/orders/o-29", json={"note": "x"}).status_code == 200
    eventually(lambda: shop.get("/orders/o-29").status_code == 200)
    systems.fault("outage", match={"method": "GET", "path": "/orders/*"}, code=403)
    assert [shop.get(path).status_code for path in ("/orders/o-29", "/keys/none")] == [403, 403]
    systems.clear_faults()
    assert shop.get("/orders/o-29").json()["note"] == "x"


def test_a_fault_spoils_as_often_as_ordered(systems: Systems, shop: httpx.Client) -> None:
    systems.fault("refuse", match={"path": "/orders/o-30"}, times=2)
    codes = [shop.patch("/orders/o-30", json={"note": "x"}).status_code for _ in range(3)]
    assert codes == [503, 503, 200]


def test_an_unknown_fault_is_an_error(systems: Systems) -> None:
    with pytest.raises(SystemsError, match="unknown fault"):
        systems.fault("gremlins")
