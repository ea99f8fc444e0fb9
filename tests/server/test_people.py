"""A person's decision goes by version and by the token's principal; an approval comes in signed, and never as a key."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from readback.canon import parse_json
from readback.client.approving import ApproverKey
from readback.config import Settings
from readback.domain.contract.approval import Approver, Decision, bound_from
from readback.engine.people.approvals import signed_token
from tests.server.bed import NOW_US, Bed, run, running
from tests.server.contracts import calls


@pytest.fixture(scope="module")
def key(place: Path) -> ApproverKey:
    return ApproverKey.create(place / "alice.key", "correct horse battery staple")


@pytest.fixture(scope="module")
def bed(place: Path, key: ApproverKey) -> Iterator[Bed]:
    settings = Settings(approvers=(Approver("human:alice", key.public_key, ("acme",)),))
    with running(place, settings=settings) as found:
        yield found


@pytest.mark.requirement("SERVER-decisions")
def test_a_review_is_decided_by_the_version_that_was_seen(bed: Bed) -> None:
    agent, person = bed.client(), bed.client(principal="human:bob")
    body = run(agent, "r-1", "dark", wait=6).json()
    assert body["review"], body["state"]
    assert body["id"] in person.get("/v1/reviews").text
    case = person.get(f"/v1/reviews/{body['id']}")
    etag = case.headers["ETag"]
    where = f"/v1/reviews/{body['id']}/decisions"
    asked = {"decision": "attest_not_done", "reason": "The shop's clerk looked."}
    without = person.post(where, json=asked)
    assert (without.status_code, without.json()["code"]) == (428, "http.precondition-required")
    stale = person.post(where, json=asked, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "review.stale")
    own = agent.post(where, json=asked, headers={"If-Match": etag})
    assert (own.status_code, own.json()["code"]) == (403, "review.self")
    number = etag.strip('"')
    for tag in ("*", f"W/{etag}", f'"0{number}"', number, f"{etag}, {etag}"):
        malformed = person.post(where, json=asked, headers={"If-Match": tag})
        assert malformed.status_code == 400, tag
    decided = person.post(where, json=asked, headers={"If-Match": etag})
    assert decided.status_code == 200, decided.text
    assert decided.json()["resolution"] == "attested_not_done"
    assert decided.json()["verified"] is False
    again = person.post(where, json=asked, headers={"If-Match": etag})
    assert again.status_code in (409, 412)


@pytest.mark.requirement("SERVER-signatures")
def test_an_approval_is_signed_elsewhere_and_handed_in(bed: Bed, key: ApproverKey) -> None:
    agent, person = bed.client(), bed.client(principal="human:alice")
    waiting = run(agent, "a-1", contract="pay")
    body = waiting.json()
    assert waiting.status_code == 202
    assert body["hold"] == "approval"
    assert "a-1" not in calls()
    assert body["id"] in person.get("/v1/approvals").text
    request = person.get(f"/v1/approvals/{body['id']}").json()
    bound = bound_from(parse_json(base64.b64decode(request["bytes"])))
    where = f"/v1/approvals/{body['id']}/tokens"
    forged = json.dumps({**signed_token(bound, key._signer, "human:alice", Decision.APPROVE, NOW_US).as_json(),
                         "signature": base64.b64encode(bytes(64)).decode()})  # fmt: skip
    refused = person.post(where, json={"decision": "approve", "token": forged})
    assert (refused.status_code, refused.json()["code"]) == (403, "approval.forged")
    token = signed_token(bound, key._signer, "human:alice", Decision.APPROVE, NOW_US)
    given = person.post(where, json={"decision": "approve", "token": json.dumps(token.as_json())})
    assert given.status_code == 200, given.text
    settled = agent.get(body["links"]["self"], headers={"Prefer": "wait=10"})
    assert settled.json()["verified"] is True
    assert calls().count("a-1") == 1
    again = person.post(where, json={"decision": "approve", "token": json.dumps(token.as_json())})
    assert again.status_code == 409


@pytest.mark.requirement("SERVER-signatures")
def test_an_approval_that_comes_after_its_time_releases_nothing(bed: Bed, key: ApproverKey) -> None:
    agent, person = bed.client(), bed.client(principal="human:alice")
    body = run(agent, "late-1", contract="pay_soon", wait=0).json()
    assert body["hold"] == "approval"
    bound = bound_from(parse_json(base64.b64decode(person.get(f"/v1/approvals/{body['id']}").json()["bytes"])))
    token = signed_token(bound, key._signer, "human:alice", Decision.APPROVE, NOW_US)
    ended = agent.get(body["links"]["self"], headers={"Prefer": "wait=20"}).json()
    assert (ended["state"], ended["code"], ended["verified"]) == ("failed", "approval.expired", False)
    given = {"decision": "approve", "token": json.dumps(token.as_json())}
    assert person.post(f"/v1/approvals/{body['id']}/tokens", json=given).status_code in (403, 409)
    assert agent.get(body["links"]["self"]).json()["state"] == "failed"
    assert "late-1" not in calls()


@pytest.mark.requirement("SERVER-signatures")
def test_a_signature_by_an_approvers_former_key_releases_nothing(place: Path, key: ApproverKey) -> None:
    new = ApproverKey.create(place / "alice-new.key", "another long pass phrase")
    folder = place / "changed"
    folder.mkdir()

    def server(used: ApproverKey) -> AbstractContextManager[Bed]:
        return running(folder, settings=Settings(approvers=(Approver("human:alice", used.public_key, ("acme",)),)))

    with server(key) as bed:
        body = run(bed.client(), "changed-1", contract="pay", wait=0).json()
        asked = bed.client(principal="human:alice").get(f"/v1/approvals/{body['id']}").json()
    bound = bound_from(parse_json(base64.b64decode(asked["bytes"])))
    with server(new) as bed:
        person = bed.client(principal="human:alice")
        where = f"/v1/approvals/{body['id']}/tokens"
        old = signed_token(bound, key._signer, "human:alice", Decision.APPROVE, NOW_US)
        refused = person.post(where, json={"decision": "approve", "token": json.dumps(old.as_json())})
        assert (refused.status_code, refused.json()["code"]) == (403, "approval.unknown-approver")
        assert "changed-1" not in calls()
        by_new = signed_token(bound, new._signer, "human:alice", Decision.APPROVE, NOW_US)
        stale = person.post(where, json={"decision": "approve", "token": json.dumps(by_new.as_json())})
        assert (stale.status_code, stale.json()["code"]) == (409, "approval.policy-changed")
        assert "changed-1" not in calls()
        assert person.get(f"/v1/approvals/{body['id']}").json()["current"] is False
        waiting = bed.client().get(body["links"]["self"]).json()
        assert (waiting["hold"], waiting["verified"]) == ("approval", False)


@pytest.mark.requirement("SERVER-decisions")
def test_a_claim_is_withdrawn_and_restored_by_version(bed: Bed) -> None:
    agent, person = bed.client(), bed.client(principal="human:bob")
    body = run(agent, "c-1").json()
    claim = next(each["id"] for each in body["claims"] if each["kind"] == "holds")
    seen = person.get(f"/v1/claims/{claim}")
    assert seen.json()["standing"] is True
    where = f"/v1/claims/{claim}/retract"
    assert person.post(where, json={"reason": "wrong"}).status_code == 428
    assert person.post(where, json={"reason": "wrong"}, headers={"If-Match": '"1"'}).status_code == 412
    done = person.post(where, json={"reason": "The parcel came back."}, headers={"If-Match": seen.headers["ETag"]})
    assert (done.status_code, done.json()["standing"]) == (200, False)
    upon = run(agent, "c-2", upon=[claim]).json()
    assert upon["verified"] is False
    assert "c-2" not in calls()
    back = person.post(
        f"/v1/claims/{claim}/reinstate", json={"reason": "It arrived."}, headers={"If-Match": done.headers["ETag"]}
    )
    assert back.json()["standing"] is True
    assert claim.partition(":")[0] in person.get("/v1/claims").text


def test_what_a_model_may_believe_is_what_was_read(bed: Bed) -> None:
    agent = bed.client()
    good, bad = run(agent, "m-1", run="run-1").json(), run(agent, "m-2", "lie", run="run-1").json()
    belief = agent.get("/v1/runs/run-1/belief").json()
    assert [each["action"] for each in belief["verified"]] == [good["id"]]
    assert bad["id"] in json.dumps(belief["unresolved"] + belief["not_done"])
    report = agent.post("/v1/runs/run-1/report", json={"text": "## Done\n- Order m-2 is shipped.\n", "every": True})
    assert report.json()["passed"] is False
    assert "m-2 is shipped" not in report.json()["safe"]


def test_a_check_says_whether_an_approval_is_needed_and_records_nothing(bed: Bed) -> None:
    agent = bed.client()
    before = agent.get("/v1/actions").json()["items"][:1]
    arguments = {"order_id": "chk", "carrier": "dhl"}
    assert agent.post("/v1/contracts/pay/check", json={"arguments": arguments}).json()["needs_approval"] is True
    assert agent.post("/v1/contracts/ship/check", json={"arguments": arguments}).json()["needs_approval"] is False
    assert agent.post("/v1/contracts/ship/check", json={"arguments": {}}).status_code == 422
    assert agent.get("/v1/actions").json()["items"][:1] == before
    found = agent.get("/v1/contracts/ship").json()
    assert set(found["arguments"]["properties"]) == {"order_id", "carrier"}
    assert found["sandbox"] is True
