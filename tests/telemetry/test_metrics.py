"""The nineteen metrics: each from a history made by hand, with the answer known by its formula."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from readback.audit.feedback.tally import BOUNDS_US, Spread
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.metrics import ALL_SERIES, COUNTS, METRICS, PREFIX, Measured
from readback.telemetry.prometheus import exposition
from tests.requirements.manifest import requirement_ids
from tests.telemetry.history import NOW_US, History, ledger, nineteen

KNOWN = {
    # 13 executed payments: 5 verified, 4 refuted, 2 without a verdict, 2 pending.
    "verification-success": Measured(5, 13, 0.384615),
    "verification-failure": Measured(4, 13, 0.307692),
    "verification-latency": Measured(0, 9, 3.0),  # the longest: no answer, attempt at 120 s, verdict at 123 s
    "time-to-reconcile": Measured(0, 11, 10.0),  # the longest: attempt at 40 s, unknown at 50 s
    "read-after-write-failure": Measured(1, 13, 0.076923),
    "discrepancy": Measured(4, 9, 0.444444),
    "stale-state": Measured(1, 13, 0.076923),
    "partial-failure": Measured(1, 13, 0.076923),
    "pending-too-long": Measured(1, 2, 0.5),
    "unknown-state": Measured(1, 13, 0.076923),
    "duplicate-action": Measured(1, 13, 0.076923),
    "idempotency-recovery": Measured(1, 1, 1.0),
    "compensation": Measured(2, 13, 0.153846),
    "compensation-success": Measured(1, 2, 0.5),
    "compensation-failure": Measured(1, 2, 0.5),
    "false-success-escape": Measured(2, 13, 0.153846),
    "human-escalation": Measured(3, 13, 0.230769),
    "ledger-completeness": Measured(10, 11, 0.909091),
    "verifier-regression": Measured(0, 11, None),  # of one version; see the mails
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerMetrics]:
    store = ledger(tmp_path_factory.mktemp("nineteen"), nineteen())
    yield LedgerMetrics(store, lambda: NOW_US)
    store.close()


def reader_of(history: History, folder: Path) -> LedgerMetrics:
    return LedgerMetrics(ledger(folder, history), lambda: NOW_US)


@pytest.mark.parametrize("requirement_id", requirement_ids("METRIC"))
def test_a_metric_has_the_value_that_its_formula_gives(requirement_id: str, reader: LedgerMetrics) -> None:
    metric = requirement_id.removeprefix("METRIC-")
    assert reader.measured()[metric]["pay"] == KNOWN[metric]


def test_the_specification_has_nineteen_metrics_and_each_has_an_answer_here() -> None:
    assert len(METRICS) == 19
    assert {one.id for one in METRICS} == set(KNOWN)
    assert set(COUNTS) < set(KNOWN)


@pytest.mark.requirement("METRIC-verifier-regression")
def test_a_worse_version_of_a_contract_raises_the_regression(reader: LedgerMetrics) -> None:
    """One of twenty was refuted under version 1, five of twenty under version 2."""
    assert reader.measured()["verifier-regression"]["mail"] == Measured(5, 20, 0.2)


@pytest.mark.requirement("METRIC-partial-failure", "METRIC-compensation-success")
def test_a_saga_counts_where_its_formula_names_it_and_nowhere_else(reader: LedgerMetrics) -> None:
    found = {name: each["trip"] for name, each in reader.measured().items()}
    assert found["partial-failure"] == Measured(1, 1, 1.0)
    assert found["compensation-success"] == Measured(1, 1, 1.0)
    assert found["verification-success"] == Measured(0, 0, None)
    assert found["compensation"] == Measured(0, 0, None)


def test_a_reading_action_is_no_write(reader: LedgerMetrics) -> None:
    found = {name: each["stock"] for name, each in reader.measured().items()}
    assert found["verification-success"] == Measured(1, 1, 1.0)
    assert found["stale-state"] == Measured(0, 0, None)
    assert found["duplicate-action"] == Measured(0, 0, None)


def test_an_unknown_action_that_is_verified_later_counts_as_settled_later(tmp_path: Path) -> None:
    history = History()
    one = history.action("pay", 0).attempt(0).observe("timeout", 1)
    path = (State.PENDING, State.VERIFICATION_TIMEOUT, State.UNKNOWN)
    one.judge("undetermined", 10, *path, why="timeout", review="unknown_state")
    one.read(60).judge("verified", 60, State.RECONCILED_SUCCESS)
    (cell,) = reader_of(history, tmp_path).refresh().feedback.cells
    assert (cell.undetermined, cell.settled_later, cell.verified, cell.unknown, cell.open_verdicts) == (1, 1, 1, 1, 0)
    assert cell.states["unknown"] == 0
    assert cell.states["reconciled_success"] == 1


def test_an_action_resumed_after_a_crash_and_verified_was_never_unknown(tmp_path: Path) -> None:
    history = History()
    one = history.action("pay", 0).attempt(0).entry(EventKind.RESUMED, 5, (State.UNKNOWN,), owner="p")
    one.read(6).judge("verified", 6, State.RECONCILED_SUCCESS)
    (cell,) = reader_of(history, tmp_path).refresh().feedback.cells
    assert (cell.unknown, cell.undetermined, cell.verified) == (0, 0, 1)
    assert cell.tool.answers == {"none": 1}


def test_a_drift_is_no_false_success(tmp_path: Path) -> None:
    history = History()
    one = history.action("pay", 0).done(0)
    one.judge("refuted", 50, discrepancy="value_mismatch", review="drift")
    one.entry(EventKind.CLAIM_CONTESTED, 50, claim="holds", reason="drifted")
    one.entry(EventKind.CLAIM_RETRACTED, 50, claim="holds", reason="drifted")
    (cell,) = reader_of(history, tmp_path).refresh().feedback.cells
    assert (cell.drifted, cell.false_success, cell.verified, cell.refuted) == (1, {}, 1, 0)
    assert cell.review_reasons == {"drift": 1}


def test_an_approval_before_the_attempt_is_no_escalation(tmp_path: Path) -> None:
    history = History()
    one = history.action("pay", 0)
    one.entry(EventKind.APPROVAL_REQUESTED, 1, (State.VALIDATED, State.REVIEW_REQUIRED), hold="approval")
    one.entry(EventKind.APPROVED, 2, (State.VALIDATED,))
    one.attempt(3).observe("success", 4).judge("verified", 5, *VERIFIED)
    (cell,) = reader_of(history, tmp_path).refresh().feedback.cells
    assert (cell.reviews, cell.review_reasons, cell.approvals) == (0, {"approval": 1}, {"requested": 1, "given": 1})


VERIFIED = (State.COMMITTED, State.RECONCILED_SUCCESS)


def test_no_label_holds_an_id_a_target_or_a_principal(reader: LedgerMetrics) -> None:
    text = exposition(reader.families())
    for secret in ("01a0", "order/1", "agent:desk", "acme", "pay 1"):
        assert secret not in text
    allowed = {"contract", "kind", "side_effect", "ledger", "le"} | {n for one in ALL_SERIES for n in one.labels}
    for family in reader.families():
        for labels, _ in family.samples:
            assert set(labels) <= allowed


def test_no_exported_series_is_a_ratio() -> None:
    assert not [one.name for one in ALL_SERIES if one.name.endswith(("_ratio", "_rate", "_percent", "_share"))]
    for one in ALL_SERIES:
        assert (one.kind == "counter") == one.name.endswith("_total")


def test_every_selector_of_a_rule_names_an_exported_series() -> None:
    names = {PREFIX + one.name for one in ALL_SERIES} | {
        PREFIX + one.name + "_bucket" for one in ALL_SERIES if one.kind == "histogram"
    }
    for one in METRICS:
        words = one.expression("1h").replace("{", " ").replace("[", " ").replace(")", " ").replace("(", " ").split()
        used = {word for word in words if word.startswith(PREFIX)}
        assert used
        assert used <= names, one.id


def test_a_histogram_counts_a_duration_in_the_bucket_of_its_upper_limit() -> None:
    spread = Spread()
    for duration in (1_000, 1_001, 86_400_000_001):
        spread.add(duration)
    assert spread.below()[:2] == [(1_000, 1), (2_500, 2)]
    assert spread.below()[-1] == (BOUNDS_US[-1], 2)
    assert spread.count == 3
