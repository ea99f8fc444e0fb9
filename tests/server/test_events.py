"""Entries go out as events by ledger position, and a provider's webhook comes in as a wake-up alone."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from readback import bootstrap
from readback.config import Settings
from readback.contracts.registry import registry_of
from readback.server import app, hub
from readback.server.access.principal import Caller
from readback.server.access.webhooks import Sender
from readback.server.serving import create_app
from readback.server.settings import ServerSettings
from tests.server.bed import NOW_US, Bed, run, running
from tests.server.contracts import ship, shop

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def bed(place: Path) -> Iterator[Bed]:
    (place / "secret").write_bytes(b"whsec_" + base64.b64encode(SECRET))
    (place / "plain").write_bytes(SECRET)
    webhooks = (
        ("carrier", Sender(tenant="acme", secret=f"file:{place / 'secret'}", field="data.stamp")),
        ("bank", Sender(tenant="acme", secret=f"file:{place / 'plain'}", scheme="shared", header="x-bank")),
    )
    with running(place, webhooks=webhooks) as found:
        yield found


def read(client: httpx.Client, until: int, **headers: str) -> list[dict[str, Any]]:
    """The events of the stream up to a position."""
    seen: list[dict[str, Any]] = []
    with client.stream("GET", "/v1/events", headers=headers) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        identity = ""
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                identity = value
            elif name == "data":
                seen.append(json.loads(value))
                assert str(seen[-1]["position"]) == identity
                if seen[-1]["position"] >= until:
                    break
    return seen


def last_of(client: httpx.Client, body: dict[str, Any]) -> int:
    return int(client.get(body["links"]["events"]).json()["items"][-1]["position"])


@pytest.mark.requirement("SERVER-stream")
def test_a_listener_resumes_after_its_last_event(bed: Bed) -> None:
    client = bed.client()
    first, second = run(client, "sse-1").json(), run(client, "sse-2").json()
    middle, end = last_of(client, first), last_of(client, second)
    whole = read(client, end, **{"Last-Event-ID": "0"})
    assert {first["id"], second["id"]} <= {each["id"] for each in whole}
    positions = [each["position"] for each in whole]
    assert positions == sorted(set(positions))
    rest = read(client, end, **{"Last-Event-ID": str(middle)})
    assert rest == [each for each in whole if each["position"] > middle]


@pytest.mark.requirement("SERVER-stream")
def test_a_listener_hears_entries_that_come_while_it_listens(bed: Bed) -> None:
    client, other = bed.client(), bed.client()
    with client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": open"
        body = run(other, "live-1").json()
        heard = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
    assert heard["id"] == body["id"]


@pytest.mark.requirement("SERVER-stream")
@pytest.mark.parametrize("busy", [False, True])
def test_the_stream_of_a_revoked_token_ends(bed: Bed, monkeypatch: pytest.MonkeyPatch, busy: bool) -> None:
    monkeypatch.setattr(hub, "QUIET_S", 0.05)
    monkeypatch.setattr(app, "RECHECK_S", 0.0)
    token, entry = bed.tokens.create(tenant="acme", principal="p", rights=("read",), now_us=NOW_US)
    other = bed.client()
    with (
        httpx.Client(base_url=bed.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client,
        client.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ": open"
        assert ": quiet" in (next(lines), next(lines))
        bed.tokens.revoke(entry.id)
        if busy:
            run(other, "revoked-1")
        assert not [line for line in lines if line.startswith("data: ")]  # the server ends the stream
        assert client.get("/v1/events").status_code == 401


@pytest.mark.requirement("SERVER-stream")
def test_listeners_that_join_at_once_hear_each_entry_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "POLL_S", 0.0)

    async def heard() -> list[list[bytes]]:
        settings = Settings(url=f"sqlite:///{place / 'joined.db'}", tenant="acme")
        asked = ServerSettings(tokens_file=str(place / "joined.json"))
        _, server = create_app(settings, asked, registry_of(["tests.server.contracts"]))
        try:
            streams = [server.ledgers.hub.listen("acme", "", 0) for _ in range(4)]
            await asyncio.gather(*(anext(each) for each in streams))
            agent = server.ledgers.client(Caller("acme", "agent:a", frozenset()))
            for n in range(3):
                await agent.run(ship(f"joined-{n}", "dhl"), operation=f"joined-{n}")
            last = b"id: %d\n" % agent.session.store.last_seq()
            return [await until(last, each) for each in streams]
        finally:
            server.ledgers.hub.stop()
            server.close()

    async def until(last: bytes, stream: AsyncIterator[bytes]) -> list[bytes]:
        found: list[bytes] = []
        async for part in stream:
            found += [chunk for chunk in part.split(b"\n\n") if chunk]
            if found[-1].startswith(last):
                break
        return found

    for each in asyncio.run(heard()):
        assert len(each) == len(set(each))


@pytest.mark.requirement("SERVER-stream")
def test_a_tenant_leaves_room_for_the_listeners_of_others(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "TENANT_LISTENERS_MAX", 1)
    with bed.client(tenant="t-1").stream("GET", "/v1/events") as first:
        lines = first.iter_lines()  # the stream ends with its lines
        assert next(lines) == ": open"
        refused = bed.client(tenant="t-1").get("/v1/events")
        assert (refused.status_code, refused.json()["code"]) == (503, "http.busy")
        with bed.client(tenant="t-2").stream("GET", "/v1/events") as other:
            assert next(other.iter_lines()) == ": open"


@pytest.mark.requirement("SERVER-stream")
def test_a_listener_that_does_not_read_is_let_go_and_costs_bounded_memory() -> None:
    listener = hub._Listener("acme", "")
    for n in range(hub.QUEUE_MAX * 3):
        listener.offer(hub.Entry(n, "acme", "a", b"x"))
    assert listener.over
    assert listener.queue.qsize() <= hub.QUEUE_MAX + 1


def test_a_malformed_position_is_refused(bed: Bed) -> None:
    answer = bed.client().get("/v1/events", headers={"Last-Event-ID": "1; drop"})
    assert (answer.status_code, answer.json()["code"]) == (400, "http.body")


def now_s() -> int:
    return bootstrap.runtime().now_us() // 1_000_000


def signed(body: bytes, *, secret: bytes = SECRET, at: int | None = None, identity: str = "msg_1") -> dict[str, str]:
    sent = str(now_s() if at is None else at)
    mac = hmac.new(secret, b".".join((identity.encode(), sent.encode(), body)), sha256).digest()
    return {
        "webhook-id": identity,
        "webhook-timestamp": sent,
        "webhook-signature": f"v1,{base64.b64encode(b'old').decode()} v1,{base64.b64encode(mac).decode()}",
        "Content-Type": "application/json",
    }


@pytest.mark.requirement("SERVER-webhooks")
def test_a_signed_webhook_wakes_the_reading_and_its_content_is_no_reading(bed: Bed) -> None:
    client = bed.client()
    body = run(client, "hook-1", "dark", wait=0).json()
    text = json.dumps({"data": {"stamp": body["stamp"], "carrier": "dark", "status": "shipped"}}).encode()
    answer = httpx.post(f"{bed.url}/v1/webhooks/carrier", content=text, headers=signed(text), trust_env=False)
    assert answer.status_code == 202, answer.text
    assert client.get(f"/v1/actions/{body['id']}").json()["verified"] is False
    unknown = json.dumps({"data": {"stamp": "rb-none"}}).encode()
    quiet = httpx.post(f"{bed.url}/v1/webhooks/carrier", content=unknown, headers=signed(unknown), trust_env=False)
    assert (quiet.status_code, quiet.json()) == (202, {"woken": False})


@pytest.mark.requirement("SERVER-webhooks")
def test_a_webhook_with_a_wrong_signature_time_or_sender_is_refused_alike(bed: Bed) -> None:
    text = b'{"data": {"stamp": "rb-x"}}'
    old = now_s() - 3_600
    for sender, headers in (
        ("carrier", signed(text, secret=b"another" * 5)),
        ("carrier", signed(text, at=old)),
        ("carrier", {"Content-Type": "application/json"}),
        ("carrier", signed(b"{}")),
        ("nowhere", signed(text)),
        ("bank", {"x-bank": "wrong"}),
        ("bank", {}),
    ):
        answer = httpx.post(f"{bed.url}/v1/webhooks/{sender}", content=text, headers=headers, trust_env=False)
        assert (answer.status_code, answer.json()["code"]) == (401, "http.webhook")
    shared = httpx.post(
        f"{bed.url}/v1/webhooks/bank",
        content=b'{"stamp": "rb-x"}',
        headers={"x-bank": SECRET.decode()},
        trust_env=False,
    )
    assert shared.status_code == 202


def test_metrics_and_health_are_served(bed: Bed) -> None:
    client = bed.client()
    run(client, "metric-1")
    text = client.get("/metrics").text
    assert "# TYPE readback_" in text
    assert httpx.get(bed.url + "/healthz", trust_env=False).json() == {"status": "ok"}


def test_subscribers_and_dead_letters_are_listed_and_resent(bed: Bed) -> None:
    client = bed.client()
    assert isinstance(client.get("/v1/subscribers").json()["items"], list)
    preview = client.post("/v1/dead-letters/resend", json={"all": True, "preview": True})
    assert preview.json() == {"chosen": 0, "accepted": 0, "left": 0}
    assert client.post("/v1/dead-letters/resend", json={}).status_code == 422


@pytest.mark.requirement("SERVER-described")
def test_the_description_is_checked_in_and_served(bed: Bed) -> None:
    from scripts import openapi

    assert openapi.run([]) == 0, "run: python scripts/openapi.py --write"
    served = httpx.get(bed.url + "/openapi.json", trust_env=False).content
    assert served == openapi.PLACE.read_bytes()


def test_the_shop_was_never_told_by_a_webhook() -> None:
    db = shop()
    assert db.execute("SELECT count(*) FROM orders WHERE carrier = 'shipped'").fetchone() == (0,)
    db.close()
