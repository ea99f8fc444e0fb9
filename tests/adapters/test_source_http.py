"""Reading JSON from a real HTTP server: what each answer proves about the object."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from decimal import Decimal

import pytest

from readback.canon import decimal_of
from readback.domain.context import Context
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Lookup, Presence, Reading
from readback.errors import (
    ArgumentError,
    HeaderInjectionError,
    ReaderFailedError,
    ReaderTypeError,
    UsageError,
)
from readback.systems.http.answer import Answer, CommitToken
from readback.systems.http.source import HttpSource
from readback.testing.conformance.source import SOURCE_RULES, Rule
from tests.adapters.web import Said, Web, serving

CTX = Context("a-1", "acme", "agent:ops", "ship o-1", "order/o-1", "key-1", "stamp-1")
STRONG = Context("a-1", "acme", "agent:ops", "ship o-1", "order/o-1", "key-1", "stamp-1", strong=True)
ORDER = {"id": "o-1", "tenant": "acme", "status": "shipped", "version": 3, "stamp": "stamp-1", "by": "ops"}


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        web.answers["/health"] = Said(body={"ok": True})
        yield web


@pytest.fixture
def orders(web: Web) -> Iterator[HttpSource]:
    with HttpSource("orders-api", web.url, canary="/health", timeout_s=5) as source:
        yield source


class World:
    """One object behind HTTP, on a server that can go and come back at its port."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.web = self.stack.enter_context(serving())
        self.answers = self.web.answers
        self.answers["/health"] = Said(body={"ok": True})
        self.source = HttpSource("orders-api", self.web.url, canary="/health", timeout_s=5)
        self.up = True

    def put(self, text: str) -> None:
        self.answers["/orders/1"] = Said(body={"text": text}, headers={"ETag": f'"{text}"'})

    def remove(self) -> None:
        self.answers.pop("/orders/1", None)

    def read(self) -> Reading:
        return self.source.get(CTX, "/orders/{id}", params={"id": 1})

    def cut(self) -> None:
        self.stack.close()
        self.up = False

    def mend(self) -> None:
        if not self.up:
            self.web = self.stack.enter_context(serving(self.web.port))
            self.web.answers = self.answers
            self.up = True

    def hide(self) -> bool:
        self.answers["/orders/1"] = self.answers["/health"] = Said(404, {"error": "not found"})
        return True


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_an_http_source_keeps_the_rules_of_sources(rule: Rule) -> None:
    world = World()
    with world.stack, world.source:
        rule(world)


def test_an_object_is_a_reading_with_its_marks_lifted(web: Web, orders: HttpSource) -> None:
    web.answers["/orders/o-1?full=1"] = Said(body={"data": [ORDER]}, headers={"Date": "Mon, 01 Jan 2024 00:00:01 GMT"})
    found = orders.get(
        CTX,
        "/orders/{id}",
        params={"id": "o-1"},
        query={"full": 1},
        value="/data/0",
        version="/data/0/version",
        stamp="/data/0/stamp",
        author="/data/0/by",
    )
    assert found.value == ORDER
    assert (found.version, found.stamp, found.author) == (3, "stamp-1", "ops")
    assert found.as_of_us == 1_704_067_201_000_000
    assert found.commit_token_honoured is False


def test_an_etag_is_an_opaque_version(web: Web, orders: HttpSource) -> None:
    web.answers["/o"] = Said(body=ORDER, headers={"ETag": 'W/"17"'})
    assert orders.get(CTX, "/o").version == "17", "a number would be put in an order that ETags do not have"


def test_a_pointer_follows_its_standard(web: Web, orders: HttpSource) -> None:
    web.answers["/o"] = Said(body={"a/b": {"m~n": 7}, "": 1})
    assert orders.get(CTX, "/o", value="/a~1b/m~0n").value == 7
    assert orders.get(CTX, "/o", value="/").value == 1


