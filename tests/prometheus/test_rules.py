"""The shipped rules and alerts by Prometheus's own `promtool`: each ratio and each alert, firing and silent.

`make prometheus` unpacks Debian's package and runs this; `make test` leaves this out.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from readback.telemetry.metrics import METRICS
from readback.telemetry.prometheus_files import ALERTS, DASHBOARD_FILE, RULES_FILE, VOLUME_RULE, dashboard, write_files
from tests.architecture.tree import ROOT

PROMTOOL: Final = ROOT / ".venv" / "prometheus" / "usr" / "bin" / "promtool"
MINUTES: Final = 120
AT: Final = "90m"
GROUP: Final = 'ledger="l",contract="pay"'

# What each ratio divides, written here once more and by hand: numerator and denominator.
RATIOS: Final[dict[str, tuple[str, str]]] = {
    "verification-success": ('verifications_total{verdict="verified",kind="set"}', 'executed_total{kind="set"}'),
    "verification-failure": ('verifications_total{verdict="refuted",kind="set"}', 'executed_total{kind="set"}'),
    "read-after-write-failure": ('read_after_write_failures_total{kind="set"}', 'executed_total{kind="set"}'),
    "stale-state": ('discrepancies_total{class="stale_state",kind="set"}', 'executed_total{kind="set"}'),
    "partial-failure": ('partial_total{kind="saga"}', 'executed_total{kind="saga"}'),
    "unknown-state": ('unknown_total{kind="set"}', 'executed_total{kind="set"}'),
    "duplicate-action": ('discrepancies_total{class="duplicate_side_effect",kind="set"}', 'executed_total{kind="set"}'),
    "idempotency-recovery": (
        'duplicate_attempts_resolved_total{kind="set"}',
        'duplicate_attempts_total{kind="set"}',
    ),
    "compensation": ('compensations_started_total{kind="set"}', 'executed_total{kind="set"}'),
    "compensation-success": (
        'compensations_ended_total{result="verified",kind="set"}',
        'compensations_started_total{kind="set"}',
    ),
    "compensation-failure": (
        'compensations_ended_total{result="failed",kind="set"}',
        'compensations_started_total{kind="set"}',
    ),
    "false-success-escape": ('false_success_total{how="told",kind="set"}', 'executed_total{kind="set"}'),
    "human-escalation": ('escalations_total{kind="set"}', 'executed_total{kind="set"}'),
    "ledger-completeness": ('ledger_complete_total{kind="set"}', 'ledger_required_total{kind="set"}'),
}
# Series that a ratio must leave out, for ratios of actions without sagas and for ratios of writes.
NOISE: Final = ("executed_total", 'verifications_total{verdict="verified"', 'verifications_total{verdict="refuted"')
OF_ACTIONS: Final = {"verification-success", "verification-failure", "unknown-state", "human-escalation"}
OF_WRITES: Final = {"stale-state", "read-after-write-failure", "duplicate-action", "compensation"}


def series(name: str, values: str, *, instance: str = "a") -> dict[str, str]:
    """One input series; `name` may end in further labels."""
    bare, _, more = name.partition("{")
    own = more.rstrip("}")
    labels = ",".join(part for part in (GROUP, own, f'instance="{instance}",job="j"') if part)
    return {"series": f"readback_{bare}{{{labels}}}", "values": values}


def rising(step: int) -> str:
    return f"0+{step}x{MINUTES}"


def twice(name: str, step: int) -> list[dict[str, str]]:
    """The same series from two processes that export one ledger."""
    return [series(name, rising(step), instance=instance) for instance in ("a", "b")]


def promtool(folder: Path, tests: list[dict[str, Any]]) -> None:
    """Run `promtool test rules` over these tests. A YAML file may be JSON."""
    write_files(folder)
    suite = {"rule_files": [RULES_FILE], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yml").write_text(json.dumps(suite), encoding="utf-8")
    ran = subprocess.run(
        [PROMTOOL, "test", "rules", "tests.yml"], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def expected(rule: str, value: float | None, labels: str = GROUP, at: str = AT) -> dict[str, Any]:
    samples = [] if value is None else [{"labels": f"{rule}{{{labels}}}", "value": value}]
    return {"expr": rule, "eval_time": at, "exp_samples": samples}


def rule_of(metric: str) -> str:
    return next(one.rule for one in METRICS if one.id == metric)


def test_the_rule_file_is_valid(tmp_path: Path) -> None:
    write_files(tmp_path)
    ran = subprocess.run(
        [PROMTOOL, "check", "rules", tmp_path / RULES_FILE], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(METRICS) + 1 + len(ALERTS)} rules found" in ran.stdout


@pytest.mark.parametrize("metric", sorted(RATIOS))
def test_a_ratio_is_a_half_where_half_of_them_count(metric: str, tmp_path: Path) -> None:
    """Two processes export the ledger, and the ratio counts each action once."""
    over, under = RATIOS[metric]
    given = [*twice(over, 2), *twice(under, 4)]
    if metric in OF_ACTIONS:
        given += [series('executed_total{kind="saga"}', rising(7)), series(over.replace('"set"', '"saga"'), rising(7))]
    if metric in OF_WRITES:
        given.append(series('executed_total{kind="read"}', rising(7)))
    promtool(
        tmp_path,
        [{"interval": "1m", "input_series": given, "promql_expr_test": [expected(rule_of(metric), 0.5)]}],
    )


@pytest.mark.parametrize("metric", sorted(RATIOS))
def test_a_ratio_without_a_case_is_zero_and_without_actions_is_absent(metric: str, tmp_path: Path) -> None:
    _, under = RATIOS[metric]
    none = {"interval": "1m", "input_series": twice(under, 4), "promql_expr_test": [expected(rule_of(metric), 0)]}
    idle = {"interval": "1m", "input_series": twice(under, 0), "promql_expr_test": [expected(rule_of(metric), None)]}
    promtool(tmp_path, [none, idle])


@pytest.mark.requirement("METRIC-discrepancy")
def test_the_discrepancy_rate_is_of_the_decided_actions(tmp_path: Path) -> None:
    given = [series(f'verifications_total{{verdict="{v}",kind="set"}}', rising(n)) for v, n in
             (("verified", 3), ("refuted", 1), ("undetermined", 50))]  # fmt: skip
    promtool(
        tmp_path,
        [{"interval": "1m", "input_series": given, "promql_expr_test": [expected(rule_of("discrepancy"), 0.25)]}],
    )


@pytest.mark.requirement("METRIC-pending-too-long")
def test_the_pending_rate_is_of_the_present_moment(tmp_path: Path) -> None:
    given = [
        {
            **series(f'pending_actions{{over_sla="{over}",kind="{kind}"}}', f"{n}x{MINUTES}"),
        }
        for over, kind, n in (("true", "set", 2), ("false", "set", 5), ("false", "read", 1))
    ]
    promtool(
        tmp_path,
        [{"interval": "1m", "input_series": given, "promql_expr_test": [expected(rule_of("pending-too-long"), 0.25)]}],
    )


@pytest.mark.requirement("METRIC-verification-latency", "METRIC-time-to-reconcile")
@pytest.mark.parametrize(
    ("metric", "name"), [("verification-latency", "verification"), ("time-to-reconcile", "reconcile")]
)
def test_a_percentile_comes_from_the_buckets(metric: str, name: str, tmp_path: Path) -> None:
    """All durations lie between two and a half and five seconds: the 95th percentile lies at 95 % of that bucket."""
    buckets = {"1": 0, "2.5": 0, "5": 4, "10": 4, "+Inf": 4}
    given = [series(f'{name}_seconds_bucket{{le="{le}",kind="set"}}', rising(n)) for le, n in buckets.items()]
    promtool(
        tmp_path,
        [{"interval": "1m", "input_series": given, "promql_expr_test": [expected(rule_of(metric), 2.5 + 0.95 * 2.5)]}],
    )


@pytest.mark.requirement("METRIC-verifier-regression")
def test_the_regression_compares_the_two_newest_versions(tmp_path: Path) -> None:
    """A quarter is refuted under the current version, none under the previous, all under one before."""
    counts = {("1", "refuted"): 40, ("2", "verified"): 40, ("3", "verified"): 30, ("3", "undetermined"): 10}
    given = [
        series(f'version_verdicts_total{{version="{version}",verdict="{verdict}"}}', f"{n}x{MINUTES}")
        for (version, verdict), n in counts.items()
    ]
    given += [series('version_verdicts_total{version="2",verdict="refuted"}', f"0x{MINUTES}")]
    given += [
        series(f'contract_version{{version="{version}",age="{age}"}}', f"1x{MINUTES}")
        for version, age in (("3", "current"), ("2", "previous"))
    ]
    few = [{**one, "values": f"3x{MINUTES}"} if "version_verdicts" in one["series"] else one for one in given]
    rule = rule_of("verifier-regression")
    promtool(
        tmp_path,
        [
            {"interval": "1m", "input_series": given, "promql_expr_test": [expected(rule, 0.25)]},
            {"interval": "1m", "input_series": few, "promql_expr_test": [expected(rule, None)]},
        ],
    )


def test_every_metric_has_a_rule_under_test_here() -> None:
    singly = {"discrepancy", "pending-too-long", "verification-latency", "time-to-reconcile", "verifier-regression"}
    assert set(RATIOS) | singly == {one.id for one in METRICS}


# --- alerts -------------------------------------------------------------------------------------------------

Inputs = list[dict[str, str]]


def recorded(metric: str, value: float) -> Inputs:
    """A recorded ratio, with enough executed actions."""
    return [
        {"series": f"{rule_of(metric)}{{{GROUP}}}", "values": f"{value}x{MINUTES}"},
        {"series": f"{VOLUME_RULE}{{{GROUP}}}", "values": f"100x{MINUTES}"},
    ]


def few(metric: str, value: float) -> Inputs:
    """The same, with too few executed actions to judge."""
    return [recorded(metric, value)[0], {"series": f"{VOLUME_RULE}{{{GROUP}}}", "values": f"19x{MINUTES}"}]


HERE: Final = [series("ledger_position", f"5x{MINUTES}")]
RATIO_ALERTS: Final = {
    "ReadbackVerificationSuccessLow": ("verification-success", 0.89, 0.91),
    "ReadbackVerificationFailureHigh": ("verification-failure", 0.06, 0.05),
    "ReadbackReadAfterWriteFailing": ("read-after-write-failure", 0.06, 0.05),
    "ReadbackDiscrepancyHigh": ("discrepancy", 0.06, 0.05),
    "ReadbackStaleStateHigh": ("stale-state", 0.06, 0.05),
    "ReadbackPartialFailureHigh": ("partial-failure", 0.03, 0.02),
    "ReadbackUnknownStateHigh": ("unknown-state", 0.03, 0.02),
    "ReadbackCompensationHigh": ("compensation", 0.06, 0.05),
    "ReadbackEscalationHigh": ("human-escalation", 0.11, 0.1),
}
"""Alerts on a ratio with enough actions: the ratio, a firing value, a silent value."""
SINGLE_ALERTS: Final = {
    "ReadbackFalseSuccess": ("false-success-escape", 0.001, 0),
    "ReadbackDuplicateEffect": ("duplicate-action", 0.001, 0),
    "ReadbackCompensationFailed": ("compensation-failure", 0.001, 0),
    "ReadbackVerificationSlow": ("verification-latency", 61, 60),
    "ReadbackReconcileSlow": ("time-to-reconcile", 601, 600),
    "ReadbackPendingTooLong": ("pending-too-long", 0.1, 0),
    "ReadbackIdempotencyRecoveryLow": ("idempotency-recovery", 0.89, 0.9),
    "ReadbackCompensationSuccessLow": ("compensation-success", 0.94, 0.95),
    "ReadbackLedgerIncomplete": ("ledger-completeness", 0.99, 1),
    "ReadbackVerifierRegression": ("verifier-regression", 0.06, 0.05),
}
"""Alerts on one case, whatever the number of actions."""
CAUSE_ALERTS: Final[dict[str, tuple[Inputs, Inputs]]] = {
    "ReadbackWrongTarget": (
        [series('discrepancies_total{class="wrong_target_modified",kind="set"}', rising(1))],
        [series('discrepancies_total{class="value_mismatch",kind="set"}', rising(1))],
    ),
    "ReadbackIncidentOpened": (
        [series('incidents_total{severity="high"}', rising(1))],
        [series('incidents_total{severity="high"}', f"7x{MINUTES}")],
    ),
    "ReadbackSourceFailing": (
        [
            series('read_faults_total{source="bank",fault="timeout"}', rising(2)),
            series('reads_total{source="bank"}', rising(10)),
        ],
        [
            series('read_faults_total{source="bank",fault="timeout"}', rising(1)),
            series('reads_total{source="bank"}', rising(10)),
        ],
    ),
    "ReadbackReadingOutOfScope": (
        [series('reads_out_of_scope_total{source="bank"}', rising(1))],
        [series('reads_out_of_scope_total{source="bank"}', f"0x{MINUTES}")],
    ),
    "ReadbackMetricsAbsent": ([series("actions_total", rising(1))], []),
}


def firing(name: str, at: str = AT) -> str:
    return f'ALERTS{{alertname="{name}",alertstate="firing"}}'


def case(name: str, given: Inputs, *, fires: bool, at: str = AT) -> dict[str, Any]:
    """A test that an alert fires, or does not, at a moment."""
    count = f"count({firing(name)}) or vector(0)"
    here = [] if name == "ReadbackMetricsAbsent" and fires else HERE
    wanted = {"expr": count, "eval_time": at, "exp_samples": [{"labels": "{}", "value": int(fires)}]}
    return {"interval": "1m", "input_series": [*given, *here], "promql_expr_test": [wanted]}


@pytest.mark.parametrize("name", sorted(RATIO_ALERTS))
def test_an_alert_on_a_ratio_fires_over_its_limit_and_not_for_a_handful(name: str, tmp_path: Path) -> None:
    metric, loud, silent = RATIO_ALERTS[name]
    promtool(
        tmp_path,
        [
            case(name, recorded(metric, loud), fires=True),
            case(name, recorded(metric, silent), fires=False),
            case(name, few(metric, loud), fires=False),
            case(name, recorded(metric, loud), fires=False, at="5m"),
        ],
    )


@pytest.mark.parametrize("name", sorted(SINGLE_ALERTS))
def test_an_alert_on_a_single_case_fires_for_a_handful_too(name: str, tmp_path: Path) -> None:
    metric, loud, silent = SINGLE_ALERTS[name]
    promtool(
        tmp_path,
        [
            case(name, recorded(metric, loud), fires=True),
            case(name, few(metric, loud), fires=True),
            case(name, recorded(metric, silent), fires=False),
        ],
    )


@pytest.mark.parametrize("name", sorted(CAUSE_ALERTS))
def test_an_alert_on_a_cause_fires_for_that_cause_alone(name: str, tmp_path: Path) -> None:
    loud, silent = CAUSE_ALERTS[name]
    promtool(tmp_path, [case(name, loud, fires=True), case(name, silent, fires=False)])


def test_every_alert_is_tested_and_belongs_to_its_metric() -> None:
    named = {alert.name for alert in ALERTS}
    assert {*RATIO_ALERTS, *SINGLE_ALERTS, *CAUSE_ALERTS} == named
    assert {one.alert for one in METRICS} <= named
    for one in METRICS:
        assert one.rule in next(alert.expr for alert in ALERTS if alert.name == one.alert)


def test_the_dashboard_file_is_the_dashboard(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert json.loads((tmp_path / DASHBOARD_FILE).read_text(encoding="utf-8")) == dashboard()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"][side] for side in ("x", "y")) for panel in panels]
    assert len(set(places)) == len(places)
    titles = {panel["title"] for panel in panels}
    assert {one.title for one in METRICS} <= titles
