"""The shipped files for Prometheus and Grafana: recording rules, alerts and a dashboard.

Called by `readback metrics --rules DIR`. The files are made from `METRICS` and `ALERTS`, so an expression exists once.
Each alert has a paragraph in docs/runbooks.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from readback.canon.frozen import dataclass
from readback.errors import SettingsError
from readback.telemetry.metrics import METRICS, Metric

WINDOW: Final = "1h"
"""The time range of the recorded ratios."""
EXECUTED_MIN: Final = 20
"""Fewest executed actions in the time range for an alert on a ratio."""
RULES_FILE: Final = "readback.rules.yml"
DASHBOARD_FILE: Final = "readback.dashboard.json"
VOLUME_RULE: Final = "readback:executed:increase"
RUNBOOKS: Final = "runbooks.html"
_ONE: Final = "max without (instance, pod, job)"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `hold`: how long the condition must hold. `text` is the summary for people."""

    name: str
    expr: str
    hold: str
    severity: str
    text: str


def _ratio(metric: str, condition: str) -> str:
    rule = next(one.rule for one in METRICS if one.id == metric)
    return f"{rule} {condition} and on (ledger, contract) {VOLUME_RULE} >= {EXECUTED_MIN}"


def _any(metric: str, condition: str = "> 0") -> str:
    return f"{next(one.rule for one in METRICS if one.id == metric)} {condition}"


_ON: Final = "of {{ $labels.contract }}"
_SHARE: Final = "{{ $value | humanizePercentage }}"