@pytest.mark.requirement("INPUT-reader-wrong-type")
@pytest.mark.parametrize(
    ("said", "value"),
    [
        (Said(body=b"<html>please log in</html>"), ""),
        (Said(body=b'{"half": '), ""),
        (Said(body=b""), ""),
        (Said(204, b""), ""),
        (Said(202, {"status": "accepted"}), ""),
        (Said(206, {"part": 1}), ""),
        (Said(body=[1]), "/1"),
        (Said(body=[1]), "/01x"),
        (Said(body={"a": 1}), "/b"),
        (Said(body={"a": 1}), "/a/b"),
        (Said(body={"a": 1}), "a"),
        (Said(body=b"x" * 5_000_000), ""),
        (Said(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), ""),
    ],
)
def test_an_answer_of_another_shape_is_a_verifier_error(web: Web, orders: HttpSource, said: Said, value: str) -> None:
    web.answers["/o"] = said
    with pytest.raises(ReaderTypeError):
        orders.get(CTX, "/o", value=value)


def test_a_version_is_a_number_or_a_text(web: Web, orders: HttpSource) -> None:
    web.answers["/o"] = Said(body={"version": True})
    with pytest.raises(ReaderTypeError, match="neither"):
        orders.get(CTX, "/o", version="/version")


@pytest.mark.requirement("L26")
@pytest.mark.parametrize(
    ("code", "presence"),
    [
        (500, Presence.UNAVAILABLE),
        (502, Presence.UNAVAILABLE),
        (503, Presence.UNAVAILABLE),
        (504, Presence.UNAVAILABLE),
        (408, Presence.UNAVAILABLE),
        (429, Presence.UNAVAILABLE),
        (401, Presence.NOT_VISIBLE),
        (403, Presence.NOT_VISIBLE),
        (404, Presence.ABSENT),
        (410, Presence.ABSENT),
    ],
)
def test_what_a_status_says_about_the_object(web: Web, orders: HttpSource, code: int, presence: Presence) -> None:
    web.answers["/o"] = Said(code, {"id": "o-1", "status": "shipped"})
    found = orders.get(CTX, "/o")
    assert found.presence is presence
    assert found.value is None, "the body of a failure is no state"


@pytest.mark.parametrize("code", [301, 302, 307, 400, 405, 422])
def test_a_request_that_the_service_does_not_take_is_a_verifier_error(web: Web, orders: HttpSource, code: int) -> None:
    web.answers["/o"] = Said(code, ORDER, {"Location": "/health"})
    with pytest.raises(ReaderFailedError):
        orders.get(CTX, "/o")
    assert [asked.path for asked in web.asked] == ["/o"], "a redirect was followed"


@pytest.mark.requirement("L26", "TRUTH-verdict-2")
@pytest.mark.parametrize(
    "canary", [Said(404), Said(403), Said(500), Said(302), Said(drop=True), Said(headers={"Age": "9"})]
)
def test_a_404_is_not_absence_where_the_canary_is_not_shown(web: Web, orders: HttpSource, canary: Said) -> None:
    web.answers["/health"] = canary
    assert orders.get(CTX, "/o").presence is Presence.NOT_VISIBLE


def test_a_404_is_not_absence_without_a_canary(web: Web) -> None:
    with HttpSource("blind", web.url) as blind:
        assert blind.get(CTX, "/o").presence is Presence.NOT_VISIBLE
        assert blind.get(CTX, "/o", canary="/health").presence is Presence.ABSENT


def test_the_canary_is_asked_with_the_same_credentials(web: Web) -> None:
    web.answers["/tenants/acme"] = Said(body={})
    with HttpSource("api", web.url, headers=lambda ctx: {"X-Tenant": ctx.tenant}) as api:
        found = api.get(
            STRONG, "/tenants/{tenant}/orders/{id}", params={"tenant": "acme", "id": 9}, canary="/tenants/{tenant}"
        )
    assert found.presence is Presence.ABSENT
    first, second = web.asked
    assert first.headers["X-Tenant"] == second.headers["X-Tenant"] == "acme"
    assert first.headers["Cache-Control"] == second.headers["Cache-Control"] == "no-cache"


