"""`POST /v1/actions` says what was read back, and never more: the unknown is an answer, and a lie is found."""

from __future__ import annotations

import pytest

from tests.server import contracts
from tests.server.bed import Bed, run
from tests.server.contracts import calls


@pytest.mark.requirement("SERVER-final-200")
def test_a_verified_action_is_200_with_its_evidence(bed: Bed) -> None:
    answer = run(bed.client(), "v-1")
    body = answer.json()
    assert answer.status_code == 200, body
    assert (body["state"], body["verified"], body["final"]) == ("reconciled_success", True, True)
    assert body["authoritative"]["carrier"] == "dhl"
    assert answer.headers["ETag"] == f'"{body["version"]}"'
    assert answer.headers["Location"] == body["links"]["self"] == f"/v1/actions/{body['id']}"
    again = bed.client().get(body["links"]["self"])
    assert again.status_code == 200
    assert again.json()["state"] == "reconciled_success"
    assert bed.client().get(body["links"]["events"]).json()["items"][-1]["version"] == body["version"]


@pytest.mark.requirement("SERVER-no-false-success")
def test_a_lie_of_the_tool_is_200_with_a_state_that_is_no_success(bed: Bed) -> None:
    answer = run(bed.client(), "l-1", "lie")
    body = answer.json()
    assert body["verified"] is False
    assert body["state"] != "reconciled_success"
    assert "done" not in body["message"].lower().split()
    assert answer.status_code == (200 if body["final"] else 202)


@pytest.mark.requirement("SERVER-unknown-202")
def test_an_unknown_state_is_202_with_a_place_to_look(bed: Bed) -> None:
    answer = run(bed.client(), "u-1", "dark", wait=3)
    body = answer.json()
    assert answer.status_code == 202, body
    assert body["verified"] is False
    assert body["final"] is False
    assert answer.headers["Location"] == f"/v1/actions/{body['id']}"
    assert int(answer.headers["Retry-After"]) >= 1
    assert body["repeat_allowed"] is False


@pytest.mark.requirement("SERVER-final-200")
def test_an_error_of_the_tool_after_the_effect_is_read_back(bed: Bed) -> None:
    answer = run(bed.client(), "e-1", "late-raise")
    assert answer.status_code == 200
    assert answer.json()["verified"] is True


@pytest.mark.requirement("SERVER-key-once")
def test_the_same_key_runs_once(bed: Bed) -> None:
    client = bed.client()
    first, second = run(client, "k-1"), run(client, "k-1")
    assert first.json()["id"] == second.json()["id"]
    assert second.json()["replayed"] is True
    assert calls().count("k-1") == 1


@pytest.mark.requirement("SERVER-key-once")
def test_another_payload_under_the_same_key_is_422(bed: Bed) -> None:
    client = bed.client()
    run(client, "p-1")
    answer = run(client, "p-1", "ups")
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "input.payload-conflict"
    assert calls().count("p-1") == 1


def test_a_caller_without_patience_gets_202_and_a_worker_finishes(bed: Bed) -> None:
    client = bed.client()
    contracts.gate.clear()
    answer = run(client, "w-1", "slow", wait=0.2)
    assert answer.status_code == 202, answer.json()
    assert answer.json()["final"] is False
    contracts.gate.set()
    settled = client.get(answer.json()["links"]["self"], headers={"Prefer": "wait=10"})
    assert settled.json()["verified"] is True
    assert calls().count("w-1") == 1


@pytest.mark.requirement("SERVER-key-once")
def test_the_answer_about_one_goal_never_answers_for_another(bed: Bed) -> None:
    client = bed.client()
    first = run(client, "g-1", intended={"carrier": "dhl", "parts": 2})
    assert first.json()["verified"] is True
    for goal in ({"carrier": "ups", "parts": 2}, {"carrier": "dhl", "parts": True}, {}, {"order_id": "g-1"}):
        other = run(client, "g-1", intended=goal)
        assert (other.status_code, other.json()["code"]) == (422, "input.payload-conflict"), goal
    assert run(client, "g-1").json()["replayed"] is True
    same = run(client, "g-1", intended={"parts": 2, "carrier": "dhl"})
    assert (same.json()["id"], same.json()["replayed"]) == (first.json()["id"], True)
    assert run(client, "g-1", step="another step", run="another run").json()["replayed"] is True
    assert calls().count("g-1") == 1


