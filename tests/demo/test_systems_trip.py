"""The trip's providers: honest by day, spoiled on demand, and their own file says what is true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from readback.demo.systems.launch import Systems
from readback.demo.systems.rules import TRADES
from tests.demo.waiting import eventually

WANTED = {"flights": "RB 1", "hotel": "a room", "car": "a car"}


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems(only=["trip"]) as systems:
        yield systems


@pytest.fixture
def act(systems: Systems) -> Iterator[httpx.Client]:
    headers = {"X-Tenant": "acme"}
    with httpx.Client(base_url=systems.trip_url, headers=headers, timeout=5, trust_env=False) as client:
        yield client


@pytest.fixture
def look(systems: Systems) -> Iterator[httpx.Client]:
    headers = {"X-Tenant": "acme"}
    with httpx.Client(base_url=systems.trip_records_url, headers=headers, timeout=5, trust_env=False) as client:
        yield client


def make(act: httpx.Client, book: str, trip: str, *, stamp: str = "s", key: str = "", **body: object) -> httpx.Response:
    headers = {"X-Stamp": stamp, **({"Idempotency-Key": key} if key else {})}
    body = {"cents": 65_400, "what": WANTED.get(book, ""), **body}
    return act.post(f"/{book}", json={"trip": trip, **body}, headers=headers)


def spoil(systems: Systems, fault: str, book: str, trip: str, op: str = "make", **params: Any) -> None:
    systems.fault(fault, system="trip", match={"book": book, "trip": trip, "op": op}, **params)


def test_a_trip_that_is_made_in_all_books_is_complete_and_one_that_is_taken_back_is_clear(
    systems: Systems, act: httpx.Client
) -> None:
    ids = {book: make(act, book, "rome", stamp=f"s-{book}").json()["id"] for book in TRADES}
    truth = systems.trip_truth("rome")
    assert truth.complete(WANTED)
    assert not truth.complete({**WANTED, "car": "a lorry"})
    assert (truth.clear, truth.repeated, truth.made("payments")) == (False, 0, 1)
    for book, trade in TRADES.items():
        answer = act.post(f"/{book}/{ids[book]}/{trade.undo}", json={}, headers={"X-Stamp": f"u-{book}"})
        assert (answer.status_code, answer.json()["status"]) == (200, trade.undone)
    truth = systems.trip_truth("rome")
    assert (truth.clear, truth.complete(WANTED), truth.as_text()) == (True, False, "nothing")
    assert [truth.undone(book) for book in TRADES] == [1] * 5
    assert {entry.undone_stamps for entry in truth.entries} == {(f"u-{book}",) for book in TRADES}


def test_what_is_taken_back_cannot_be_taken_back_again(systems: Systems, act: httpx.Client) -> None:
    hold = make(act, "flights", "oslo").json()["id"]
    codes = [act.post(f"/flights/{hold}/release", json={}).status_code for _ in range(2)]
    assert codes == [200, 409]
    assert systems.trip_truth("oslo").undone("flights") == 1
    assert act.post("/flights/fl-999/release", json={}).status_code == 404


@pytest.mark.parametrize(("book", "times"), [("payments", 1), ("tickets", 1), ("flights", 2), ("hotel", 2), ("car", 2)])
def test_payments_and_tickets_honour_a_key_and_the_holds_do_not(
    systems: Systems, act: httpx.Client, book: str, times: int
) -> None:
    answers = [make(act, book, f"key-{book}", key=f"k-{book}") for _ in range(2)]
    assert systems.trip_truth(f"key-{book}").made(book) == times
    assert systems.trip_truth(f"key-{book}").repeated == times - 1
    if times == 1:
        assert answers[0].json() == answers[1].json()
        assert make(act, book, "elsewhere", key=f"k-{book}").status_code == 422


def test_an_entry_is_found_by_its_stamp_its_id_and_its_key_at_the_other_port(
    act: httpx.Client, look: httpx.Client
) -> None:
    made = make(act, "payments", "bonn", stamp="found-me", key="k-found").json()
    assert look.get("/entries", params={"made_stamp": "found-me"}).json() == {"items": [made], "complete": True}
    assert look.get(f"/entries/{made['id']}").json() == made
    (change,) = look.get("/search", params={"stamp": "found-me"}).json()["changes"]
    assert (change["op"], change["row"]) == ("make", made)
    assert look.get("/keys/k-found").json()["status"] == "done"
    missing = [look.get(path).status_code for path in ("/keys/k-lost", "/entries/pa-999", "/boats")]
    assert missing == [404, 404, 404]
    assert look.get("/entries", params={"colour": "red"}).status_code == 400


def test_another_tenant_sees_and_changes_nothing(systems: Systems, act: httpx.Client, look: httpx.Client) -> None:
    hold = make(act, "flights", "bern").json()["id"]
    other = {"X-Tenant": "globex"}
    assert look.get("/entries", params={"trip": "bern"}, headers=other).json()["items"] == []
    assert act.post(f"/flights/{hold}/release", json={}, headers=other).status_code == 404
    assert act.post("/flights", json={"trip": "bern"}, headers={"X-Tenant": "nobody"}).status_code == 403
    assert systems.trip_truth("bern").as_text() == "flights"


@pytest.mark.parametrize(
    "body", [{}, {"trip": ""}, {"trip": 7}, {"trip": "x", "cents": "many"}, {"trip": "x", "cents": 0}]
)
def test_what_makes_no_sense_is_refused(act: httpx.Client, body: dict[str, object]) -> None:
    assert act.post("/payments", json=body).status_code == 422


def test_a_body_or_a_path_that_is_none_is_refused(act: httpx.Client) -> None:
    assert act.post("/payments", content=b"not json").status_code == 400
    assert act.post("/payments", content=b"[]").status_code == 400
    paths = ("/boats", "/flights/fl-1/refund", "/flights/fl-1", "/flights/fl-1/release/now")
    assert [act.post(path, json={}).status_code for path in paths] == [404] * 4


@pytest.mark.parametrize(("fault", "landed"), [("lost_reply", 1), ("lost_before", 0)])
@pytest.mark.parametrize("op", ["make", "refund"])
def test_a_connection_that_is_cut_says_nothing_of_what_landed(
    systems: Systems, act: httpx.Client, fault: str, landed: int, op: str
) -> None:
    trip = f"{fault}-{op}"
    if op == "refund":
        path, body = f"/payments/{make(act, 'payments', trip).json()['id']}/refund", {}
    else:
        path, body = "/payments", {"trip": trip, "cents": 5}
    spoil(systems, fault, "payments", trip, op)
    with pytest.raises(httpx.RemoteProtocolError):
        act.post(path, json=body)
    truth = systems.trip_truth(trip)
    assert (truth.made("payments") if op == "make" else truth.undone("payments")) == landed


def test_a_refusal_leaves_nothing_and_has_the_code_that_was_ordered(systems: Systems, act: httpx.Client) -> None:
    spoil(systems, "refuse", "car", "kiel", times=1, code=409)
    spoil(systems, "refuse", "car", "kiel", times=1, code=503)
    codes = [make(act, "car", "kiel").status_code for _ in range(3)]
    assert codes == [409, 503, 201]
    assert systems.trip_truth("kiel").made("car") == 1


def test_a_silent_no_op_answers_like_an_honest_one(systems: Systems, act: httpx.Client) -> None:
    spoil(systems, "silent_noop", "hotel", "ulm", answer="honest")
    answer = make(act, "hotel", "ulm")
    assert (answer.status_code, answer.json()["status"], answer.json()["cents"]) == (201, "booked", 31_500)
    assert systems.trip_truth("ulm").clear
    hold = make(act, "hotel", "ulm").json()["id"]
    spoil(systems, "silent_noop", "hotel", "ulm", "cancel", answer="honest")
    answer = act.post(f"/hotel/{hold}/cancel", json={})
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert systems.trip_truth("ulm").as_text() == "hotel"


def test_another_value_lands_than_the_answer_says(systems: Systems, act: httpx.Client) -> None:
    spoil(systems, "wrong_value", "car", "cadiz", set={"what": "a lorry"})
    assert make(act, "car", "cadiz").json()["what"] == "a car"
    (entry,) = systems.trip_truth("cadiz").live("car")
    assert entry.what == "a lorry"


def test_a_duplicate_is_two_effects_under_one_stamp(systems: Systems, act: httpx.Client) -> None:
    spoil(systems, "duplicate", "payments", "lyon")
    assert make(act, "payments", "lyon", key="k-lyon").status_code == 201
    truth = systems.trip_truth("lyon")
    assert (truth.made("payments"), truth.repeated, truth.as_text()) == (2, 1, "2 payments")


def test_what_lands_late_is_in_progress_until_then_and_is_waited_for(
    systems: Systems, act: httpx.Client, look: httpx.Client
) -> None:
    spoil(systems, "late", "payments", "bari", ms=60)
    assert make(act, "payments", "bari", key="k-late").status_code == 202
    status = look.get("/keys/k-late").json()["status"]
    assert make(act, "payments", "bari", key="k-late").status_code in (409, 201)
    eventually(lambda: systems.trip_truth("bari").made("payments"))
    eventually(lambda: look.get("/keys/k-late").json()["status"] == "done")
    assert status in ("in_progress", "done")
    assert make(act, "payments", "bari", key="k-late").status_code == 201
    assert systems.trip_truth("bari").made("payments") == 1


def test_the_providers_are_at_rest_once_all_connections_are_gone_and_all_has_landed(systems: Systems) -> None:
    with httpx.Client(base_url=systems.trip_url, headers={"X-Tenant": "acme"}, trust_env=False) as client:
        spoil(systems, "late", "car", "pisa", ms=80)
        make(client, "car", "pisa")
        assert systems.trip_busy() > 0
    eventually(lambda: systems.trip_busy() == 0)
    assert systems.trip_truth("pisa").made("car") == 1
