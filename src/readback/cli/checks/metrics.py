"""`readback metrics`: the metrics of a ledger, once; and the shipped rules, alerts and dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from readback import bootstrap
from readback.audit.feedback.tally import Spread
from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.operations.tenants import Served
from readback.config import Settings
from readback.errors import MetricsLabelError
from readback.telemetry import fold_checkpoint
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.metrics import METRICS, PREFIX, US, Family
from readback.telemetry.prometheus import exposition
from readback.telemetry.prometheus_files import write_files


def labels_option(command: Any) -> Any:
    """Labels of the exported series."""
    for option in (
        click.option("--tenant-label", "by_tenant", is_flag=True, help="Label each series with the tenant."),
        click.option(
            "--label",
            "labels",
            metavar="NAME=VALUE",
            multiple=True,
            help="A constant label of each series, such as environment=production; may be repeated.",
        ),
    ):
        command = option(command)
    return command


@click.command("metrics")
@click.option(
    "--rules",
    "folder",
    metavar="DIR",
    help="Write recording rules, alerts and a dashboard for Prometheus and Grafana to a folder, and exit.",
)
@click.option("--all-tenants", is_flag=True, help="Count the actions of every tenant.")
@click.option("--no-checkpoint", "fresh", is_flag=True, help="Fold the whole ledger, and keep no checkpoint.")
@labels_option
@options.ledger
@options.as_json
def metrics(
    folder: str | None,
    all_tenants: bool,
    fresh: bool,
    labels: tuple[str, ...],
    by_tenant: bool,
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
) -> int:
    """Print the metrics of a ledger in the text format of Prometheus.

    The command folds the entries since the last checkpoint, and keeps a checkpoint beside the ledger. With --json the
    answer has all series, and the nineteen metrics of each contract over the whole ledger. `readback worker
    --metrics-port` serves the same series to Prometheus.
    """
    if folder is not None:
        for path in write_files(Path(folder)):
            note(f"Wrote {safe(path)}.")
        return 0
    settings = settings_of(url, tenant, principal)
    served = Served.of((tenant,) if tenant is not None else (), settings.tenant, everybody=all_tenants)
    store = bootstrap.store(settings.url, read_only=True)
    try:
        reader = reader_of(settings, store, served, labels, by_tenant=by_tenant, fresh=fresh)
        found = reader.families()
        if as_json:
            print_json(_described(found, reader))
        else:
            print(exposition(found), end="")
        reader.save()
    finally:
        store.close()
    return 0


def reader_of(
    settings: Settings, store: Any, served: Served, labels: tuple[str, ...], *, by_tenant: bool, fresh: bool = False
) -> LedgerMetrics:
    """Return the metrics of an open ledger. Raises MetricsLabelError."""
    path = None
    if not fresh:
        path = fold_checkpoint.path_of(settings.url, store, served.tenants, by_tenant=by_tenant)
    return LedgerMetrics(
        store,
        bootstrap.runtime().now_us,
        tenants=served.tenants,
        by_tenant=by_tenant,
        labels=parse_labels(labels),
        checkpoint=path,
    )


def parse_labels(given: tuple[str, ...]) -> dict[str, str]:
    """Return labels given as NAME=VALUE. Raises MetricsLabelError."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise MetricsLabelError(f"A label is NAME=VALUE, and {each!r:.80} has no value.")
        if name in found:
            raise MetricsLabelError(f"The label {name!r:.80} is given twice.", remedy="Pass each label once.")
        found[name] = value
    return found


def _described(found: list[Family], reader: LedgerMetrics) -> dict[str, Json]:
    fold, by_id = reader.refresh(), reader.measured()
    series: list[Json] = [
        {"name": PREFIX + family.series.name, "type": family.series.kind, "labels": {**labels}, "value": _value(value)}
        for family in found
        for labels, value in family.samples
    ]
    table: list[Json] = []
    for one in METRICS:
        contracts: dict[str, Json] = {
            name: {"over": each.over, "under": each.under, "value": each.value} for name, each in by_id[one.id].items()
        }
        table.append({"id": one.id, "title": one.title, "formula": one.formula, "contracts": contracts})
    return {"position": fold.position, "entries": fold.feedback.entries, "metrics": table, "series": series}


def _value(value: int | float | Spread) -> Json:
    if not isinstance(value, Spread):
        return value
    buckets: dict[str, Json] = {f"{bound_us / US:g}": count for bound_us, count in value.below()}
    return {"count": value.count, "sum": value.total_us / US, "buckets": buckets}
