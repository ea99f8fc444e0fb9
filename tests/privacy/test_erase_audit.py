"""After an erasure the audit accepts what an entry erased and nothing else, and every proof of before still stands."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from readback import bootstrap
from readback.audit.checks.ledger import audit
from tests.architecture.tree import ROOT
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixture
from tests.lifecycle.trip import TENANT as TRIPS
from tests.lifecycle.trip import Trip
from tests.privacy.conftest import Shelf

WHY: Any = {"who": "human:dpo", "reason": "Ana asked for it."}
AT_SHELL = ("--reason", "Ana asked for it.", "--who", "human:dpo")


WEIGHED = (
    "update weight set bytes = (select sum(bytes) from (select length(body) as bytes from payload"
    " union all select length(body) from contract_text))"
)
"""What the store counts of one tenant, as whoever changes rows by hand would set it right."""


def _by_hand(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.execute(WEIGHED)
    connection.close()


@pytest.mark.requirement("PRIVACY-audit")
@pytest.mark.parametrize(
    "statement",
    [
        "update payload set body = null where id = 6",
        "update payload set body = null, media = '' where id = 6",
        "delete from payload where id = 6",
    ],
)
def test_bytes_that_somebody_took_away_by_hand_are_missed(shelf: Shelf, statement: str) -> None:
    made = shelf.fill({"p": "one", "q": "two"})
    with shelf.open() as rb:
        rb.erase(made["p"].id, **WHY)
    _by_hand(shelf.path, statement)
    assert {fault.code for fault in shelf.audited().faults} == {"evidence"}


@pytest.mark.requirement("PRIVACY-audit")
def test_a_row_of_erased_evidence_that_was_removed_or_marked_otherwise_is_missed(shelf: Shelf) -> None:
    made = shelf.fill({"p": "one"})
    with shelf.open() as rb:
        rb.erase(made["p"].id, **WHY)
    one = "(select max(id) from payload where body is null)"
    _by_hand(shelf.path, f"update payload set media = 'application/json' where id = {one}")
    assert not shelf.audited().ok
    _by_hand(shelf.path, "delete from payload where body is null")
    assert not shelf.audited().ok


@pytest.mark.requirement("PRIVACY-audit")
def test_erased_bytes_that_are_back_are_found(shelf: Shelf) -> None:
    made = shelf.fill({"p": "one", "q": "two"})
    connection = apsw.Connection(str(shelf.path))
    kept = connection.execute("select id, body from payload").fetchall()
    with shelf.open() as rb:
        rb.erase(made["p"].id, **WHY)
    for number, body in kept:
        connection.execute("update payload set body = ?, media = 'application/json' where id = ?", (body, number))
    connection.execute(WEIGHED)
    connection.close()
    report = shelf.audited()
    assert {fault.code for fault in report.faults} == {"evidence.not-erased"}
    assert report.faults_total == 4


@pytest.mark.requirement("PRIVACY-proofs-stand")
def test_every_proof_of_before_still_stands(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", str(desk.folder / "log.key"))
    key = desk("ledger", "keys", "create", "--name", "example.com/ledger", code=0).out.strip()
    ids = [desk.ship(f"op-{n}", pin="9876", carrier=f"carrier-{n}", code=0)["id"] for n in range(6)]
    desk("ledger", "checkpoint", "--out", "early", code=0)
    desk("ledger", "prove", ids[0], "--out", "proof", "--checkpoint", "early", code=0)
    desk("ledger", "export", "--tiles", "export", code=0)
    desk("ledger", "erase", "--action", ids[0], "--action", ids[3], *AT_SHELL, code=0)
    assert desk("ledger", "verify", "--checkpoint", "early", "--json", code=0).json["erased"] > 0
    desk("ledger", "verify-proof", "proof", "--key", key, code=0)
    desk("ledger", "verify-export", "export", code=0)
    desk("ledger", "prove", ids[0], "--version", "1", "--out", "again", code=0)
    desk("ledger", "verify-proof", "again", "--key", key, code=0)
    desk("ledger", "export", "--tiles", "after", code=0)
    desk("ledger", "verify-export", "after", code=0)
    assert desk("ledger", "checkpoint", "--witness", "early", "--json", code=0).json["goes_on_from"]


@pytest.mark.requirement("PRIVACY-erased-said")
def test_every_command_says_that_payloads_are_gone_and_shows_none(desk: Desk) -> None:
    action_id = desk.ship("op", carrier="planted-carrier", code=0)["id"]
    other_id = desk.ship("other", order_id="o-18", code=None)["id"]
    desk("ledger", "erase", "--action", action_id, *AT_SHELL, "--dry-run", code=0)
    assert "planted-carrier" in desk("show", action_id, code=0).out
    said = desk("ledger", "erase", "--action", action_id, *AT_SHELL, code=0)
    assert "1 actions of tenant default erased" in said.out
    assert "Earlier backups and copies" in said.err
    for command in (("show",), ("explain",), ("review", "show")):
        for more in ((), ("--json",)):
            answer = desk(*command, action_id, *more, code=None)
            assert answer.code == 0, answer
            assert "erased" in answer.out
            assert "planted-carrier" not in answer.out
    listed = desk("list", "--json", code=0).json
    assert {each["id"]: each["erased"] for each in listed} == {action_id: True, other_id: False}
    assert "erased" in desk("list", code=0).out


@pytest.mark.requirement("PRIVACY-at-work-refused", "PRIVACY-erase-by-age")
def test_the_command_leaves_what_is_at_work_and_says_so_in_its_exit_code(desk: Desk) -> None:
    done = desk.ship("done", code=0)["id"]
    waits = desk.ship("waits", "--wait", "0", how="lie", carrier="ups", code=3)["id"]
    assert desk("ledger", "erase", "--action", waits, "--action", done, *AT_SHELL, code=2).err.count(waits)
    desk.runtime.advance(3600)
    dry = desk("ledger", "erase", "--all", *AT_SHELL, "--dry-run", "--json", code=3).json
    assert (dry["actions"], dry["at_work_total"]) == (1, 1)
    left = desk("ledger", "erase", "--older-than", "10m", *AT_SHELL, "--json", code=3).json
    assert (left["actions"], left["at_work"][0]["id"]) == (1, waits)
    assert desk("ledger", "erase", "--before", "2020-01-31", *AT_SHELL, "--json", code=0).json["actions"] == 0
    for wrong in (("--before", "soon"), ("--older-than", "x"), ("--all", "--action", done), ()):
        desk("ledger", "erase", *wrong, *AT_SHELL, code=2)
    desk("ledger", "erase", "--all", "--older-than", "1d", "--before", "2020-01-01", *AT_SHELL, code=2)
    desk("ledger", "erase", "--action", "no-such", *AT_SHELL, code=2)
    desk("ledger", "erase", "--all", "--reason", " ", code=2)
    desk("ledger", "verify", code=0)


def _holds(store: Any) -> bytes:
    found = [
        store.evidence(TRIPS, one.projection.action_id, digest)
        for one in store.projections()
        for digest in _digests(store, one)
    ]
    return b"".join(each.body for each in found if each is not None)


def _digests(store: Any, held: Any) -> list[str]:
    from readback.domain.action.erasure import payloads
    from readback.domain.events import open_envelope

    events = store.events(held.projection.action_id)
    return [digest for each in events for digest in payloads(open_envelope(each.envelope).event)]


@pytest.mark.requirement("PRIVACY-at-work-refused")
def test_a_saga_and_its_steps_are_erased_once_all_of_it_has_settled(tmp_path: Path) -> None:
    from readback.audit.maintenance.erase import erase
    from readback.domain.action.erasure import ErasureOrder
    from readback.errors import ErasureError
    from readback.testing.runtime_virtual import VirtualRuntime

    store, runtime = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}"), VirtualRuntime()
    trip = Trip(store=store, runtime=runtime)
    trip.run(operation="verified")
    trip.world.faults["car"] = "late"
    trip.driver.drive(trip.begin(trip.steps("t-2"), "waits"), runtime.now_us() + 1_000_000)
    every = [each.projection for each in store.projections()]
    waits = next(each.action_id for each in every if each.kind == "saga" and each.operation == "waits")
    step = next(each for each in every if each.saga == waits and each.state == "reconciled_success")
    with pytest.raises(ErasureError, match=r"its saga .* is still in progress"):
        erase(store, ErasureOrder(TRIPS, "human:dpo", "x", (step.action_id,)), runtime.now_us())
    result = erase(store, ErasureOrder(TRIPS, "human:dpo", "x"), runtime.now_us())
    assert result.actions == 6
    assert result.at_work_total >= 2
    report = audit(store)
    assert report.faults == []
    trip.world.faults.clear()
    runtime.advance(3600)
    trip.work()
    erase(store, ErasureOrder(TRIPS, "human:dpo", "x"), runtime.now_us())
    assert _holds(store) == b""
    assert audit(store).faults == []
    store.close()


KILLED = """
import os, signal, sys
from readback import bootstrap
from readback.domain.action.erasure import ErasureOrder
from readback.audit.maintenance import erase as eraser

store = bootstrap.store(sys.argv[1])
at, after = int(sys.argv[2]), sys.argv[3] == "after"
append, done = store.append, 0

def counted(batch):
    global done
    done += 1
    if done == at and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    found = append(batch)
    if done == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return found

store.append, eraser.APPENDS_AT_ONCE_MAX = counted, 1
eraser.erase(store, ErasureOrder("acme", "human:dpo", "x"), 2_000_000_000_000_000)
"""


@pytest.mark.requirement("PRIVACY-crash")
@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_erasure_that_was_killed_goes_on_where_it_stopped(shelf: Shelf, at: int, when: str) -> None:
    with shelf.open() as rb:
        made = [rb.run(shelf.write(page=f"p{n % 3}", text="planted words"), operation=f"op-{n}") for n in range(8)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, shelf.url, str(at), when],
        cwd=ROOT,
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    half = shelf.audited()
    assert half.faults == []
    with shelf.open() as rb:
        erased = [one.id for one in made if rb.get(one.id).erased]
        assert len(erased) == at - 1 + (when == "after")
        for one in made:
            rb.erase(one.id, **WHY)
        assert b"planted words" not in shelf.files()
    assert shelf.audited().faults == []
