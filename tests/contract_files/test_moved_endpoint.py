"""An honoured key is known where it was sent: once a reference names another service, nothing is sent again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from readback import Readback
from readback.client.files import contract_files
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.ports.system_factory import Reference
from readback.systems.configured.factory import place_of
from readback.systems.configured.settings import Settled
from readback.testing.runtime_virtual import VirtualRuntime
from tests.contract_files.writing import contract, written

pytestmark = pytest.mark.requirement("KEY-same-place")
ONE = """
    kind: create
    side_effect: low_risk_internal
    target: order/{requested.name}
    arguments: {name: string}
    identity: {target: authoritative.name, tenant: not_offered, stamp: authoritative.stamp}
    execute:
      http:
        url: {env: SHOP}
        method: POST
        path: /orders
        json: {name: "{requested.name}"}
        headers: {X-Token: {env: TOKEN}}
      honours_key: true
      key_valid_for: 1d
      timeout: 1s
    readers:
      - http: {url: {env: LEDGER}, path: "/orders/{requested.name}", canary: /canary, stamp: /stamp}
        source: orders
        consistency: strong
        attributes: true
    ensure: {there: authoritative.name == requested.name}
    within: 20s
"""


class Shop:
    """A service that loses what it is sent the first time; `then` is done before it does."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.then = lambda: None
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                shop.keys.append(self.headers["idempotency-key"])
                if len(shop.keys) == 1:
                    shop.then()
                self.say(503, b"{}")

            def do_GET(self) -> None:
                self.say(200, b'{"name": "canary", "stamp": ""}') if self.path == "/canary" else self.say(404, b"{}")

            def say(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def shops(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Shop, Shop]]:
    with ExitStack() as stack:
        here, there = Shop(), Shop()
        for each in (here, there):
            stack.callback(each.server.server_close)
            stack.callback(each.server.shutdown)
        for name, value in {"SHOP": here.url, "LEDGER": here.url, "TOKEN": "first"}.items():
            monkeypatch.setenv(name, value)
        yield here, there


def ran(folder: Path) -> Outcome:
    act = contract_files(written(folder / "one.yaml", contract(ONE)))
    url = f"sqlite:///{folder}/readback.db"
    with Readback.open(url, tenant="acme", principal="agent:x", runtime=VirtualRuntime()) as rb:
        return rb.run(act["one"](name="a"), operation="1", wait=3600)


@pytest.mark.parametrize("moved", ["SHOP", "LEDGER"])
def test_nothing_is_sent_again_once_a_setting_names_another_service(
    tmp_path: Path, shops: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    here, there = shops
    here.then = lambda: monkeypatch.setenv(moved, there.url)
    told = ran(tmp_path)
    assert len(here.keys) == 1
    assert there.keys == []
    assert not told.verified
    assert told.state in (State.UNKNOWN, State.REVIEW_REQUIRED)


@pytest.mark.parametrize(
    ("name", "value"), [("TOKEN", "second"), ("SHOP", "{here}/"), ("OTHER", "x"), ("LEDGER", "{here}")]
)
def test_a_credential_that_changed_and_the_same_address_in_other_words_keep_nothing_from_being_sent_again(
    tmp_path: Path, shops: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    here, there = shops
    here.then = lambda: monkeypatch.setenv(name, value.format(here=here.url))
    ran(tmp_path)
    assert len(here.keys) > 1
    assert len(set(here.keys)) == 1
    assert there.keys == []


def test_of_a_place_nothing_but_a_digest_without_credentials_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = {"url": Reference("env", "SHOP"), "user": "u", "password": Reference("env", "TOKEN")}
    seen = set()
    for url, token in (("http://a:b@h/x", "1"), ("http://c:d@h/x/", "2"), ("http://h/y", "1"), ("http://h:81/x", "1")):
        monkeypatch.setenv("SHOP", url)
        monkeypatch.setenv("TOKEN", token)
        place = place_of("http", fixed, lambda: Settled("s", fixed, "/", 1))
        assert place is not None
        seen.add(place())
        assert url not in place()
    assert len(seen) == 3
    monkeypatch.delenv("SHOP")
    assert place() == "unresolved"
    assert place_of("http", {"url": "http://h"}, lambda: Settled("s", {}, "/", 1)) is None