ALERTS: Final = (
    Alert(
        "ReadbackFalseSuccess",
        _any("false-success-escape"),
        "0m",
        "critical",
        f"An action {_ON} was reported as done, and is not verified.",
    ),
    Alert(
        "ReadbackDuplicateEffect",
        _any("duplicate-action"),
        "0m",
        "critical",
        f"An operation {_ON} has more than one effect.",
    ),
    Alert(
        "ReadbackWrongTarget",
        "sum by (ledger, contract) "
        f'({_ONE} (increase(readback_discrepancies_total{{class="wrong_target_modified"}}[{WINDOW}]))) > 0',
        "0m",
        "critical",
        f"An action {_ON} changed another object than intended.",
    ),
    Alert(
        "ReadbackCompensationFailed",
        _any("compensation-failure"),
        "0m",
        "critical",
        f"A reversal {_ON} failed. The effect is still there.",
    ),
    Alert(
        "ReadbackIncidentOpened",
        f"sum by (ledger, contract, severity) ({_ONE} (increase(readback_incidents_total[{WINDOW}]))) > 0",
        "0m",
        "critical",
        f"An incident of severity {{{{ $labels.severity }}}} {_ON} is on record.",
    ),
    Alert(
        "ReadbackVerificationSuccessLow",
        _ratio("verification-success", "< 0.9"),
        "10m",
        "warning",
        f"Only {_SHARE} of the actions {_ON} are verified.",
    ),
    Alert(
        "ReadbackVerificationFailureHigh",
        _ratio("verification-failure", "> 0.05"),
        "10m",
        "warning",
        f"{_SHARE} of the actions {_ON} are refuted.",
    ),
    Alert(
        "ReadbackVerificationSlow",
        _any("verification-latency", "> 60"),
        "15m",
        "warning",
        f"One verdict in twenty {_ON} takes more than a minute.",
    ),
    Alert(
        "ReadbackReconcileSlow",
        _any("time-to-reconcile", "> 600"),
        "15m",
        "warning",
        f"One action in twenty {_ON} takes more than ten minutes to its end.",
    ),
    Alert(
        "ReadbackReadAfterWriteFailing",
        _ratio("read-after-write-failure", "> 0.05"),
        "10m",
        "warning",
        f"{_SHARE} of the writes {_ON} have a failed or stale reading.",
    ),
    Alert(
        "ReadbackDiscrepancyHigh",
        _ratio("discrepancy", "> 0.05"),
        "10m",
        "warning",
        f"{_SHARE} of the verdicts {_ON} show a difference from the intent.",
    ),
    Alert(
        "ReadbackStaleStateHigh",
        _ratio("stale-state", "> 0.05"),
        "10m",
        "warning",
        f"{_SHARE} of the writes {_ON} met a concurrent change.",
    ),
    Alert(
        "ReadbackPartialFailureHigh",
        _ratio("partial-failure", "> 0.02"),
        "10m",
        "warning",
        f"{_SHARE} of the actions {_ON} have some of their effects only.",
    ),
    Alert(
        "ReadbackPendingTooLong",
        _any("pending-too-long", "> 0"),
        "15m",
        "warning",
        f"{_SHARE} of the pending actions {_ON} are past their window.",
    ),
    Alert(
        "ReadbackUnknownStateHigh",
        _ratio("unknown-state", "> 0.02"),
        "10m",
        "warning",
        f"{_SHARE} of the actions {_ON} are unknown.",
    ),
    Alert(
        "ReadbackIdempotencyRecoveryLow",
        _any("idempotency-recovery", "< 0.9"),
        "15m",
        "warning",
        f"Only {_SHARE} of the repeated dispatches {_ON} ended well.",
    ),
    Alert(
        "ReadbackCompensationHigh",
        _ratio("compensation", "> 0.05"),
        "15m",
        "warning",
        f"{_SHARE} of the writes {_ON} are reversed.",
    ),
    Alert(
        "ReadbackCompensationSuccessLow",
        _any("compensation-success", "< 0.95"),
        "30m",
        "warning",
        f"Only {_SHARE} of the reversals {_ON} are verified.",
    ),
    Alert(
        "ReadbackEscalationHigh",
        _ratio("human-escalation", "> 0.1"),
        "15m",
        "warning",
        f"{_SHARE} of the actions {_ON} need a person.",
    ),
    Alert(
        "ReadbackLedgerIncomplete",
        _any("ledger-completeness", "< 1"),
        "0m",
        "warning",
        f"Only {_SHARE} of the records {_ON} are complete.",
    ),
    Alert(
        "ReadbackVerifierRegression",
        _any("verifier-regression", "> 0.05"),
        "0m",
        "warning",
        f"The share of unverified actions {_ON} rose by {_SHARE} with the current version.",
    ),
    Alert(
        "ReadbackSourceFailing",
        f"sum by (ledger, source) ({_ONE} (rate(readback_read_faults_total[{WINDOW}])))"
        f" / (sum by (ledger, source) ({_ONE} (rate(readback_reads_total[{WINDOW}]))) > 0) > 0.1",
        "10m",
        "warning",
        f"{_SHARE} of the readings of {{{{ $labels.source }}}} fail.",
    ),
    Alert(
        "ReadbackReadingOutOfScope",
        f"sum by (ledger, source) ({_ONE} (increase(readback_reads_out_of_scope_total[{WINDOW}]))) > 0",
        "0m",
        "critical",
        "A reading of {{ $labels.source }} returned a record of another tenant or target.",
    ),
    Alert(
        "ReadbackMetricsAbsent",
        "absent(readback_ledger_position)",
        "5m",
        "critical",
        "No process exports the metrics of a ledger.",
    ),
)
"""The shipped alerts: an alert for each metric, and five further alerts for causes."""


def rules_text() -> str:
    """Return the recording rules and the alerts, as one rule file of Prometheus in YAML."""
    return "".join(_rule_lines())


