"""Tokens of a real identity provider over HTTP give tenant, principal and rights, and no other token does."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from jwt import api_jwt

from readback.server import app
from readback.server.access import oidc
from readback.server.access.oidc import Issuer
from readback.server.console import live
from tests.console.bed import Browser
from tests.server.bed import Bed, run, running

PLACE = re.compile(r"https?://[\w.]+:(\d+)")
CLIENT = "readback-tests"
FEED_LINES = 20
"""Lines of a feed that goes on, so that its test fails instead of waiting."""


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with provider_at("0") as url:
        yield url


@contextmanager
def provider_at(port: str) -> Iterator[str]:
    """The address of a provider with a new key, a process of its own."""
    command = [sys.executable, "-W", "ignore", "-u", "-m", "oidc_provider_mock", "--port", port]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            port = next(found[1] for line in process.stdout if (found := PLACE.search(line)))
            yield f"http://localhost:{port}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def bed(place: Path, provider: str) -> Iterator[Bed]:
    issuers = (("company", Issuer(issuer=provider, audience=CLIENT)),)
    with running(place, issuers=issuers) as found:
        yield found


def token(provider: str, subject: str, **claims: object) -> str:
    """An id token by the authorization code flow."""
    with httpx.Client(base_url=provider, trust_env=False) as client:
        client.put(f"/users/{subject}", json=claims).raise_for_status()
        query = {
            "client_id": CLIENT,
            "redirect_uri": "http://localhost/back",
            "response_type": "code",
            "scope": "openid profile email",
            "state": "s",
        }
        back = client.post("/oauth2/authorize", params=query, data={"sub": subject}).headers["location"]
        code = parse_qs(urlsplit(back).query)["code"][0]
        asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": "http://localhost/back"}
        answer = client.post("/oauth2/token", data=asked, auth=(CLIENT, "secret"))
        return str(answer.raise_for_status().json()["id_token"])


def client_of(bed: Bed, credential: str) -> httpx.Client:
    made = httpx.Client(base_url=bed.url, headers={"Authorization": f"Bearer {credential}"}, trust_env=False)
    bed.clients.append(made)
    return made


@pytest.mark.requirement("SERVER-oidc")
def test_a_token_of_the_provider_acts_in_its_own_name(bed: Bed, provider: str) -> None:
    good = token(provider, "agent-7", tenant="acme", readback_rights=["run", "read"])
    client = client_of(bed, good)
    body = run(client, "oidc-1").json()
    assert (body["tenant"], body["principal"], body["verified"]) == ("acme", "agent-7", True)
    refused = client.post("/v1/freezes/lift", json={"subject": "x", "reason": "r"})
    assert (refused.status_code, refused.json()["code"]) == (403, "http.missing-right")
    other = client_of(bed, token(provider, "agent-8", tenant="other", readback_rights="read"))
    assert other.get(f"/v1/actions/{body['id']}").status_code == 404


def signed_in(bed: Bed, credential: str) -> Browser:
    """A browser in the console with a token of the provider."""
    browser = Browser(httpx.Client(base_url=bed.url, trust_env=False))
    bed.clients.append(browser.client)
    assert browser.client.post("/sign-in", data={"token": credential, "back": "/"}).status_code == 303
    return browser


class Later(datetime):
    """The clock of PyJWT, a year ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Later:
        return super().now(tz) + timedelta(days=365)


@pytest.mark.requirement("CONSOLE-sign-in")
def test_an_expired_token_ends_the_session_and_its_feed(
    bed: Bed, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "QUIET_LOOKS", 1)
    monkeypatch.setattr(app, "RECHECK_S", 0.0)
    browser = signed_in(bed, token(provider, "late", tenant="acme", readback_rights=["read"]))
    browser.get("/actions")
    with browser.client.stream("GET", "/live") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        # A negative leeway would refuse the token for its time of issue, also where nothing compares its end.
        monkeypatch.setattr(api_jwt, "datetime", Later)
        told = list(islice(lines, FEED_LINES))
        assert set(told) <= {"", ": quiet"}
        assert len(told) < FEED_LINES  # the server ends the feed
    assert browser.client.get("/actions?state=failed").headers["location"] == (
        "/sign-in?back=%2Factions%3Fstate%3Dfailed"
    )
    asked = browser.get("/sign-in?back=%2Factions%3Fstate%3Dfailed")
    assert "its token has expired" in asked
    assert 'name="back" value="/actions?state=failed"' in asked
    monkeypatch.undo()
    assert browser.client.get("/actions").status_code == 303  # the session has ended for good


