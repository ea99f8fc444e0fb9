"""What a request must pass before it is read: the host, the origin, the token, the rate, limits of size and time."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from readback.errors import NotFoundError, SettingsError, UsageError
from readback.server import app, serving
from readback.server.access.hosts import HostNames
from readback.server.access.tokens import TokenFile
from readback.server.access.webhooks import Sender
from readback.server.app import RateLimits
from readback.server.errors import UnauthenticatedError
from readback.server.settings import ServerSettings, server_document
from readback.testing.runtime_virtual import VirtualRuntime
from tests.server.bed import NOW_US, Bed, run, running

# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SERVER-hosts")
@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost@evil", 421), ("", 421)],
)
def test_a_request_for_another_host_is_refused(bed: Bed, host: str, status: int) -> None:
    answer = bed.client().get("/v1/actions", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (status, "http.foreign-request")


@pytest.mark.requirement("SERVER-hosts")
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_request_of_another_origin_is_refused(bed: Bed, origin: str) -> None:
    answer = bed.client().post("/v1/actions", json={}, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "http.foreign-request")


def test_a_request_of_the_own_origin_passes(bed: Bed) -> None:
    assert bed.client().get("/v1/actions", headers={"Origin": bed.url}).status_code == 200


def test_two_host_headers_are_refused(bed: Bed) -> None:
    where = urlsplit(bed.url)
    answer = raw(bed, f"GET /healthz HTTP/1.1\r\nHost: {where.netloc}\r\nHost: evil\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.requirement("SERVER-hosts")
def test_a_server_beyond_loopback_needs_names_and_tokens() -> None:
    with pytest.raises(SettingsError, match="names"):
        HostNames("0.0.0.0")
    for host in ("0.0.0.0", "10.0.0.7", "::"):
        with pytest.raises(SettingsError, match="tokens"):
            ServerSettings(host=host, open_access=True).check()
    assert ServerSettings(host="127.0.0.1", open_access=True).check()


# --- tokens -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SERVER-tokens")
def test_a_token_is_stored_as_a_digest_and_ends_when_revoked(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    token, entry = file.create(tenant="t", principal="p", rights=("read",), now_us=NOW_US, lifetime_s=10)
    text = file.path.read_text()
    assert token not in text
    assert token[4:] not in text
    assert file.path.stat().st_mode & 0o077 == 0
    assert file.authenticate(token, NOW_US).tenant == "t"
    with pytest.raises(UnauthenticatedError):
        file.authenticate(token, NOW_US + 10_000_000)
    with pytest.raises(UnauthenticatedError):
        file.authenticate(token[:-1], NOW_US)
    other = TokenFile(file.path)
    other.revoke(entry.id)
    with pytest.raises(UnauthenticatedError):
        file.authenticate(token, NOW_US)
    with pytest.raises(NotFoundError):
        other.revoke(entry.id)


@pytest.mark.requirement("SERVER-tokens")
def test_a_file_of_tokens_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    token, _ = file.create(tenant="t", principal="p", rights=("read",), now_us=NOW_US)
    os.chmod(file.path, 0o644)
    with pytest.raises(SettingsError, match="Other users"):
        TokenFile(file.path).authenticate(token, NOW_US)
    with pytest.raises(UsageError):
        file.create(tenant="t", principal="p", rights=("everything",), now_us=NOW_US)


@pytest.mark.requirement("SERVER-tokens")
def test_a_revoked_token_ends_at_the_next_request(bed: Bed) -> None:
    token, entry = bed.tokens.create(tenant="acme", principal="p", rights=("read",), now_us=NOW_US)
    with httpx.Client(base_url=bed.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client:
        assert client.get("/v1/actions").status_code == 200
        bed.tokens.revoke(entry.id)
        assert client.get("/v1/actions").status_code == 401


@pytest.mark.requirement("SERVER-bounds")
def test_a_token_beyond_its_rate_waits(place: Path, bed: Bed) -> None:
    token, _ = bed.tokens.create(tenant="acme", principal="p", rights=("read",), now_us=NOW_US, rate_per_minute=3)
    with httpx.Client(base_url=bed.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client:
        answers = [client.get("/v1/contracts") for _ in range(5)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert answers[-1].json()["code"] == "http.rate-limit"


def test_a_bucket_fills_again_at_its_rate() -> None:
    runtime = VirtualRuntime()
    limits = RateLimits(runtime, 60)
    assert [limits.wait_s("t", 2) for _ in range(3)] == [0, 0, 30]
    runtime.advance(30)
    assert [limits.wait_s("t", 2) for _ in range(2)] == [0, 30]
    assert limits.wait_s("another", 2) == 0


def test_settings_of_senders_and_providers_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "server.toml"
    for text, named in (
        ('[oidc.x]\nissuer = "http://far.example"\naudience = "a"\n', "https"),
        ('[oidc.x]\nissuer = "https://a.example"\naudience = "a"\nalgorithms = ["HS256"]\n', "public-key"),
        ('[webhooks.x]\ntenant = "t"\nsecret = "env:X"\nscheme = "none"\n', "scheme"),
        ('[webhooks.x]\ntenant = "t"\nsecrte = "env:X"\n', "secrte"),
        ('[webhooks.x]\ntenant = ""\nsecret = "env:X"\n', "tenant"),
        ('[webhooks.x]\ntenant = "a\\u0000b"\nsecret = "env:X"\n', "tenant"),
        ('[webhooks.x]\ntenant = "t"\nsecret = "env:X"\nscheme = "shared"\nheader = "schlüssel"\n', "header"),
        ('[webhooks.x]\ntenant = "t"\nsecret = "env:X"\nscheme = "shared"\nheader = ""\n', "header"),
        ('[webhooks.x]\ntenant = "t"\nsecret = "env:X"\nfield = "data..id"\n', "field"),
        ('[webhooks."a/b"]\ntenant = "t"\nsecret = "env:X"\n', "slash"),
    ):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(SettingsError, match=named):
            server_document(str(path))


@pytest.mark.parametrize(
    "sender",
    [
        Sender("t", "env:X", scheme="Standard"),
        Sender(" ", "env:X"),
        Sender("t", "env:X", scheme="shared", header="x\ny"),
    ],
)
def test_a_sender_that_no_request_could_fit_stops_the_start(tmp_path: Path, sender: Sender) -> None:
    with (
        pytest.raises(SettingsError, match=r"webhooks\.bank"),
        running(tmp_path, url="memory:", webhooks=(("bank", sender),)),
    ):
        pass


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("state=%ff", "percent-encoded UTF-8"),
        ("limit=x", "'limit' must be a whole number"),
        ("limit=0", "'limit' must be at least 1"),
        ("open=maybe", "'open' must be true or false"),
        ("kind=other", "'kind' must be one of its values"),
        ("nothing=1", "no field 'nothing'"),
        ("&".join(f"a{n}=1" for n in range(65)), "64 fields"),
    ],
)
def test_a_bad_query_is_named_plainly(bed: Bed, query: str, said: str) -> None:
    answer = bed.client().get(f"/v1/actions?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "http.body")
    assert said in answer.json()["detail"]
    assert not any(part in answer.text for part in ("codec", "$.", "`"))
    missing = bed.client().get("/v1/reviews/x/statement?decision=abandon")
    assert "lacks its field 'reason'" in missing.json()["detail"]


@pytest.mark.parametrize("run", ["%00", "%0a", "x" * 300, "%E2%80%AE"])
def test_a_name_that_no_run_can_have_is_422(bed: Bed, run: str) -> None:
    for answer in (
        bed.client().get(f"/v1/runs/{run}/belief"),
        bed.client().post(f"/v1/runs/{run}/report", json={"text": "Done."}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "input.usage")


@pytest.mark.parametrize("key", ['""', '" "', '"\\ "'])
def test_a_blank_key_is_named_in_the_words_of_the_api(bed: Bed, key: str) -> None:
    answer = run(bed.client(), "blank", headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "http.idempotency-key")
    assert "--operation" not in answer.text
    long = run(bed.client(), "long", headers={"Idempotency-Key": "k" * 300})
    assert (long.status_code, "Idempotency-Key exceeds" in long.json()["detail"]) == (422, True)


@pytest.mark.parametrize("key", ["größe", "ключ", "k\u202e"])
def test_a_key_beyond_ascii_is_refused_before_it_is_stored_in_another_spelling(bed: Bed, key: str) -> None:
    client = bed.client()
    asked = {"contract": "ship", "arguments": {"order_id": "beyond", "carrier": "dhl"}}
    headers = {b"Idempotency-Key": key.encode()}
    answer = client.post("/v1/actions", json=asked, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "http.idempotency-key")
    assert "percent-encoded" in answer.json()["remedy"]
    assert "beyond" not in client.get("/v1/actions").text


# --- size and time ------------------------------------------------------------------------------------------------


def raw(bed: Bed, text: str) -> bytes:
    where = urlsplit(bed.url)
    with closing(socket.create_connection((str(where.hostname), where.port or 0), timeout=10)) as connection:
        connection.sendall(text.encode())
        found = b""
        with suppress(ConnectionResetError):  # the server need not read the rest
            while chunk := connection.recv(65_536):
                found += chunk
        return found


@pytest.mark.requirement("SERVER-bounds")
def test_an_oversized_body_is_413_and_is_not_read_whole(bed: Bed) -> None:
    client = bed.client()
    big = json.dumps({"contract": "ship", "arguments": {"order_id": "x" * 2_000_000, "carrier": "c"}})
    headers = {"Content-Type": "application/json", "Idempotency-Key": "big"}
    answer = client.post("/v1/actions", content=big, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "http.body-too-large")

    def endless() -> object:
        yield b'{"contract": "'
        for _ in range(64):
            yield b"x" * 65_536

    chunked = client.post("/v1/actions", content=endless(), headers=headers)  # type: ignore[arg-type]
    assert chunked.status_code == 413


@pytest.mark.requirement("SERVER-bounds")
def test_a_length_of_thousands_of_digits_is_413(bed: Bed) -> None:
    where = urlsplit(bed.url)
    head = f"POST /v1/actions HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {bed.token()}\r\n"
    answer = raw(bed, f"{head}Connection: close\r\nContent-Length: {'0' * 5_000}2\r\n\r\n{{}}")
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))


@pytest.mark.requirement("SERVER-bounds")
def test_a_body_that_never_begins_ends(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_S", 0.3)
    with running(place / "..", url="memory:") as bed:
        where = urlsplit(bed.url)
        head = f"POST /v1/actions HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {bed.token()}\r\n"
        slow = raw(bed, f"{head}Idempotency-Key: k\r\nContent-Length: 10\r\nConnection: close\r\n\r\n")
        assert slow.startswith(b"HTTP/1.1 400")
        assert b"did not arrive within" in slow


def test_an_answer_without_a_body_and_the_invitation_of_one_are_sent_at_once(bed: Bed) -> None:
    where = urlsplit(bed.url)
    named = f"HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {bed.token()}\r\n"
    more = "Idempotency-Key: k\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with closing(socket.create_connection((str(where.hostname), where.port or 0), timeout=10)) as connection:
        connection.sendall(f"HEAD /v1/contracts {named}\r\n".encode())
        head = connection.recv(65_536)
        assert head.startswith(b"HTTP/1.1 200")
        assert head.endswith(b"\r\n\r\n")
        connection.sendall(f"POST /v1/actions {named}{more}".encode())
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        whole = connection.recv(65_536)  # one part: a client wakes once for an answer
        answer, _, body = whole.partition(b"\r\n\r\n")
        assert f"content-length: {len(body)}".encode() in answer


@pytest.mark.requirement("SERVER-bounds")
@pytest.mark.parametrize(
    "body",
    [
        '{"contract": "ship", "test": true, "test": false, "arguments": {"order_id": "o-1", "carrier": "c"}}',
        '{"contract": "ship", "arguments": {"order_id": "o-1", "order_id": "o-2", "carrier": "c"}}',
    ],
)
def test_a_name_given_twice_is_refused_and_nothing_runs(bed: Bed, body: str) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": "twice"}
    answer = bed.client().post("/v1/actions", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "http.body")
    assert "twice" in answer.json()["detail"]


def test_another_media_type_and_another_scheme_are_refused(bed: Bed) -> None:
    client = bed.client()
    answer = client.post("/v1/actions", content="{}", headers={"Content-Type": "text/plain", "Idempotency-Key": "m"})
    assert (answer.status_code, answer.json()["code"]) == (415, "http.media-type")
    basic = client.get("/v1/actions", headers={"Authorization": "Basic YTpi"})
    assert basic.status_code == 401
    wrong = client.put("/v1/actions", json={})
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "GET, POST")


@pytest.mark.requirement("SERVER-bounds")
def test_slow_and_endless_heads_end(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_S", 0.3)
    with running(place / "..", url="memory:") as bed:
        where = urlsplit(bed.url)
        slow = raw(bed, f"GET /healthz HTTP/1.1\r\nHost: {where.netloc}\r\nX-Half: ")
        assert slow.startswith(b"HTTP/1.1 408")
        endless = raw(bed, f"GET /healthz HTTP/1.1\r\nHost: {where.netloc}\r\nX-Long: " + "x" * 200_000)
        assert endless.startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))
        assert httpx.get(bed.url + "/healthz", trust_env=False).status_code == 200


@pytest.mark.requirement("SERVER-bounds")
def test_a_client_that_does_not_read_is_let_go(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, ended = serving._Timed.connection_lost, threading.Event()

    def connection_lost(self: serving._Timed, exc: Exception | None) -> None:
        lost(self, exc)
        ended.set()

    monkeypatch.setattr(serving._Timed, "connection_lost", connection_lost)
    monkeypatch.setattr(serving, "UNREAD_S", 0.3)
    with running(place / "..", url="memory:") as bed:
        where = urlsplit(bed.url)
        with socket.create_connection((where.hostname or "", where.port or 0)) as connection:
            connection.sendall(f"GET /openapi.json HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode() * 200)
            assert ended.wait(10)


@pytest.mark.requirement("SERVER-bounds")
@pytest.mark.parametrize("path", ["/v1/events", "/live"])
def test_a_head_request_for_a_stream_ends(bed: Bed, path: str) -> None:
    client = bed.client()
    with httpx.Client(base_url=bed.url, trust_env=False, timeout=10) as browser:
        token = client.headers["Authorization"].split()[1]
        browser.post("/sign-in", data={"token": token}, headers={"Origin": bed.url})
        answer = (client if path.startswith("/v1/") else browser).head(path)
    assert (answer.status_code, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/event-stream")
    assert answer.content == b""


@pytest.mark.requirement("SERVER-bounds")
def test_a_header_that_decides_is_given_once(bed: Bed) -> None:
    token = bed.token()
    client = httpx.Client(base_url=bed.url, trust_env=False)
    doubled = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    answer = client.get("/v1/actions", headers=doubled)
    client.close()
    assert (answer.status_code, answer.json()["code"]) == (400, "http.body")


@pytest.mark.requirement("SERVER-bounds")
def test_a_trailer_is_no_header(bed: Bed) -> None:
    where = urlsplit(bed.url)
    answer = raw(
        bed,
        f"POST /v1/actions HTTP/1.1\r\nHost: {where.netloc}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        f"2\r\n{{}}\r\n0\r\nAuthorization: Bearer {bed.token()}\r\nIdempotency-Key: trailer\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.requirement("SERVER-bounds")
def test_endless_trailers_end(bed: Bed) -> None:
    where = urlsplit(bed.url)
    head = f"POST /v1/actions HTTP/1.1\r\nHost: {where.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 401")
        with pytest.raises(ConnectionError):
            connection.sendall(b"X-Trailer: y\r\n" * 2_000_000)


def test_a_route_with_required_fields_of_the_query_names_them(bed: Bed) -> None:
    client = bed.client()
    answer = client.get(f"/v1/reviews/{run(client, 'query-1').json()['id']}/statement")
    assert (answer.status_code, answer.json()["code"]) == (400, "http.body")
    assert "decision" in answer.json()["detail"]


def test_smuggled_requests_are_refused(bed: Bed) -> None:
    where = urlsplit(bed.url)
    both = raw(
        bed,
        f"POST /v1/actions HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    assert both.count(b"HTTP/1.1 ") == 1
    assert not both.startswith(b"HTTP/1.1 200")


def test_the_log_names_the_request_and_no_secret(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    client = bed.client()
    answer = run(client, "secret-1", "raise")
    assert answer.headers["x-request-id"]
    token = client.headers["Authorization"].split()[1]
    said = caplog.text + answer.text
    assert token not in said
    assert token[4:] not in caplog.text
