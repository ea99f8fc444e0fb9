"""Behind a proxy no request is smuggled past the proxy's rules, and Host and Origin are those of the client."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.proxy.conftest import NAME, Proxied
from tests.server.bed import run

SMUGGLED = "smuggled"


def carrier(token: str, *headers: str) -> bytes:
    """The head of a permitted POST with these headers about the body."""
    lines = [
        "POST /v1/contracts/ship/check HTTP/1.1", f"Host: {NAME}", f"Authorization: Bearer {token}",
        "Content-Type: application/json", *headers,
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def forbidden(token: str) -> bytes:
    """The request that the proxy forbids: it runs an action."""
    body = json.dumps({"contract": "ship", "arguments": {"order_id": SMUGGLED, "carrier": "dhl"}})
    return (
        f"POST /v1/actions HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {token}\r\nPrefer: wait=5\r\n"
        f"Content-Type: application/json\r\nIdempotency-Key: {SMUGGLED}\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


CHUNKED = "Transfer-Encoding: chunked"
LENGTHS = {
    "two lengths": ("Content-Length: 0", "Content-Length: {whole}"),
    "two lengths, the long one first": ("Content-Length: {whole}", "Content-Length: 0"),
    "a list of lengths": ("Content-Length: 0, {whole}",),
    "a length with a sign": ("Content-Length: +0",),
    "a hexadecimal length": ("Content-Length: 0x0",),
    "a length with a space before the colon": ("Content-Length : {whole}", "Content-Length: 0"),
    "a folded length": ("X-Fold: a", " Content-Length: {whole}", "Content-Length: 0"),
    "a length behind a null": ("X-Null: a\0b", "Content-Length: 0"),
    "a length behind a carriage return": ("X-Return: a\rContent-Length: {whole}", "Content-Length: 0"),
    "a length behind a line feed": ("X-Feed: a\nContent-Length: {whole}", "Content-Length: 0"),
}
"""The proxy may see an empty body, and the server a body with the forbidden request, or the other way round."""
CODINGS = {
    "CL.TE": ("Content-Length: {whole}", CHUNKED),
    "TE.CL": (CHUNKED, "Content-Length: 3"),
    "a coding in another case": ("Content-Length: {whole}", "transfer-encoding: cHuNkEd"),
    "a coding with a space before the colon": ("Content-Length: {whole}", "Transfer-Encoding : chunked"),
    "a coding after a tab": ("Content-Length: {whole}", "Transfer-Encoding:\tchunked"),
    "a coding with a vertical tab": ("Content-Length: {whole}", "Transfer-Encoding:\x0bchunked"),
    "an unknown coding": ("Content-Length: {whole}", "Transfer-Encoding: xchunked"),
    "a quoted coding": ("Content-Length: {whole}", 'Transfer-Encoding: "chunked"'),
    "a list of codings": ("Content-Length: {whole}", "Transfer-Encoding: identity, chunked"),
    "two codings": ("Content-Length: {whole}", CHUNKED, "Transfer-Encoding: identity"),
    "a folded coding": ("Content-Length: {whole}", "X-Fold: a", " Transfer-Encoding: chunked"),
    "a folded value": ("Content-Length: {whole}", "Transfer-Encoding:", " chunked"),
    "an underscore": ("Content-Length: {whole}", "Transfer_Encoding: chunked"),
}
"""The body ends with the last chunk or by its length. The forbidden request comes after the last chunk."""
CHUNKS = {
    "a size with a prefix": b"0x0\r\n\r\n",
    "a size with a sign": b"-0\r\n\r\n",
    "a size with a space": b" 0 \r\n\r\n",
    "an extension with a line feed": b"0;a\nb\r\n\r\n",
    "a size that overflows": b"10000000000000000\r\n\r\n",
    "a line feed alone": b"0\n\n",
    "a trailer with a length": b"0\r\nContent-Length: 999\r\n\r\n",
    "a trailer with a coding": b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a trailer with another key": b"0\r\nAuthorization: Bearer other\r\nIdempotency-Key: other\r\n\r\n",
}


def held(proxied: Proxied, raw: bytes) -> None:
    """Send an attack. The forbidden request never runs, and the next clients get their own answers."""
    proxied.send(raw)
    with httpx.Client(base_url=proxied.url, headers={"Host": NAME}, trust_env=False) as victim:
        for _ in range(3):
            answer = victim.get("/healthz")
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
            missing = victim.get("/v1/actions/own")
            assert (missing.status_code, missing.json()["code"]) == (401, "http.unauthenticated")
    found = proxied.bed.client().get("/v1/actions", params={"contract": "ship", "operation": SMUGGLED})
    assert found.json()["items"] == [], "the forbidden request ran"


@pytest.mark.requirement("SERVER-bounds")
@pytest.mark.parametrize("name", LENGTHS)
def test_no_length_smuggles_a_request(proxied: Proxied, name: str) -> None:
    token = proxied.bed.token()
    inner = forbidden(token)
    held(proxied, carrier(token, *(each.format(whole=len(inner)) for each in LENGTHS[name])) + inner)


@pytest.mark.requirement("SERVER-bounds")
@pytest.mark.parametrize("name", CODINGS)
def test_no_coding_smuggles_a_request(proxied: Proxied, name: str) -> None:
    token = proxied.bed.token()
    inner = forbidden(token)
    if name == "TE.CL":
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
    else:
        body = b"0\r\n\r\n" + inner
    held(proxied, carrier(token, *(each.format(whole=len(body)) for each in CODINGS[name])) + body)


@pytest.mark.requirement("SERVER-bounds")
@pytest.mark.parametrize("name", CHUNKS)
def test_no_chunk_smuggles_a_request(proxied: Proxied, name: str) -> None:
    token = proxied.bed.token()
    held(proxied, carrier(token, CHUNKED) + CHUNKS[name] + forbidden(token))


@pytest.mark.requirement("SERVER-bounds")
def test_a_body_of_a_get_is_no_request(proxied: Proxied) -> None:
    inner = forbidden(proxied.bed.token())
    head = f"GET /healthz HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nContent-Length: {len(inner)}\r\n\r\n"
    held(proxied, head.encode() + inner)


@pytest.mark.requirement("SERVER-bounds")
def test_the_forbidden_request_would_run_without_the_proxy(proxied: Proxied) -> None:
    client = proxied.bed.client()
    assert run(client, "direct").json()["verified"] is True
    token = proxied.bed.token()
    assert proxied.send(forbidden(token)).startswith(b"HTTP/1.1 403")


@pytest.mark.requirement("SERVER-hosts")
def test_host_and_origin_are_those_of_the_client(proxied: Proxied) -> None:
    token = proxied.bed.token()
    key = {"Authorization": f"Bearer {token}"}

    def asked(**headers: str) -> httpx.Response:
        return httpx.get(f"{proxied.url}/v1/actions", headers={**key, **headers}, trust_env=False)

    assert asked(Host=NAME).status_code == 200
    assert asked(Host=NAME, Origin=f"https://{NAME}").status_code == 200  # the proxy ends TLS
    for headers in (
        {"Host": "evil.example"},
        {"Host": "evil.example", "X-Forwarded-Host": NAME},
        {"Host": f"{NAME}.evil.example"},
    ):
        answer = asked(**headers)
        assert (answer.status_code, answer.json()["code"]) == (421, "http.foreign-request")
    for origin in ("https://evil.example", "null", f"https://{NAME}:444"):
        answer = asked(Host=NAME, Origin=origin)
        assert (answer.status_code, answer.json()["code"]) == (403, "http.foreign-request")
    assert asked(Host=NAME, **{"X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}).status_code == 200
    absolute = f"GET http://{NAME}/v1/actions HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert proxied.send(absolute.encode()).startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))


@pytest.mark.requirement("SERVER-hosts")
def test_a_person_signs_in_behind_the_proxy_and_a_foreign_form_does_nothing(proxied: Proxied) -> None:
    token = proxied.bed.token()
    origin = {"Host": NAME, "Origin": f"https://{NAME}"}
    answer = httpx.post(f"{proxied.url}/sign-in", data={"token": token}, headers=origin, trust_env=False)
    assert answer.status_code == 303
    assert "; Secure" in answer.headers["set-cookie"]
    foreign = {"Host": NAME, "Origin": "https://evil.example"}
    refused = httpx.post(f"{proxied.url}/sign-in", data={"token": token}, headers=foreign, trust_env=False)
    assert refused.status_code == 403


@pytest.mark.requirement("SERVER-stream")
def test_an_event_passes_the_proxy_at_once(proxied: Proxied) -> None:
    key = {"Authorization": f"Bearer {proxied.bed.token()}", "Host": NAME}
    with (
        httpx.Client(base_url=proxied.url, headers=key, trust_env=False) as client,
        client.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ": open"
        body = run(proxied.bed.client(), "through").json()
        heard = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
    assert heard["id"] == body["id"]
