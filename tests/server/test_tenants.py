"""A tenant sees nothing of another tenant: no id, no name, no count, no difference in an error, and no event."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from readback.server.routing import Route
from readback.server.serving import whole_table
from tests.server.bed import Bed, run

UNKNOWN = "01m8zzzzzzzzzzzzzzzzzzzzzz"
MARK = "bees"
"""Stands in every name that tenant B chose."""
TABLE = whole_table()
OWN = {"/v1/webhooks/{sender}", "/openapi.json", "/healthz", "/v1/events"}
"""Routes without a token, and the stream, which has a test of its own."""


@pytest.fixture(scope="module")
def things(bed: Bed) -> dict[str, str]:
    """Ids of tenant B, of every kind."""
    client = bed.client("b-corp", "agent:bees", ("run", "read", "review", "admin"))
    verified = run(client, f"{MARK}-1", run=f"{MARK}-run").json()
    unknown = run(client, f"{MARK}-2", "dark", wait=3).json()
    waiting = run(client, f"{MARK}-3", contract="pay").json()
    steps = [{"name": "one", "contract": "ship", "arguments": {"order_id": f"{MARK}-4", "carrier": "dhl"}}]
    saga = client.post("/v1/sagas", json={"steps": steps}, headers={"Idempotency-Key": f"{MARK}-4"}).json()
    assert verified["verified"]
    assert waiting["hold"] == "approval"
    incidents = client.get("/v1/incidents?all=true").json()["items"]
    found = {
        "verified": verified["id"],
        "unknown": unknown["id"],
        "waiting": waiting["id"],
        "saga": saga["id"],
        "stamp": verified["stamp"],
        "claim": verified["claims"][0]["id"],
    }
    return found | ({"incident": incidents[0]["id"]} if incidents else {})


def bodies(route: Route, test: bool = False) -> dict[str, Any] | None:
    found: dict[str, dict[str, Any]] = {
        "decideReview": {"decision": "abandon", "reason": "r"},
        "decideApproval": {"decision": "approve", "token": "{}"},
        "retractClaim": {"reason": "r"},
        "reinstateClaim": {"reason": "r"},
        "runAction": {"contract": "ship", "arguments": {"order_id": "x", "carrier": "dhl"}, "upon": ["ID"]},
        "beginAttempt": {"contract": "none"},
        "runSaga": {"steps": [{"name": "a", "contract": "none"}]},
        "liftFreeze": {"subject": "resource:order/ID", "reason": "r"},
        "resendDeadLetters": {"all": True, "preview": True},
        "checkReport": {"text": "## Done\n- shipped [ID]\n"},
        "checkContract": {"arguments": {"order_id": "x", "carrier": "dhl"}},
    }
    if route.method != "POST":
        return None
    return found.get(route.name, {})


def ask(client: httpx.Client, route: Route, named: str) -> tuple[int, str]:
    """The answer with the named id written as ID, without the request's own id."""
    path = re.sub(r"\{\w+\}", named, route.path)
    body = bodies(route)
    text = None if body is None else json.dumps(body).replace("ID", named)
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"key-{route.name}", "If-Match": '"1"'}
    query = {"getReviewStatement": {"decision": "abandon", "reason": "r", "version": "1"}}.get(route.name)
    answer = client.request(route.method, path, content=text, headers=headers, params=query)
    said = re.sub(r'"instance":\s*"\w+"', "", answer.text)
    return answer.status_code, said.replace(named, "ID").replace(named.partition(":")[0], "ID")


@pytest.fixture(scope="module")
def outsider(bed: Bed) -> httpx.Client:
    return bed.client("a-corp", "agent:a")


@pytest.mark.requirement("SERVER-tenants")
@pytest.mark.parametrize("route", [each for each in TABLE.routes if each.path not in OWN], ids=lambda r: str(r.name))
def test_an_id_of_another_tenant_is_an_unknown_id_on_every_route(
    bed: Bed, things: dict[str, str], outsider: httpx.Client, route: Route
) -> None:
    client = outsider
    for name, named in things.items():
        theirs, unknown = ask(client, route, named), ask(client, route, UNKNOWN)
        assert MARK not in theirs[1], f"{route.name} shows a name of tenant B"
        if "{name}" in route.path or "{run}" in route.path:
            continue
        if name == "claim":  # another form of id
            unknown = ask(client, route, f"{UNKNOWN}:{named.partition(':')[2]}")
        assert theirs == unknown, f"{route.name} tells {name} of tenant B from an unknown id"


@pytest.mark.requirement("SERVER-rights")
@pytest.mark.parametrize("route", [each for each in TABLE.routes if each.right is not None], ids=lambda r: str(r.name))
def test_no_route_answers_without_a_token_or_with_a_right_missing(bed: Bed, route: Route) -> None:
    path = re.sub(r"\{\w+\}", UNKNOWN, route.path)
    bare = httpx.request(route.method, bed.url + path, trust_env=False)
    assert (bare.status_code, bare.json()["code"]) == (401, "http.unauthenticated")
    assert bare.headers["www-authenticate"].startswith("Bearer")
    assert route.right is not None
    others = tuple(each for each in ("run", "read", "review", "admin") if each != route.right)
    with httpx.Client(headers={"Authorization": f"Bearer {bed.token(rights=others)}"}, trust_env=False) as client:
        refused = client.request(route.method, bed.url + path)
    assert (refused.status_code, refused.json()["code"]) == (403, "http.missing-right")


@pytest.mark.requirement("SERVER-tenants")
def test_the_lists_of_a_tenant_hold_its_own_things_alone(bed: Bed, things: dict[str, str]) -> None:
    mine = run(bed.client("a-corp"), "mine-1").json()["id"]
    client = bed.client("a-corp")
    for path in ("actions", "sagas", "reviews", "approvals", "claims", "incidents?all=true", "freezes", "dead-letters"):
        text = client.get(f"/v1/{path}").text
        assert MARK not in text
        assert not any(each in text for each in things.values())
    assert mine in client.get("/v1/actions").text
    assert MARK not in client.get("/metrics").text
    for query in ({"run": f"{MARK}-run"}, {"operation": f"{MARK}-1", "contract": "ship"}, {"saga": things["saga"]}):
        assert client.get("/v1/actions", params=query).json()["items"] == []


@pytest.mark.requirement("SERVER-tenants")
def test_the_stream_of_a_tenant_holds_its_own_entries_alone(bed: Bed, things: dict[str, str]) -> None:
    client = bed.client("c-corp")
    mine = run(client, "stream-1").json()
    last = client.get(mine["links"]["events"]).json()["items"][-1]["position"]
    seen: list[dict[str, Any]] = []
    with client.stream("GET", "/v1/events", headers={"Last-Event-ID": "0"}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
                if seen[-1]["position"] >= last:
                    break
    assert {each["id"] for each in seen} == {mine["id"]}
    refused = client.get("/v1/events", params={"action": things["verified"]})
    assert refused.status_code == 404
