"""A server may die, stop or have a twin: no action is lost, none runs twice, and the unknown is never a 5xx."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from readback.errors import StoreFullError
from readback.ports.storage.store import Append, AppendResult
from readback.server import serving
from readback.server.access.tokens import TokenFile
from readback.stores.sqlite.store import SqliteStore
from tests.server import contracts
from tests.server.bed import EVERY_RIGHT, NOW_US, Bed, run, running
from tests.server.contracts import calls, shop

IN_FLIGHT = 1_000
STEPS = ("before a reading:1", "before the call:1", "after the effect:1", "before a reading:2")


@contextmanager
def process(folder: Path, **environment: str) -> Iterator[str]:
    """`readback serve` as a process of its own; its address."""
    command = [
        sys.executable, "-m", "readback", "serve", "--port", "0", "--json", "--contracts", "tests.server.contracts",
        "--url", f"sqlite:///{folder / 'ledger.db'}", "--tokens", str(folder / "tokens.json"),
    ]  # fmt: skip
    paths = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **paths, **environment}) as server:
        assert server.stdout is not None
        text = ""
        try:
            for line in server.stdout:
                text += line.decode()
                if text.rstrip().endswith("}"):
                    break
            yield str(json.loads(text)["url"])
        finally:
            with suppress(ProcessLookupError):
                server.terminate()


@pytest.mark.requirement("SERVER-kill")
@pytest.mark.slow
@pytest.mark.parametrize(
    "step", ["before a reading:1", "before the call:1", "after the effect:1", "before a reading:2"]
)
def test_a_server_killed_at_a_durable_step_neither_loses_nor_doubles_an_action(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))
    monkeypatch.setenv("SHOP_SANDBOX", str(tmp_path / "sandbox.db"))
    token, _ = TokenFile(tmp_path / "tokens.json").create(
        tenant="acme", principal="agent:a", rights=EVERY_RIGHT, now_us=NOW_US
    )
    headers = {"Authorization": f"Bearer {token}"}
    with (
        process(tmp_path, SHOP_DIE=step) as url,
        httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as client,
        pytest.raises(httpx.TransportError),
    ):
        run(client, "kill-1")
    assert (tmp_path / "shop.db.died").read_text() in step
    with (
        process(tmp_path) as url,
        httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client,
    ):
        answer = run(client, "kill-1", wait=20)
        body = answer.json()
        assert answer.status_code in (200, 202), body
        db = shop()
        there = db.execute("SELECT count(*) FROM orders WHERE id = 'kill-1'").fetchone()[0]
        db.close()
        assert calls().count("kill-1") <= 1
        assert body["verified"] == bool(there), body["state"]
        if step.startswith("after the effect") or step == "before a reading:2":
            assert body["verified"] is True
        listed = client.get("/v1/actions", params={"operation": "kill-1", "contract": "ship"}).json()["items"]
        assert [each["id"] for each in listed] == [body["id"]]


@pytest.mark.requirement("SERVER-twins")
def test_two_servers_on_one_database_run_an_operation_once(place: Path, ledger_url: str) -> None:
    (place / "one").mkdir()
    (place / "two").mkdir()
    with running(place / "one", url=ledger_url) as first, running(place / "two", url=ledger_url) as second:
        clients = [first.client(), second.client()]
        keys = [f"pair-{n}" for n in range(12)]
        with ThreadPoolExecutor(8) as pool:
            asked = [(key, client) for key in keys for client in clients]
            answers = list(pool.map(lambda each: run(each[1], each[0], wait=20), asked))
        assert {each.status_code for each in answers} <= {200, 202}
        ids = {key: {each.json()["id"] for each in answers if each.json()["operation"] == key} for key in keys}
        assert {len(each) for each in ids.values()} == {1}
        counted = Counter(calls())
        assert {key: counted[key] for key in keys} == dict.fromkeys(keys, 1)
        for key in keys:
            (action,) = ids[key]
            looks = [each.get(f"/v1/actions/{action}", headers={"Prefer": "wait=20"}) for each in clients]
            assert [each.json()["verified"] for each in looks] == [True, True]


@pytest.mark.requirement("SERVER-many")
@pytest.mark.slow
def test_a_thousand_requests_in_flight_lose_none(place: Path) -> None:
    folder = place / "many"
    folder.mkdir()

    async def ask(bed: Bed, token: str) -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=IN_FLIGHT)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            base_url=bed.url, headers=headers, limits=limits, timeout=120, trust_env=False
        ) as client:
            asked = [
                client.post(
                    "/v1/actions",
                    json={"contract": "ship", "arguments": {"order_id": f"many-{n}", "carrier": "dhl"}},
                    headers={"Idempotency-Key": f"many-{n}", "Prefer": "wait=60"},
                )
                for n in range(IN_FLIGHT)
            ]
            return list(await asyncio.gather(*asked))

    with running(folder) as bed:
        answers = asyncio.run(ask(bed, bed.token()))
        assert Counter(each.status_code for each in answers) == {200: IN_FLIGHT}
        assert all(each.json()["verified"] for each in answers)
        assert len({each.json()["id"] for each in answers}) == IN_FLIGHT
        counted = Counter(each for each in calls() if each.startswith("many-"))
        assert set(counted.values()) == {1}
        assert len(counted) == IN_FLIGHT


@pytest.mark.requirement("SERVER-stop")
def test_a_server_that_stops_answers_a_call_in_flight_with_what_is_known(place: Path) -> None:
    folder = place / "stops"
    folder.mkdir()
    contracts.gate.clear()
    while contracts.entered.acquire(blocking=False):
        pass
    found: list[httpx.Response] = []
    with running(folder) as bed:
        client = bed.client()
        asking = threading.Thread(target=lambda: found.append(run(client, "stop-1", "slow", wait=50)))
        asking.start()
        assert contracts.entered.acquire(timeout=20)
        bed.loop.call_soon_threadsafe(bed.stop.set)
        asking.join(20)
    contracts.gate.set()
    assert found[0].status_code == 202, found[0].text
    body = found[0].json()
    assert body["final"] is False
    with running(folder) as bed:
        settled = bed.client().get(f"/v1/actions/{body['id']}", headers={"Prefer": "wait=20"})
        assert settled.status_code in (200, 202)
        assert settled.json()["attempts"] == 1
    assert calls().count("stop-1") == 1


@pytest.mark.requirement("SERVER-stop")
def test_a_server_that_stops_answers_a_half_sent_request_with_503(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "GRACE_S", 1)
    folder = place / "half"
    folder.mkdir()
    with running(folder) as bed:
        where = urlsplit(bed.url)
        with socket.create_connection((str(where.hostname), where.port or 0), timeout=20) as connection:
            connection.sendall(
                f"POST /v1/actions HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {bed.token()}\r\n"
                "Idempotency-Key: half\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode()
            )
            assert connection.recv(65_536).startswith(b"HTTP/1.1 100")  # the server waits for the body
            connection.sendall(b"{")
            bed.loop.call_soon_threadsafe(bed.stop.set)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 503")


@pytest.mark.requirement("SERVER-key-once")
def test_the_same_key_in_progress_is_409_and_does_nothing(bed: Bed) -> None:
    contracts.gate.clear()
    while contracts.entered.acquire(blocking=False):
        pass
    client, found = bed.client(), list[httpx.Response]()
    asking = threading.Thread(target=lambda: found.append(run(client, "twice-1", "slow", wait=50)))
    asking.start()
    assert contracts.entered.acquire(timeout=20)
    second = run(bed.client(), "twice-1", "slow", wait=1)
    contracts.gate.set()
    asking.join(30)
    assert (second.status_code, second.json()["code"]) == (409, "http.in-progress")
    assert found[0].json()["verified"] is True
    assert calls().count("twice-1") == 1


@pytest.mark.requirement("SERVER-unknown-202")
def test_an_attempt_whose_end_cannot_be_recorded_is_202_and_no_5xx(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place / "full"
    folder.mkdir()
    append = SqliteStore.append

    def without_room(self: SqliteStore, batch: Sequence[Append]) -> list[AppendResult]:
        if contracts.full.is_set():
            raise StoreFullError("The disk is full.")
        return append(self, batch)

    monkeypatch.setattr(SqliteStore, "append", without_room)
    try:
        with running(folder, worker=False) as bed:
            client = bed.client()
            answer = run(client, "full-1", "full", wait=5)
            assert answer.status_code == 202, answer.text
            body = answer.json()
            assert (body["state"], body["verified"], body["repeat_allowed"]) == ("unknown", False, False)
            refused = run(client, "full-2")
            assert (refused.status_code, refused.json()["code"]) == (503, "store.full")
            assert "full-2" not in calls()
            contracts.full.clear()
            settled = client.get(f"/v1/actions/{body['id']}", headers={"Prefer": "wait=20"}).json()
            assert settled["verified"] is True
    finally:
        contracts.full.clear()
    assert calls().count("full-1") == 1