@pytest.mark.requirement("SERVER-problems")
@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        ({}, {"contract": "ship"}, 400, "http.idempotency-key"),
        ({"Idempotency-Key": "x"}, {"contract": "ship", "argumentz": {}}, 400, "http.body"),
        ({"Idempotency-Key": "x"}, {"contract": "ship", "arguments": {}}, 422, "input.arguments"),
        ({"Idempotency-Key": "x"}, {"contract": "ship", "arguments": []}, 422, "input.arguments"),
        ({"Idempotency-Key": "x"}, {"contract": "none", "arguments": {}}, 404, "input.not-found"),
        ({"Idempotency-Key": "x" * 300}, {"contract": "ship", "arguments": {"order_id": "1", "carrier": "c"}}, 422, ""),
        ({"Idempotency-Key": "x"}, [], 400, "http.body"),
    ],
)
def test_bad_input_gets_a_problem_with_a_code_and_a_remedy(
    bed: Bed, headers: dict[str, str], body: object, status: int, code: str
) -> None:
    before = len(calls())
    answer = bed.client().post("/v1/actions", json=body, headers=headers)
    found = answer.json()
    assert answer.status_code == status, found
    assert found["code"] == (code or found["code"])
    assert found["detail"]
    assert found["remedy"]
    assert len(calls()) == before


@pytest.mark.requirement("SERVER-test-mode")
def test_a_test_reaches_the_sandbox_and_never_the_real_tool(bed: Bed) -> None:
    client = bed.client()
    answer = run(client, "t-1", test=True)
    body = answer.json()
    assert answer.status_code == 200, body
    assert body["verified"] is True
    assert body["test"] is True
    assert "t-1" not in calls()
    assert calls("SHOP_SANDBOX").count("t-1") == 1
    assert client.get(body["links"]["self"]).json()["test"] is True
    assert client.get(f"/v1/actions/{body['id']}").status_code == 404
    assert body["id"] not in client.get("/v1/actions").text
    assert body["id"] in client.get("/v1/actions?test=true").text


@pytest.mark.requirement("SERVER-test-mode")
def test_a_contract_without_a_sandbox_refuses_a_test(bed: Bed) -> None:
    answer = run(bed.client(), "t-2", contract="bare", test=True)
    assert answer.status_code == 422
    assert answer.json()["code"] == "http.no-sandbox"
    assert "t-2" not in calls()


def test_entries_explanation_and_bundle_come_from_the_ledger(bed: Bed) -> None:
    client = bed.client()
    body = run(client, "b-1").json()
    events = client.get(body["links"]["events"]).json()["items"]
    assert [each["version"] for each in events] == [*range(1, len(events) + 1)]
    assert events[0]["kind"] == "proposed"
    explained = client.get(body["links"]["explain"]).json()
    assert explained["why"]
    assert client.get(body["links"]["bundle"]).json()
    proof = client.get(body["links"]["proof"])
    assert (proof.status_code, proof.json()["code"]) == (409, "http.not-sealed")


def test_a_list_is_walked_by_the_last_id(bed: Bed) -> None:
    client = bed.client(tenant="pages")
    ids = [run(client, f"g-{n}").json()["id"] for n in range(5)]
    found: list[str] = []
    after = ""
    while True:
        page = client.get("/v1/actions", params={"limit": 2, "starting_after": after}).json()
        found += [each["id"] for each in page["items"]]
        if not page["has_more"]:
            break
        after = found[-1]
    assert found == ids[::-1]
    named = client.get("/v1/actions", params={"operation": "g-3", "contract": "ship"}).json()["items"]
    assert [each["id"] for each in named] == [ids[3]]
