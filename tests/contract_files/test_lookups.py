"""Searches and look-ups of built-in sources: what a file says of them is asked, and what would not be is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from readback.client.files import contract_files
from readback.domain.verification.reading import Lookup
from tests.adapters.web import Said, serving
from tests.contract_files.conftest import Office
from tests.contract_files.writing import context, contract, faults, written

KEYS = """
    kind: set
    side_effect: low_risk_internal
    target: order/{requested.id}
    identity: {target: authoritative.id, tenant: not_offered}
    arguments: {id: string}
    execute: {http: {url: "URL", method: POST, path: "/orders/{requested.id}"}}
    readers:
      - http: {url: "URL", path: "/orders/{requested.id}"}
        consistency: strong
    lookup:
      http: {url: "URL", path: /keys, query: {key: "{scope.idempotency_key}"}, landed: [done], failed: [rejected]}
    ensure: {there: authoritative.id == requested.id}
"""


@pytest.mark.requirement("FILE-tool-search")
@pytest.mark.parametrize("word", ["done", "rejected"])
def test_a_key_is_asked_for_in_the_query_and_another_ones_end_is_not_taken_for_its_own(
    word: str, tmp_path: Path
) -> None:
    """Without the query the service tells of the last key that it knows, which is somebody else's."""
    with serving() as service:
        service.answers["/keys"] = Said(body={"status": word})
        service.answers["/keys?key=key-1"] = Said(body={"status": "running"})
        actions = contract_files(written(tmp_path / "c.yaml", contract(KEYS.replace("URL", service.url))))
        asked = actions["one"].plan.hands.lookup
        assert asked is not None
        assert asked.call(context(), {"id": "o-1"}) == Lookup.pending()
        assert [each.path for each in service.asked] == ["/keys?key=key-1"]


@pytest.mark.requirement("FILE-tool-search")
@pytest.mark.parametrize(
    ("status", "found"),
    [(2, "landed"), ("2", "landed"), (4, "failed"), (3, "pending"), (True, "pending"), (1, "landed")],
)
def test_a_number_that_says_what_became_of_a_key_is_the_word_that_it_is_written_as(
    status: object, found: str, tmp_path: Path
) -> None:
    with serving() as service:
        service.answers["/keys?key=key-1"] = Said(body={"status": status})
        text = contract(KEYS.replace("URL", service.url).replace("[done], failed: [rejected]", "[1, 2], failed: [4]"))
        asked = contract_files(written(tmp_path / "c.yaml", text))["one"].plan.hands.lookup
        assert asked is not None
        told = asked.call(context(), {"id": "o-1"})
    assert isinstance(told, Lookup)
    assert told.status == found


@pytest.mark.requirement("FILE-same-contract")
def test_a_service_may_answer_a_search_with_a_bare_list(tmp_path: Path) -> None:
    asks = 'url: "URL", path: /orders, query: {by: "{scope.stamp}"}, items: "", stamp: /by'
    find = f"find: {{http: {{{asks}}}, consistency: strong}}"
    with serving() as service:
        service.answers["/orders?by=stamp-1"] = Said(body=[{"id": "o-1", "by": "stamp-1"}])
        text = KEYS[: KEYS.index("    lookup:")] + f"    {find}\n" + KEYS[KEYS.index("    ensure:") :]
        actions = contract_files(written(tmp_path / "c.yaml", contract(text.replace("URL", service.url))))
        asked = actions["one"].plan.hands.find
        assert asked is not None
        found = asked.call(context(), {"id": "o-1"})
    assert isinstance(found, list)
    assert [(each.value["id"], each.stamp) for each in found] == [("o-1", "stamp-1")]


SQL = 'sql: {database: a.db, query: "select 1", status: a, landed: [b]'
HTTP = "http: {url: 'http://h', path: /a, landed: [b]"
COMMAND = "command: {argv: [a], status: /a, landed: [b]"


@pytest.mark.requirement("FILE-every-fault")
@pytest.mark.parametrize(
    ("use", "source", "key"),
    [
        ("lookup", HTTP, "canary: /c"),
        ("lookup", HTTP, "stamp: /s"),
        ("lookup", HTTP, "as_of_header: X-As-Of"),
        ("lookup", SQL, "version: v"),
        ("lookup", COMMAND, "author: /a"),
        ("find", "http: {url: 'http://h', path: /a", "canary: /c"),
        ("find", "command: {argv: [a]", "absent: [1]"),
    ],
)
def test_a_key_that_would_mean_nothing_there_is_refused(use: str, source: str, key: str) -> None:
    text = KEYS[: KEYS.index("    lookup:")].replace("URL", "http://h") + f"    {use}:\n      {source}SPOT}}\n"
    text += "      consistency: strong\n    ensure: {there: authoritative.id == requested.id}\n"
    assert faults(contract(text.replace("SPOT", ""))) == []
    (told,) = faults(contract(text.replace("SPOT", f", {key}")))
    assert f"`{source.partition(':')[0]}` has no such key" in told


SEARCHED = """
    kind: append
    side_effect: low_risk_internal
    target: note/{requested.id}
    identity: {target: authoritative.id, tenant: not_offered, stamp: authoritative.stamp}
    arguments: {id: string}
    execute: {command: {argv: [/bin/echo, {value: "{requested.id}", argument: data}], cwd: work}}
    readers:
      - sql: {database: a.db, query: "select id, stamp from notes where id = {requested.id}", stamp: stamp}
    find:
      sql: {database: a.db, query: "select id, stamp from notes WHERE", stamp: stamp}
    lookup:
      sql: {database: a.db, query: "select status from keys KEY", status: status, landed: [done]}
    ensure: {there: authoritative.id == requested.id}
"""


@pytest.mark.requirement("FILE-check")
@pytest.mark.parametrize(
    ("where", "key", "find", "lookup"),
    [
        ("where stamp = {scope.stamp}", "where key = {scope.idempotency_key}", "absent", "absent"),
        ("", "", "present", "present"),
        ("where tsamp = {scope.stamp}", "where key = {scope.idempotency_key}", "failed", "absent"),
    ],
)
def test_a_check_asks_each_search_for_a_stamp_and_a_key_that_nobody_was_given(
    where: str, key: str, find: str, lookup: str, office: Office
) -> None:
    with closing(sqlite3.connect(office.folder / "a.db")) as shop, shop:
        shop.execute("create table notes (id text, stamp text)")
        shop.execute("create table keys (key text, status text)")
        shop.execute("insert into notes values ('n-1', 'rb-other')")
        shop.execute("insert into keys values ('other', 'done')")
    office.write("c.yaml", contract(SEARCHED.replace("WHERE", where).replace("KEY", key)))
    sound = (find, lookup) == ("absent", "absent")
    told = office("contracts", "check", "c.yaml", "--json", code=0 if sound else 1).json["readers"]
    assert [(each["reader"], each["found"]) for each in told] == [("sql", "absent"), ("find", find), ("lookup", lookup)]
    assert [each["sound"] for each in told] == [True, find == "absent", lookup == "absent"]
