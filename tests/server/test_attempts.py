"""A host that calls its tool itself: the attempt is durable before the call, and the state is read back after."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.bed import Bed, run
from tests.server.contracts import shop


def begin(client: httpx.Client, key: str, carrier: str = "dhl", **body: Any) -> httpx.Response:
    asked = {"contract": "ship", "arguments": {"order_id": key, "carrier": carrier}, **body}
    return client.post("/v1/attempts", json=asked, headers={"Idempotency-Key": key})


def do(order: str, stamp: str) -> None:
    """The caller's own call of the shop."""
    db = shop()
    db.execute("INSERT OR REPLACE INTO orders VALUES (?, 'acme', 'dhl', ?)", (order, stamp))
    db.close()


@pytest.mark.requirement("SERVER-attempts")
def test_an_attempt_is_durable_and_a_report_is_read_back(bed: Bed) -> None:
    client = bed.client()
    begun = begin(client, "o-1")
    body = begun.json()
    assert (begun.status_code, body["allowed"]) == (201, True)
    events = client.get(body["action"]["links"]["events"]).json()["items"]
    assert "attempted" in [each["kind"] for each in events]
    do("o-1", body["action"]["stamp"])
    where = f"/v1/attempts/{body['action']['id']}/report"
    reported = client.post(where, json={"value": {"status": "ok"}}, headers={"Prefer": "wait=5"})
    assert (reported.status_code, reported.json()["verified"]) == (200, True), reported.text
    again = client.post(where, json={"error": "late"}, headers={"Prefer": "wait=1"})
    assert again.json()["verified"] is True


@pytest.mark.requirement("SERVER-attempts")
def test_the_same_attempt_is_handed_out_once(bed: Bed) -> None:
    client = bed.client()
    assert begin(client, "o-2").json()["allowed"] is True
    second = begin(client, "o-2")
    assert second.json()["allowed"] is False
    assert second.status_code == 202


@pytest.mark.requirement("SERVER-attempts")
def test_a_reported_success_that_is_not_in_the_shop_is_no_success(bed: Bed) -> None:
    client = bed.client()
    body = begin(client, "o-3").json()
    where = f"/v1/attempts/{body['action']['id']}/report"
    reported = client.post(where, json={"value": {"status": "ok"}}, headers={"Prefer": "wait=4"}).json()
    assert reported["verified"] is False
    assert reported["state"] != "reconciled_success"


def test_an_action_without_a_handed_out_attempt_takes_no_report(bed: Bed) -> None:
    client = bed.client()
    action = run(client, "o-4").json()
    answer = client.post(f"/v1/attempts/{action['id']}/report", json={"value": 1})
    assert (answer.status_code, answer.json()["code"]) == (422, "input.usage")
    both = client.post(f"/v1/attempts/{action['id']}/report", json={"value": 1, "error": "x"})
    assert both.status_code == 422


def test_a_saga_is_verified_as_a_whole_and_passes_values_on(bed: Bed) -> None:
    client = bed.client()
    steps = [
        {"name": "first", "contract": "ship", "arguments": {"order_id": "s-1", "carrier": "dhl"}, "pivot": True},
        {
            "name": "second",
            "contract": "post",
            "arguments": {"order_id": "s-2", "carrier": {"$from": {"step": "first", "path": "carrier"}}},
            "after": ["first"],
        },
    ]
    headers = {"Idempotency-Key": "saga-1", "Prefer": "wait=10"}
    answer = client.post("/v1/sagas", json={"steps": steps}, headers=headers)
    body = answer.json()
    assert answer.status_code == 200, answer.text
    assert body["verified"] is True
    assert [each["name"] for each in body["steps"]] == ["first", "second"]
    assert client.get(f"/v1/sagas/{body['id']}").json()["kind"] == "saga"
    assert body["id"] in client.get("/v1/sagas").text
    step = body["steps"][1].get("id", "")
    assert client.get(f"/v1/sagas/{step or run(client, 's-3').json()['id']}").status_code == 404


@pytest.mark.requirement("SERVER-test-mode")
def test_a_test_of_a_saga_takes_no_value_from_another_step_and_says_so(bed: Bed) -> None:
    client = bed.client()
    reference = {"$from": {"step": "first", "path": "carrier"}}
    steps = [
        {"name": "first", "contract": "ship", "arguments": {"order_id": "st-1", "carrier": "dhl"}, "pivot": True},
        {"name": "second", "contract": "ship", "arguments": {"order_id": "st-2", "carrier": reference}},
    ]
    answer = client.post("/v1/sagas", json={"steps": steps, "test": True}, headers={"Idempotency-Key": "saga-3"})
    assert (answer.status_code, answer.json()["code"]) == (422, "http.no-sandbox")
    assert "'carrier' of step 'second'" in answer.json()["detail"]
    assert answer.json()["remedy"] == "Write the value itself into the test's saga."


def test_a_saga_with_a_fault_does_nothing(bed: Bed) -> None:
    client = bed.client()
    steps = [{"name": "a", "contract": "ship", "arguments": {"order_id": "s-9", "carrier": "dhl"}, "after": ["none"]}]
    answer = client.post("/v1/sagas", json={"steps": steps}, headers={"Idempotency-Key": "saga-2"})
    assert (answer.status_code, answer.json()["code"]) == (422, "input.saga")
    assert answer.json()["faults"]