@pytest.mark.requirement("L14")
def test_a_strong_reading_asks_past_caches_and_a_kept_answer_is_known_as_one(web: Web, orders: HttpSource) -> None:
    web.answers["/o"] = Said(body=ORDER, headers={"Age": "12"})
    assert orders.get(CTX, "/o").consistency is Consistency.CACHED
    assert "Cache-Control" not in web.asked[-1].headers
    web.answers["/o"] = Said(body=ORDER)
    assert orders.get(STRONG, "/o").consistency is None
    assert web.asked[-1].headers["Cache-Control"] == "no-cache"
    web.answers["/o"] = Said(404, headers={"Age": "3"})
    assert orders.get(CTX, "/o").consistency is Consistency.CACHED


@pytest.mark.requirement("TRUTH-source-commit-token")
@pytest.mark.parametrize(
    ("said", "honoured"), [("41", False), ("42", True), ("43", True), ("x", False), ("", False), (None, False)]
)
def test_a_commit_token_is_honoured_where_the_answer_confirms_it(web: Web, said: str | None, honoured: bool) -> None:
    web.answers["/o"] = Said(body=ORDER, headers={} if said is None else {"X-Commit": said, "X-As-Of-Us": "77"})
    token = CommitToken("X-Wait-For", confirmed_by="X-Commit")
    with HttpSource("api", web.url, commit_token=token, as_of_header="X-As-Of-Us", consistency="replica") as api:
        found = api.get(CTX, "/o", commit_token="42")
        assert api.get(CTX, "/o").commit_token_honoured is False
    assert found.commit_token_honoured is honoured
    assert found.as_of_us == (None if said is None else 77)
    assert found.consistency is Consistency.REPLICA
    assert web.asked[0].headers["X-Wait-For"] == "42"


def test_a_commit_token_needs_a_source_that_knows_it(orders: HttpSource) -> None:
    with pytest.raises(UsageError, match="commit token"):
        orders.get(CTX, "/o", commit_token="42")


@pytest.mark.requirement("INPUT-reader-hangs")
def test_a_service_that_hangs_is_unavailable(web: Web) -> None:
    web.answers["/o"] = Said(hang=True)
    with HttpSource("api", web.url, timeout_s=0.05) as api:
        found = api.get(CTX, "/o")
    assert found.presence is Presence.UNAVAILABLE
    assert "took over 0.05 s" in found.detail or "ReadTimeout" in found.detail


def test_a_service_that_hangs_up_is_unavailable(web: Web, orders: HttpSource) -> None:
    web.answers["/o"] = Said(drop=True)
    assert orders.get(CTX, "/o").presence is Presence.UNAVAILABLE
    web.answers["/o"] = Said(body=b"{}", headers={"Content-Length": "100", "Connection": "close"})
    web.over.set()
    assert [asked.path for asked in web.asked] == ["/o"], "it asked twice"