def _rule_lines() -> Iterator[str]:
    yield "# Rules and alerts of Readback, made by `readback metrics --rules`. docs/runbooks.md explains each alert.\n"
    yield "groups:\n  - name: readback\n    interval: 30s\n    rules:\n"
    volume = f"sum by (ledger, contract) ({_ONE} (increase(readback_executed_total[{WINDOW}])))"
    for name, expr in ((VOLUME_RULE, volume), *((one.rule, one.expression(WINDOW)) for one in METRICS)):
        yield f"      - record: {_text(name)}\n        expr: {_text(expr)}\n"
    yield "  - name: readback-alerts\n    interval: 30s\n    rules:\n"
    for alert in ALERTS:
        yield f"      - alert: {alert.name}\n        expr: {_text(alert.expr)}\n        for: {alert.hold}\n"
        yield f"        labels:\n          severity: {alert.severity}\n"
        yield f"        annotations:\n          summary: {_text(alert.text)}\n"
        yield f"          runbook: {_text(f'{RUNBOOKS}#{alert.name.lower()}')}\n"


def _text(value: str) -> str:
    return json.dumps(value)  # a JSON string is a YAML string


# --- the dashboard ------------------------------------------------------------------------------------------

_CHOSEN: Final = '{ledger=~"$ledger",contract=~"$contract"}'
_STATE_PANELS: Final = (
    ("Executed actions per second", f"sum by (contract) ({_ONE} (rate(readback_executed_total{_CHOSEN}[5m])))", "ops"),
    ("Actions by state", f"sum by (state) ({_ONE} (readback_actions_by_state{_CHOSEN}))", "short"),
    (
        "Discrepancies by class",
        f"sum by (class) ({_ONE} (increase(readback_discrepancies_total{_CHOSEN}[1h])))",
        "short",
    ),
    ("Reviews by reason", f"sum by (reason) ({_ONE} (increase(readback_reviews_total{_CHOSEN}[1h])))", "short"),
    (
        "Failed readings by source",
        f'sum by (source, fault) ({_ONE} (increase(readback_read_faults_total{{ledger=~"$ledger"}}[1h])))',
        "short",
    ),
    (
        "Reading time by source, 95th percentile",
        "histogram_quantile(0.95, sum by (source, le) "
        f'({_ONE} (rate(readback_read_seconds_bucket{{ledger=~"$ledger"}}[5m]))))',
        "s",
    ),
    ("Oldest pending action", f"max by (contract) (readback_oldest_pending_seconds{_CHOSEN})", "s"),
    ("Incidents by severity", f"sum by (severity) ({_ONE} (increase(readback_incidents_total{_CHOSEN}[1h])))", "short"),
)
WIDTH, HEIGHT, COLUMNS = 8, 7, 3


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON model: one panel for each metric, and one for each cause."""
    panels: list[dict[str, Any]] = []
    for metric in METRICS:
        panels.append(_panel(len(panels), metric.title, metric.rule + _CHOSEN, _unit(metric), metric.text))
    for title, expr, unit in _STATE_PANELS:
        panels.append(_panel(len(panels), title, expr, unit, ""))
    return {
        "uid": "readback",
        "title": "Readback: action verification",
        "tags": ["readback"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), _variable("ledger"), _variable("contract")]},
        "panels": panels,
    }


def _unit(metric: Metric) -> str:
    return "s" if metric.rule.endswith(":p95") else "percentunit"


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _variable(label: str) -> dict[str, Any]:
    return {
        "name": label,
        "type": "query",
        "label": label,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": f"label_values(readback_actions_total, {label})", "refId": label},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, title: str, expr: str, unit: str, text: str) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    place = {"x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "description": text,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0 if unit != "percentunit" else None}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [{"refId": "A", "datasource": source, "expr": expr, "legendFormat": "__auto"}],
    }


def write_files(folder: Path) -> list[Path]:
    """Write the rule file and the dashboard to a folder. Return their paths. Raises SettingsError."""
    texts = {RULES_FILE: rules_text(), DASHBOARD_FILE: json.dumps(dashboard(), indent=2) + "\n"}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"The files cannot be written to {folder}: {error.strerror}.", remedy="Choose another folder."
        ) from error
    return [folder / name for name in texts]
