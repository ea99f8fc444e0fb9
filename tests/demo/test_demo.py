"""The whole demo, as its user starts it: real systems, real mail, a real SIGKILL; one run for all these tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from readback import bootstrap
from readback.client.operations.replaying import replay_bundle
from readback.demo.main import check
from tests.record.conftest import VALIDATOR, bundle_of, hold_to_the_record, record, streams
from tests.workers.limit import killed_after

pytestmark = pytest.mark.slow

SECONDS_MAX = 90
PROGRESS_LINES_MAX = 24
"""`make demo` prints at most 60 lines: 24 of progress and 36 of its report."""
ROW_KEYS = {"pattern", "tool_said", "truth", "naive_said", "readback_said", "state", "discrepancy", "id", "name"}
TOTAL_KEYS = [
    "actions",
    "naive_false_successes",
    "readback_false_successes",
    "duplicated_effects",
    "missed_successes",
    "ledger_ok",
]
START = "import sys; from readback.demo.main import run_demo; sys.exit(run_demo(as_json=True))"


@dataclass(frozen=True)
class Run:
    """One finished run, and the folders that were its own."""

    code: int
    answer: dict[str, Any]
    progress: str
    here: Path
    temporary: Path

    def row(self, name: str) -> dict[str, Any]:
        (found,) = [row for row in self.answer["actions"] if row["name"] == name]
        return dict(found)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    here, temporary = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("temporary")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", START],
        cwd=here,
        env=_environment(temporary),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.stdout, done.stderr
    return Run(done.returncode, json.loads(done.stdout), done.stderr, here, temporary)


def test_it_ends_well_and_answers_one_object(run: Run) -> None:
    assert run.code == 0, run.answer["totals"]
    assert list(run.answer) == ["actions", "totals", "trips", "trip_totals", "attempts", "attempt_totals"]
    assert list(run.answer["totals"]) == TOTAL_KEYS
    for row in run.answer["actions"]:
        assert row.keys() >= ROW_KEYS
        assert all(row[key] for key in ("name", "tool_said", "truth", "naive_said", "readback_said"))


def test_readback_tells_no_lie_doubles_nothing_and_misses_nothing(run: Run) -> None:
    totals = run.answer["totals"]
    assert totals["ledger_ok"] is True
    assert (totals["readback_false_successes"], totals["duplicated_effects"], totals["missed_successes"]) == (0, 0, 0)
    assert totals["naive_false_successes"] >= 8


def test_the_totals_are_those_of_the_rows(run: Run) -> None:
    rows, totals = run.answer["actions"], run.answer["totals"]
    assert totals["actions"] == len(rows) >= 25
    told = [row for row in rows if row["readback_said"].startswith("The action completed successfully.")]
    assert [row["name"] for row in told] == [row["name"] for row in rows if row["truly_done"]]
    assert [row["name"] for row in told] == [row["name"] for row in rows if row["state"] == "reconciled_success"]
    naive = [row for row in rows if row["naive_said"].startswith("Done") and not row["truly_done"]]
    assert totals["naive_false_successes"] == len(naive)


def test_every_pattern_is_spoiled_at_least_once(run: Run) -> None:
    patterns = {row["pattern"] for row in run.answer["actions"]}
    assert patterns == {None, *(f"HS-{number:02d}" for number in range(1, 15))}
    assert sum(row["spoiled"] is None for row in run.answer["actions"]) >= 8, "too few honest ones to miss a truth"


@pytest.mark.parametrize(
    ("name", "truth", "state", "discrepancy"),
    [
        ("cancel o-20", "open", None, None),
        ("refund 80.00 of o-3", "refunded 3.75", "failed", None),
        ("mark o-4 as sent", "open", "review_required", "no_op_failure"),
        ("enter o-30 in the daybook", "41.00", "rolled_back", "value_mismatch"),
        pytest.param("cancel o-10", "open", "review_required", "no_op_failure", marks=pytest.mark.requirement("HS-03")),
        ("charge o-12", "declined 25.00", "review_required", "value_mismatch"),
        ("fulfil o-5: 2 chairs", "without stock, order", "review_required", "partial_application"),
        pytest.param(
            "charge o-6", "captured 17.50", "reconciled_success", None, marks=pytest.mark.requirement("HS-05")
        ),
        ("ship o-7 by ups", "shipped, ups", "reconciled_success", None),
        ("note on o-8", "noted 2 times", "review_required", "duplicate_side_effect"),
        ("charge o-11", "captured 23.75, captured 23.75", "review_required", "duplicate_side_effect"),
        pytest.param(
            "ship o-13 by fedex", "shipped, fedex", "reconciled_success", None, marks=pytest.mark.requirement("HS-07")
        ),
        pytest.param("cancel o-14", "open", "review_required", "no_op_failure", marks=pytest.mark.requirement("HS-07")),
        pytest.param(
            "send o-15 to Oak Lane",
            "15 Harbour Road",
            "review_required",
            "no_op_failure",
            marks=pytest.mark.requirement("HS-08"),
        ),
        ("write to Ana", "1 in the mailbox", "reconciled_success", None),
        ("write to Ben", "not delivered", "review_required", "no_op_failure"),
        pytest.param(
            "cancel o-1", "shipped", "review_required", "no_op_failure", marks=pytest.mark.requirement("HS-10")
        ),
        ("send o-16 to Pine Road", "16 Harbour Road", "review_required", "no_op_failure"),
        pytest.param(
            "ship o-17 by dhl",
            "open; globex's o-17 was changed",
            "review_required",
            "wrong_target_modified",
            marks=pytest.mark.requirement("HS-12"),
        ),
        pytest.param(
            "book a parcel for o-18",
            "10 booked",
            "review_required",
            "value_mismatch",
            marks=pytest.mark.requirement("HS-13"),
        ),
        pytest.param(
            "book a parcel for o-19",
            "20 cancelled",
            "compensated",
            "value_mismatch",
            marks=pytest.mark.requirement("HS-13"),
        ),
        ("page the warehouse", "nothing reached the warehouse", "unknown", "unverifiable_state"),
        ("book a parcel for o-24", "1 booked", "reconciled_success", None),
        ("charge o-23", "captured 38.75", "reconciled_success", None),
    ],
)
def test_each_spoiled_step_is_told_as_it_is(
    run: Run, name: str, truth: str, state: str | None, discrepancy: str | None
) -> None:
    row = run.row(name)
    assert (row["truth"], row["state"], row["discrepancy"]) == (truth, state, discrepancy)


@pytest.mark.requirement("HS-01")
def test_a_call_that_was_never_made_is_not_on_record(run: Run) -> None:
    row = run.row("cancel o-20")
    assert row["id"] is None
    assert (row["naive_said"], row["readback_said"]) == (
        "Done: cancel o-20.",
        "No such action is on record; nothing may be told of it.",
    )


def test_what_a_precondition_refuses_is_never_sent(run: Run) -> None:
    row = run.row("refund 80.00 of o-3")
    assert (row["tool_said"], row["readback_said"]) == (
        "nothing: it was not called",
        "The action has not been executed.",
    )


@pytest.mark.requirement("HS-11")
def test_who_asks_before_the_reconciliation_is_told_that_it_is_pending(run: Run) -> None:
    row = run.row("send o-16 to Pine Road")
    assert row["readback_said_at_first"] == "The action response was received; verification is pending."
    assert row["naive_said"].startswith("Done")


@pytest.mark.requirement("HS-14")
def test_unknown_stays_unknown_until_it_can_be_read(run: Run) -> None:
    assert "unknown" in run.row("book a parcel for o-24")["readback_said_at_first"]
    assert "No system of record can confirm it." in run.row("page the warehouse")["readback_said"]


def test_the_killed_worker_left_an_unknown_that_another_one_settled(run: Run) -> None:
    row = run.row("charge o-23")
    assert "killed" in row["tool_said"]
    assert row["readback_said_at_first"] == "The action was attempted; result is unknown."
    assert "SIGKILL" in run.progress


def test_the_progress_is_short_without_v(run: Run) -> None:
    assert len(run.progress.splitlines()) <= PROGRESS_LINES_MAX


def test_it_leaves_its_ledger_and_nothing_else(run: Run) -> None:
    left = [path.relative_to(run.here).as_posix() for path in run.here.rglob("*")]
    ledger = "readback-demo/ledger.db"
    assert sorted(left) == ["readback-demo", ledger, f"{ledger}.operator.jsonl"]
    assert list(run.temporary.iterdir()) == []
    assert _processes_of(run.temporary) == []


def test_the_ledger_that_it_leaves_is_sound(run: Run) -> None:
    report = check(f"sqlite:///{run.here / 'readback-demo' / 'ledger.db'}")
    assert report.ok, report.faults
    # One for each step but the phantom, one for each of the two compensations; the trips, and the actions of each;
    # the attempts of the delegate.
    trips = sum(1 + actions for _, actions in TRIPS.values())
    assert report.actions == len(run.answer["actions"]) - 1 + 2 + trips + 3


@pytest.mark.requirement("LEDGER-replay-bundle", "LEDGER-record")
def test_each_of_its_actions_has_a_record_and_replays_to_what_it_says(run: Run) -> None:
    store = bootstrap.store(f"sqlite:///{run.here / 'readback-demo' / 'ledger.db'}", read_only=True)
    try:
        for events in streams(store):
            VALIDATOR.validate(record(store, events))
            hold_to_the_record(replay_bundle(bundle_of(store, events), bootstrap.predicate_engine()))
    finally:
        store.close()


# --- the delegation ---------------------------------------------------------------------------------------------


def test_a_delegate_that_lies_twice_is_believed_neither_time_and_brought_to_do_its_task(run: Run) -> None:
    told = [(row["truth"], row["truly_done"], row["state"], row["discrepancy"]) for row in run.answer["attempts"]]
    assert told == [
        ("26 Harbour Road, open", False, "review_required", "no_op_failure"),
        ("62 Beech Lane, packed", False, "review_required", "value_mismatch"),
        ("26 Birch Lane, packed", True, "reconciled_success", None),
    ]
    assert len({row["delegate_said"] for row in run.answer["attempts"]}) == 1, "the delegate says the same each time"
    assert {row["naive_said"] for row in run.answer["attempts"]} == {"Done: have o-26 sent and packed."}
    assert run.answer["attempt_totals"] == {
        "attempts": 3,
        "naive_false_successes": 2,
        "readback_false_successes": 0,
        "missed_successes": 0,
        "done": True,
    }


def test_the_delegate_is_told_why_and_keeps_its_task(run: Run) -> None:
    first, *again = [row["told"] for row in run.answer["attempts"]]
    assert first == "Send order o-26 to 26 Birch Lane, and mark it as packed."
    assert ["26 Harbour Road" in again[0], "62 Beech Lane" in again[1]] == [True, True]
    assert all(told.startswith("VERIFICATION FAILED") and told.endswith(first) for told in again)


# --- the trips ---------------------------------------------------------------------------------------------------

TRIPS = {
    "lisbon": ("reconciled_success", 5),
    "bergen": ("compensated", 3 + 2),
    "graz": ("compensated", 3 + 2),
    "porto": ("compensated", 3 + 3),
    "turin": ("compensated", 4 + 3),
    "malmo": ("compensated", 4 + 3),
    "cork": ("reconciled_success", 5),
    "nice": ("reconciled_success", 5),
    "riga": ("reconciled_success", 5 + 1),
    "split": ("reconciled_success", 5),
}
"""How each trip ends, and how many actions it takes: its steps, and those that took them back or went forward."""


def test_the_trips_end_as_promised_and_were_spoiled_enough_to_show_it(run: Run) -> None:
    totals = run.answer["trip_totals"]
    assert (totals["trips"], totals["naive_wrong"]) == (len(TRIPS), 7)
    assert {name: number for name, number in totals.items() if number and name not in ("trips", "naive_wrong")} == {}


@pytest.mark.parametrize("trip", TRIPS)
def test_each_trip_is_booked_whole_or_taken_back_whole(run: Run, trip: str) -> None:
    (row,) = [row for row in run.answer["trips"] if row["trip"] == trip]
    state, _ = TRIPS[trip]
    booked = state == "reconciled_success"
    assert (row["state"], row["readback"]["whole"]) == (state, booked)
    assert row["readback"]["stands"] == ("all five" if booked else "nothing")
    assert (row["readback"]["false"], row["readback"]["doubled"]) == (False, 0)


@pytest.mark.parametrize(
    ("trip", "tool_said", "stands"),
    [
        ("graz", "201", "flights, car, payments, tickets"),
        ("porto", "201", "flights, hotel, car, payments, tickets, but a lorry"),
        ("turin", "no answer", "flights, 2 hotel, car"),
        ("riga", "503", "flights, hotel, car, payments"),
    ],
)
def test_the_naive_agent_heard_the_same_and_left_something_else(
    run: Run, trip: str, tool_said: str, stands: str
) -> None:
    (row,) = [row for row in run.answer["trips"] if row["trip"] == trip]
    assert row["tool_said"].startswith(tool_said)
    assert (row["naive"]["stands"], row["naive"]["false"]) == (stands, True)


@pytest.mark.requirement("L07")
def test_a_lost_reply_after_the_charge_is_one_charge_where_the_naive_agent_makes_two(run: Run) -> None:
    (row,) = [row for row in run.answer["trips"] if row["trip"] == "cork"]
    assert row["tool_said"] == "no answer"
    assert "2 payments" in row["naive"]["stands"]
    assert row["naive"]["said"] == "Done: the trip is booked."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_takes_everything_away(tmp_path: Path, number: int) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    started = subprocess.Popen(
        [sys.executable, "-c", START], cwd=here, env=_environment(temporary), stderr=subprocess.PIPE, text=True
    )
    with started, killed_after(started):
        assert started.stderr is not None
        next(line for line in started.stderr if line.startswith("The rush"))
        started.send_signal(number)
        said = started.stderr.read()
    assert started.returncode != 0
    assert "UNKNOWN OUTCOME" not in said
    assert list(temporary.iterdir()) == []
    assert _processes_of(temporary) == []


def _environment(temporary: Path) -> dict[str, str]:
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": source}


def _processes_of(folder: Path) -> list[str]:
    """Processes that were started with this folder in their environment, and still live."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}".encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_text())
        except OSError:
            continue  # ended meanwhile, or not ours to read
    return found