def test_values_cannot_leave_their_place_in_the_address(web: Web, orders: HttpSource) -> None:
    orders.get(CTX, "/orders/{id}/lines", params={"id": "a/admin?x=1#y /%2e"}, query={"q": "a&b=c"})
    assert web.asked[0].path == "/orders/a%2Fadmin%3Fx%3D1%23y%20%2F%252e/lines?q=a%26b%3Dc"
    for bad in ("", ".", "..", True, None, 1.5, "\ud800"):
        with pytest.raises(ArgumentError):
            orders.get(CTX, "/orders/{id}", params={"id": bad})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("orders/1", {}),
        ("//evil.example/x", {}),
        ("ftp://127.0.0.1/x", {}),
        ("https://127.0.0.1/x", {}),
        ("http://evil.example/x", {}),
        ("http://{host}/x", {"host": "evil.example"}),
        ("http://127.0.0.1:1/x", {}),
        ("/orders/{id}", {}),
        ("/orders", {"id": 1}),
    ],
)
def test_only_listed_hosts_and_whole_paths_are_asked(orders: HttpSource, path: str, params: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        orders.get(CTX, path, params=params)


def test_a_name_in_the_address_is_refused(web: Web, orders: HttpSource) -> None:
    with pytest.raises(UsageError):
        orders.get(CTX, f"http://me:secret@127.0.0.1:{web.port}/o")


def test_another_listed_host_may_be_asked(web: Web) -> None:
    with serving() as other, HttpSource("api", web.url, hosts=["127.0.0.1"]) as api:
        other.answers["/o"] = Said(body={"from": "other"})
        assert api.get(CTX, f"{other.url}/o").value == {"from": "other"}


def test_a_base_address_may_have_a_path(web: Web) -> None:
    web.answers["/v2/%C3%BC/o"] = Said(body=1)
    with HttpSource("api", f"{web.url}/v2/") as api:
        assert api.get(CTX, "/ü/o").value == 1


@pytest.mark.parametrize("address", ["ftp://x/", "127.0.0.1", "http://", "http://x/?q=1", "http://[::"])
def test_a_base_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        HttpSource("api", address)
    with pytest.raises(UsageError):
        HttpSource("", "http://127.0.0.1")


@pytest.mark.requirement("INPUT-header-injection")
def test_a_header_with_a_line_break_is_refused(web: Web, orders: HttpSource) -> None:
    with pytest.raises(HeaderInjectionError):
        orders.get(CTX, "/o", headers={"X-Tenant": "acme\r\nX-Admin: 1"})
    assert web.asked == []


def test_no_cookie_is_kept_from_one_reading_to_the_next(web: Web, orders: HttpSource) -> None:
    web.answers["/o"] = Said(body=1, headers={"Set-Cookie": "session=stale; Path=/"})
    orders.get(CTX, "/o")
    orders.get(CTX, "/o")
    assert "Cookie" not in web.asked[-1].headers


@pytest.mark.parametrize("text", ["100000000000000000001", "1.000000000000000001", "9007199254740993.0", "1e23"])
def test_a_number_is_read_exactly(web: Web, orders: HttpSource, text: str) -> None:
    web.answers["/o"] = Said(body=f'{{"wei": {text}}}'.encode())
    value = orders.get(CTX, "/o").value
    assert isinstance(value, dict)
    assert decimal_of(value["wei"]) == Decimal(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["1e401", "9" * 402, "NaN"])
def test_a_number_that_cannot_be_kept_is_no_reading(web: Web, orders: HttpSource, text: str) -> None:
    web.answers["/o"] = Said(body=f'{{"wei": {text}}}'.encode())
    with pytest.raises(ReaderTypeError, match="JSON"):
        orders.get(CTX, "/o")


@pytest.mark.parametrize("words", [{"landed": "succeeded"}, {"landed": ["done"], "failed": "failed"}])
def test_a_word_for_what_became_of_it_is_not_a_part_of_another(
    web: Web, orders: HttpSource, words: dict[str, str | list[str]]
) -> None:
    web.answers["/k"] = Said(body={"status": ""})
    with pytest.raises(UsageError, match="lists of words"):
        orders.lookup(CTX, "/k", **words)  # type: ignore[arg-type]
    assert not web.asked


def test_a_search_brings_every_item(web: Web, orders: HttpSource) -> None:
    web.answers["/search?stamp=stamp-1"] = Said(body={"items": [ORDER, {**ORDER, "id": "o-2"}], "complete": True})
    found = orders.all(
        CTX, "/search", query={"stamp": CTX.stamp}, complete="/complete", stamp="/stamp", version="/version"
    )
    assert [(each.stamp, each.version) for each in found] == [("stamp-1", 3), ("stamp-1", 3)]
    links = '</list?page=next>; rel="prev"; title="next", </list/next>; rel=last'
    web.answers["/list"] = Said(body=[], headers={"Link": links, "Age": "0"})
    assert orders.all(CTX, "/list", items="") == []


@pytest.mark.parametrize(
    "said",
    [
        Said(body={"items": [], "complete": False}),
        Said(body={"items": [], "complete": "no"}),
        Said(body={"items": [], "complete": 1}),
        Said(body={"items": [], "next": "page-2", "complete": True}),
        Said(body={"items": [], "complete": True}, headers={"Link": '</search?page=2>; rel="next"'}),
        Said(body={"items": [], "complete": True}, headers={"Link": "</search?page=2>; rel=next"}),
        Said(body={"items": [], "complete": True}, headers={"Link": "</1>; rel=first, </2>; Rel = 'last Next'"}),
        Said(body={"items": [], "complete": True}, headers={"Age": "12"}),
        Said(body={"items": [ORDER], "complete": True}, headers={"Age": "12"}),
        Said(500),
        Said(403),
        Said(404),
        Said(drop=True),
    ],
)
def test_a_search_that_could_not_see_everything_raises(web: Web, orders: HttpSource, said: Said) -> None:
    web.answers["/search"] = said
    with pytest.raises(ReaderFailedError):
        orders.all(CTX, "/search", complete="/complete")


def test_a_search_that_brings_no_list_is_a_verifier_error(web: Web, orders: HttpSource) -> None:
    web.answers["/search"] = Said(body={"items": {"o-1": ORDER}})
    with pytest.raises(ReaderTypeError, match="no list"):
        orders.all(CTX, "/search")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (Said(body={"status": "done", "answer": {"id": 7}}), Lookup.landed({"id": 7})),
        (Said(body={"status": "declined", "answer": None}), Lookup.failed("declined")),
        (Said(body={"status": "in_progress", "answer": None}), Lookup.pending()),
        (Said(body={"status": "a new word", "answer": None}), Lookup.pending()),
        (Said(404), Lookup.unknown_key()),
    ],
)
def test_a_key_is_looked_up(web: Web, orders: HttpSource, said: Said, found: Lookup) -> None:
    web.answers["/keys/key-1"] = said
    asked = orders.lookup(
        CTX, "/keys/{key}", params={"key": CTX.idempotency_key}, landed=["done"], failed=["declined"], value="/answer"
    )
    assert asked == found


