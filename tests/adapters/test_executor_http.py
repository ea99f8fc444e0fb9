"""Acting on a real HTTP server: what goes over the wire, and what comes back as evidence."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from readback.canon.limits import EVIDENCE_MAX_BYTES
from readback.domain.context import Context
from readback.domain.verification.observation import ObservationStatus, normalise, normalise_exception
from readback.errors import (
    ArgumentError,
    HeaderInjectionError,
    NotDispatchedError,
    ToolError,
    ToolTimeoutError,
    UnsupportedValueError,
    UsageError,
)
from readback.systems.http.executor import HttpExecutor
from tests.adapters.web import Said, Web, serving

CTX = Context("a-1", "acme", "agent:ops", "ship o-1", "order/o-1", "key-1", "stamp-1")


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


@pytest.fixture
def shop(web: Web) -> Iterator[HttpExecutor]:
    with HttpExecutor(web.url, timeout_s=5, headers={"X-Tenant": "acme"}) as shop:
        yield shop


@pytest.mark.requirement("TRUTH-keys-stamp", "CLAIM-stamp")
def test_a_request_carries_key_and_stamp(web: Web, shop: HttpExecutor) -> None:
    web.answers["/orders/o%2F1/ship"] = Said(201, {"id": "x-7", "status": "done"})
    response = shop.post(CTX, "/orders/{id}/ship", params={"id": "o/1"}, json={"carrier": "dhl"})
    (asked,) = web.asked
    assert (asked.method, json.loads(asked.body)) == ("POST", {"carrier": "dhl"})
    assert (asked.headers["Idempotency-Key"], asked.headers["X-Stamp"]) == ("key-1", "stamp-1")
    assert asked.headers["X-Tenant"] == "acme"
    assert (response.status_code, response.json()) == (201, {"id": "x-7", "status": "done"})
    seen = normalise(response, 1)
    assert (seen.status, seen.reference, seen.http_status) == (ObservationStatus.SUCCESS, "x-7", 201)


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
def test_every_method_goes_out_as_itself_and_once(web: Web, shop: HttpExecutor, method: str) -> None:
    web.answers["/o"] = Said(200, {"ok": True})
    assert getattr(shop, method)(CTX, "/o").status_code == 200
    assert [asked.method for asked in web.asked] == [method.upper()]


def test_the_names_of_the_marks_can_be_others(web: Web) -> None:
    with HttpExecutor(web.url, key_header="X-Request-Id", stamp_header=None) as shop:
        shop.put(CTX, "/o", json=[], headers={"X-Stamp": "mine"})
    assert web.asked[0].headers["X-Request-Id"] == "key-1"
    assert "Idempotency-Key" not in web.asked[0].headers
    assert web.asked[0].headers["X-Stamp"] == "mine"


def test_the_marks_cannot_be_overridden(web: Web, shop: HttpExecutor) -> None:
    with pytest.raises(UsageError):
        shop.post(CTX, "/o", headers={"idempotency-key": "another"})
    assert web.asked == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (Said(200, {"success": False}), ObservationStatus.ERROR),
        (Said(202, {"status": "queued"}), ObservationStatus.ACCEPTED),
        (Said(302, headers={"Location": "/elsewhere"}), ObservationStatus.ERROR),
        (Said(409, {"error": "conflict"}), ObservationStatus.ERROR),
        (Said(503, b"try later"), ObservationStatus.ERROR),
        (Said(504), ObservationStatus.TIMEOUT),
    ],
)
def test_any_answer_is_evidence_and_none_is_repeated(
    web: Web, shop: HttpExecutor, said: Said, status: ObservationStatus
) -> None:
    web.answers["/o"] = said
    response = shop.post(CTX, "/o", json={})
    seen = normalise(response, 1)
    assert response.status_code == said.code
    assert (seen.status, seen.dispatched) == (status, True)
    assert len(web.asked) == 1


def test_an_answer_over_the_limit_is_cut(web: Web, shop: HttpExecutor) -> None:
    web.answers["/o"] = Said(200, json.dumps({"status": "done", "filler": "x" * 2 * EVIDENCE_MAX_BYTES}).encode())
    response = shop.post(CTX, "/o")
    assert len(response.content) == EVIDENCE_MAX_BYTES
    assert normalise(response, 1).reference is None, "a cut answer is no structured one"


def test_a_service_that_does_not_answer_in_time_is_a_timeout(web: Web) -> None:
    web.answers["/o"] = Said(hang=True)
    with HttpExecutor(web.url, timeout_s=0.05, sole=True) as shop, pytest.raises(ToolTimeoutError) as caught:
        shop.post(CTX, "/o", json={})
    seen = normalise_exception(caught.value, 1)
    assert (seen.status, seen.dispatched) == (ObservationStatus.TIMEOUT, True)


def test_a_connection_that_breaks_leaves_the_effect_open(web: Web) -> None:
    web.answers["/o"] = Said(drop=True)
    with HttpExecutor(web.url, sole=True) as shop, pytest.raises(ToolError) as caught:
        shop.post(CTX, "/o", json={})
    assert caught.value.code == "tool.connection-lost"
    assert normalise_exception(caught.value, 1).dispatched is True
    assert len(web.asked) == 1, "it was sent again"


def test_a_connection_that_never_stood_proves_nothing_unless_the_request_is_the_only_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with HttpExecutor(nowhere) as shop, pytest.raises(ToolError) as caught:
            shop.post(CTX, "/o")
        assert normalise_exception(caught.value, 1).dispatched is True
        with HttpExecutor(nowhere, sole=True) as shop, pytest.raises(NotDispatchedError) as caught:
            shop.post(CTX, "/o")
        assert normalise_exception(caught.value, 1).dispatched is False


@pytest.mark.requirement("INPUT-header-injection")
@pytest.mark.parametrize("bad", ["a\r\nX-Admin: 1", "a\nb", "a\x00b", "a\x7fb"])
def test_a_header_with_a_line_break_is_refused_before_anything_is_sent(web: Web, shop: HttpExecutor, bad: str) -> None:
    with pytest.raises(HeaderInjectionError):
        shop.post(CTX, "/o", headers={"X-Note": bad})
    with pytest.raises(HeaderInjectionError):
        shop.post(CTX, "/o", headers={bad: "x"})
    assert web.asked == []


@pytest.mark.parametrize(
    ("path", "params", "error"),
    [
        ("orders", {}, UsageError),
        ("//evil.example/x", {}, UsageError),
        ("http://evil.example/x", {}, UsageError),
        ("https://127.0.0.1/x", {}, UsageError),
        ("http://{host}/x", {"host": "evil.example"}, UsageError),
        ("/o/{id}", {}, UsageError),
        ("/o/{id}", {"id": ".."}, ArgumentError),
        ("/o/{id}", {"id": ""}, ArgumentError),
        ("/o/{id}", {"id": True}, ArgumentError),
        ("/o/{id}", {"id": "\udc80"}, ArgumentError),
    ],
)
def test_values_and_hosts_stay_in_their_place(
    web: Web, shop: HttpExecutor, path: str, params: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        shop.post(CTX, path, params=params)
    assert web.asked == []


def test_a_listed_host_may_be_sent_to_and_a_query_is_encoded(web: Web) -> None:
    with serving() as other, HttpExecutor(web.url, hosts=["127.0.0.1"]) as shop:
        shop.request(CTX, "DELETE", f"{other.url}/o/{{id}}", params={"id": "ü 1"}, query={"why": "a&b"})
        assert other.asked[0].path == "/o/%C3%BC%201?why=a%26b"


def test_a_body_without_a_json_form_is_refused_before_anything_is_sent(web: Web, shop: HttpExecutor) -> None:
    with pytest.raises(UnsupportedValueError):
        shop.post(CTX, "/o", json={"amount": float("nan")})
    assert web.asked == []


@pytest.mark.parametrize("address", ["ftp://x/", "127.0.0.1", "http://", "http://x/?q=1", "http://[::"])
def test_a_base_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        HttpExecutor(address)


def test_no_cookie_is_kept_from_one_action_to_the_next(web: Web, shop: HttpExecutor) -> None:
    web.answers["/o"] = Said(200, headers={"Set-Cookie": "session=of-another-action; Path=/"})
    shop.post(CTX, "/o")
    shop.post(CTX, "/o")
    assert "Cookie" not in web.asked[-1].headers


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"])
def test_an_answer_that_never_ends_is_a_timeout_of_what_may_have_landed(first: bytes) -> None:
    """A byte now and then keeps each reading of a socket within its limit."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client, suppress(OSError):
                client.sendall(first)
                while not over.wait(0.05):
                    client.sendall(b" ")

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            where = f"http://127.0.0.1:{server.getsockname()[1]}"
            with HttpExecutor(where, timeout_s=0.5, sole=True) as slow, pytest.raises(ToolTimeoutError) as caught:
                slow.post(CTX, "/orders")
        finally:
            over.set()
            thread.join(5)
    seen = normalise_exception(caught.value, 1)
    assert (seen.status, seen.dispatched) == (ObservationStatus.TIMEOUT, True)


@pytest.mark.parametrize("value", ["a/..", "../b", "a\\..\\b"])
def test_a_value_makes_no_step_that_somebody_on_the_way_may_take(value: str, shop: HttpExecutor, web: Web) -> None:
    with pytest.raises(ArgumentError):
        shop.delete(CTX, "/orders/{id}", params={"id": value})
    assert web.asked == []


def test_a_header_that_is_not_ascii_is_refused_before_it_is_sent(shop: HttpExecutor, web: Web) -> None:
    with pytest.raises(ArgumentError, match="ASCII"):
        shop.post(CTX, "/orders", headers={"X-Name": "caf\u00e9"})
    assert web.asked == []


def test_a_host_whose_name_is_none_was_sent_nothing() -> None:
    with HttpExecutor("http://a..b", sole=True) as shop, pytest.raises(NotDispatchedError):
        shop.post(CTX, "/orders", json={})