@pytest.mark.requirement("CONSOLE-sign-in")
def test_signing_out_everywhere_ends_the_sessions_of_every_token_of_the_person(bed: Bed, provider: str) -> None:
    first = signed_in(bed, token(provider, "eve", tenant="acme", readback_rights=["read"]))
    second = signed_in(bed, token(provider, "eve", tenant="acme", readback_rights=["run", "read"]))
    another = signed_in(bed, token(provider, "mia", tenant="acme", readback_rights=["read"]))
    assert first.client.post("/sign-out", data={"everywhere": "1"}).status_code == 403
    first.send("/sign-out", second.get("/"), status=403, everywhere="1")
    second.get("/")
    first.send("/sign-out", first.get("/"), everywhere="1")
    assert [each.client.get("/").status_code for each in (first, second, another)] == [303, 303, 200]


@pytest.mark.requirement("SERVER-oidc")
def test_a_token_without_tenant_or_rights_is_refused(bed: Bed, provider: str) -> None:
    for claims in ({"readback_rights": ["read"]}, {"tenant": "acme"}, {"tenant": "acme", "readback_rights": ["all"]}):
        answer = client_of(bed, token(provider, "nobody-9", **claims)).get("/v1/actions")
        assert (answer.status_code, answer.json()["code"]) == (401, "http.unauthenticated")


@pytest.mark.requirement("SERVER-oidc")
def test_an_altered_token_or_one_of_another_key_is_refused(bed: Bed, provider: str) -> None:
    good = token(provider, "agent-7", tenant="acme", readback_rights=["read"])
    head, body, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["tenant"] = "b-corp"
    altered = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    own = jwt.encode(claims, "x" * 64, algorithm="HS256", headers=jwt.get_unverified_header(good) | {"alg": "HS256"})
    for forged in (f"{head}.{altered}.{signature}", f"{none}.{altered}.", own, f"{head}.{body}.", "a.b.c"):
        answer = client_of(bed, forged).get("/v1/actions")
        assert (answer.status_code, answer.json()["code"]) == (401, "http.unauthenticated")
    assert client_of(bed, good).get("/v1/actions").status_code == 200


@pytest.mark.requirement("SERVER-oidc")
def test_a_provider_may_change_its_key_without_a_key_id(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider_at("0") as url:
        old = token(url, "agent-7", tenant="acme", readback_rights=["read"])
    issuers = (("company", Issuer(issuer=url, audience=CLIENT)),)
    with running(place, url="memory:", issuers=issuers) as bed:
        port = url.rpartition(":")[2]
        with provider_at(port):
            first = token(url, "agent-7", tenant="acme", readback_rights=["read"])
            assert client_of(bed, first).get("/v1/actions").status_code == 200
        with provider_at(port):
            second = token(url, "agent-7", tenant="acme", readback_rights=["read"])
            assert client_of(bed, second).get("/v1/actions").status_code == 401  # no second fetch within the pause
            monkeypatch.setattr(oidc, "AGAIN_US", 0)
            assert client_of(bed, second).get("/v1/actions").status_code == 200
            for ended in (old, first):
                assert client_of(bed, ended).get("/v1/actions").status_code == 401


@pytest.mark.requirement("SERVER-oidc")
def test_a_token_for_another_audience_is_refused(place: Path, provider: str) -> None:
    good = token(provider, "agent-7", tenant="acme", readback_rights=["read"])
    issuers = (("company", Issuer(issuer=provider, audience="another-service")),)
    with running(place, url="memory:", issuers=issuers) as other:
        assert client_of(other, good).get("/v1/actions").status_code == 401


def test_a_provider_that_is_away_is_503_and_not_a_refusal(place: Path, provider: str) -> None:
    good = token(provider, "agent-7", tenant="acme", readback_rights=["read"])
    claims = jwt.decode(good, options={"verify_signature": False}) | {"iss": "http://127.0.0.1:9"}
    issuers = (("company", Issuer(issuer="http://127.0.0.1:9", audience=CLIENT)),)
    foreign = jwt.encode(claims, "x" * 64, algorithm="HS256", headers={"kid": "k"})
    head = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"k"}').rstrip(b"=").decode()
    with running(place, url="memory:", issuers=issuers) as other:
        for _ in range(2):  # also where the keys are not fetched again
            answer = client_of(other, f"{head}.{foreign.split('.', 1)[1]}").get("/v1/actions")
            assert (answer.status_code, answer.json()["code"]) == (503, "http.provider")