@pytest.mark.parametrize("said", [Said(503), Said(401), Said(drop=True)])
def test_a_look_up_that_is_not_answered_raises(web: Web, orders: HttpSource, said: Said) -> None:
    web.answers["/keys/1"] = said
    with pytest.raises(ReaderFailedError):
        orders.lookup(CTX, "/keys/{key}", params={"key": 1}, landed=["done"])


def test_ping_needs_the_canary_to_be_shown(web: Web, orders: HttpSource) -> None:
    orders.ping()
    web.answers["/health"] = Said(404)
    with pytest.raises(ReaderFailedError):
        orders.ping()
    with HttpSource("api", web.url, headers=lambda ctx: {"X-Tenant": ctx.tenant}, canary="/t") as api:
        api.ping()  # it cannot make its headers without an action: an answer is enough
        web.answers["/"] = Said(500)
        with pytest.raises(ReaderFailedError):
            api.ping()


def test_a_port_that_nobody_listens_on_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with HttpSource("api", f"http://127.0.0.1:{taken.getsockname()[1]}") as api:
            assert api.get(CTX, "/o").presence is Presence.UNAVAILABLE


def test_a_header_that_cannot_be_sent_is_a_verifier_error(orders: HttpSource) -> None:
    with pytest.raises(ReaderFailedError):
        orders.get(CTX, "/o", headers={"X Tenant": "acme"})


def test_what_is_almost_json_is_a_verifier_error(web: Web, orders: HttpSource) -> None:
    web.answers["/o"] = Said(body=b'{"n": NaN}')
    with pytest.raises(ReaderTypeError):
        orders.get(CTX, "/o")


# --- answers that show less than they seem to -------------------------------------------------------------------------


@pytest.mark.requirement("HS-10")
def test_null_beside_an_error_is_no_absence(web: Web, orders: HttpSource) -> None:
    web.answers["/orders/1"] = Said(body={"data": None, "errors": ["not allowed"]})
    shown = orders.get(CTX, "/orders/1", value="/data")
    assert (shown.presence, "shows nothing at '/data'" in shown.detail) == (Presence.NOT_VISIBLE, True)


def test_an_answer_that_is_null_in_all_is_absence_where_the_canary_is_shown(web: Web, orders: HttpSource) -> None:
    web.answers["/orders/1"] = Said(body=None)
    assert orders.get(CTX, "/orders/1").presence is Presence.ABSENT
    web.answers.pop("/health")
    assert orders.get(CTX, "/orders/1").presence is Presence.NOT_VISIBLE
    with HttpSource("orders-api", web.url) as blind:
        assert blind.get(CTX, "/orders/1").presence is Presence.NOT_VISIBLE


CACHES = [
    ({"Cache-Status": "edge; hit"}, True), ({"Cache-Status": "edge; fwd=uri-miss, inner; hit; ttl=9"}, True),
    ({"Cache-Status": "edge; fwd=uri-miss; stored"}, False), ({"Cache-Status": "edge; hit=?0"}, False),
    ({"X-Cache": "HIT from proxy"}, True), ({"X-Cache": "Miss from edge"}, False), ({"X-Cache": "TCP_HIT"}, True),
    ({"X-Cache-Status": "STALE"}, True), ({"X-Cache-Status": "BYPASS"}, False), ({"CF-Cache-Status": "DYNAMIC"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "kept"), CACHES)
def test_a_cache_that_says_so_in_a_word_is_read_as_one(headers: dict[str, str], kept: bool, web: Web) -> None:
    web.answers["/orders/1"] = Said(body=ORDER, headers=headers)
    with HttpSource("orders-api", web.url) as orders:
        assert (orders.get(CTX, "/orders/1").consistency is Consistency.CACHED) is kept


@pytest.mark.parametrize(
    ("told", "whole"),
    [
        ("items 0-0/2", False), ("0-0/2", False), ("items 1-1/2", False), ("items 0-1/2", True), ("items */0", True),
        ("items 0-1/*", True), ("nonsense", True),
    ],
)  # fmt: skip
def test_a_list_that_says_it_is_a_range_of_more_is_not_whole(
    told: str, whole: bool, web: Web, orders: HttpSource
) -> None:
    web.answers["/orders"] = Said(body={"items": [ORDER]}, headers={"Content-Range": told})
    if whole:
        assert len(orders.all(CTX, "/orders")) == 1
        return
    with pytest.raises(ReaderFailedError, match="only a part"):
        orders.all(CTX, "/orders")


@pytest.mark.parametrize("value", ["..", "a/../b", "../../admin", "..\\b", "a/."])
def test_a_value_makes_no_step_that_somebody_on_the_way_may_take(value: str, orders: HttpSource, web: Web) -> None:
    with pytest.raises(ArgumentError):
        orders.get(CTX, "/orders/{id}", params={"id": value})
    assert web.asked == []


def test_a_header_that_is_not_ascii_is_refused_before_it_is_sent(orders: HttpSource, web: Web) -> None:
    with pytest.raises(ArgumentError, match="ASCII"):
        orders.get(CTX, "/orders/1", headers={"X-Name": "caf\u00e9"})
    assert web.asked == []


@pytest.mark.parametrize("said", ["9" * 5_000, "-1", "\u0661".encode().decode("latin-1")])
def test_a_moment_that_is_none_is_not_told(said: str, web: Web) -> None:
    web.answers["/orders/1"] = Said(body=ORDER, headers={"X-Now": said})
    with HttpSource("orders-api", web.url, as_of_header="X-Now") as orders:
        assert orders.get(CTX, "/orders/1").as_of_us is None


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"])
def test_an_answer_that_never_ends_is_given_up(first: bytes) -> None:
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
            with HttpSource("slow", where, timeout_s=0.5) as source:
                shown = source.get(CTX, "/orders/1")
        finally:
            over.set()
            thread.join(5)
    assert (shown.presence, "took over 0.5 s" in shown.detail) == (Presence.UNAVAILABLE, True)


@pytest.mark.parametrize("name", ["a/b", "a\\b"])
def test_a_404_for_a_name_with_a_slash_may_be_of_the_slash_alone(name: str, web: Web, orders: HttpSource) -> None:
    shown = orders.get(CTX, "/orders/{id}", params={"id": name})
    assert (shown.presence, "slash" in shown.detail) == (Presence.NOT_VISIBLE, True)
    assert orders.get(CTX, "/orders/{id}", params={"id": "ab"}).presence is Presence.ABSENT


@pytest.mark.parametrize(
    "date", [f"Wed, 21 Oct {'9' * 30} 07:28:00 GMT", f"Wed, 21 Oct 2015 07:28:00 +{'9' * 20}", "soon", ""]
)
def test_a_date_that_is_none_does_not_keep_an_answer_from_being_read(date: str) -> None:
    assert Answer(200, {"date": date}, b"{}").as_of_us(None) is None
    assert Answer(200, {"date": "Wed, 21 Oct 2015 07:28:00 +0230"}, b"").as_of_us(None) == 1_445_403_480_000_000
