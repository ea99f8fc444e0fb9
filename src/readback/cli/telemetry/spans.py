"""`readback telemetry spans`: show the spans of one action, or export spans to a tracing backend.

`readback worker --otlp` uses the same export beside its work.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import reading, working
from readback.cli.terminal import console, note, print_json, safe, span
from readback.client.session import Session
from readback.config import Settings
from readback.errors import TelemetryError, UsageError
from readback.telemetry.projector import Projector
from readback.telemetry.projector_follow import Followed, SpanFollower
from readback.telemetry.spans import Span

F = TypeVar("F", bound=Callable[..., Any])
FROM_ENVIRONMENT: Final = "env"
"""The value of `--otlp` without an address: the environment variables of OpenTelemetry name the address."""


def otlp(command: F) -> F:
    """The receiver of spans."""
    return click.option(
        "--otlp",
        metavar="[ENDPOINT]",
        is_flag=False,
        flag_value=FROM_ENVIRONMENT,
        help="Export spans over OTLP/HTTP, for example to http://127.0.0.1:4318. Without an address: the "
        "OTEL_EXPORTER_OTLP_* variables.",
    )(command)


@click.group("telemetry")
def telemetry() -> None:
    """Traces of actions, made from the ledger. No action waits for an export."""


@telemetry.command("spans", short_help="Show the spans of an action, or export spans.")
@click.argument("action", metavar="[ID]", required=False)
@otlp
@click.option("--follow", is_flag=True, help="Export until stopped, instead of once. Needs --otlp.")
@click.option("--from-start", is_flag=True, help="Begin a new export at the first entry, not at the end of the log.")
@click.option("--payloads", is_flag=True, help="Include arguments and results, as redacted by the contract.")
@options.settings
@options.as_json
def spans(
    action: str | None,
    otlp: str | None,
    follow: bool,
    from_start: bool,
    payloads: bool,
    settings: Settings,
    as_json: bool,
) -> int:
    """Show the spans of one action, or export the spans of every action since the last export.

    ID is an id, a stamp, the first letters of an id (4 or more), or `last`. Spans follow from the ledger alone. With
    --otlp the position in the log is kept in the ledger, so a later export continues there.
    """
    if (action is None) == (otlp is None) or (follow and otlp is None):
        raise UsageError("Name one action, or export with --otlp.", remedy="Example: readback telemetry spans last.")
    if action is not None:
        from readback.views.action import abbreviated

        with reading(settings) as session:
            found = Projector(session.store, payloads=payloads).of_action(abbreviated(session, action))
        _show(found, as_json=as_json)
        return 0
    with working(settings, None, new=False) as session:
        follower = _follower(session, otlp or "", from_start=from_start, payloads=payloads)
        done = _followed(follower) if follow else _once(follower)
    if as_json:
        print_json(_counts(done))
    else:
        note(f"Exported {done.spans} spans of {done.entries} entries, up to entry {done.position}.")
        if not done.entries and not from_start:
            note("A new export begins at the end of the log. For earlier actions: add --from-start.")
    return 0


@contextmanager
def exporting(session: Session, otlp: str | None) -> Iterator[SpanFollower | None]:
    """Export spans beside other work. A fault of the export is one warning, and the work continues."""
    if otlp is None:
        yield None
        return
    try:
        follower = _follower(session, otlp)
    except TelemetryError as error:
        warned(error)
        yield None
        return
    with follower:
        yield follower


def warned(error: TelemetryError) -> None:
    """Print one warning, with its code and the next step."""
    note(f"Warning [{error.code}]: {safe(error.message)} Next: {safe(error.remedy)}")


def _follower(session: Session, otlp: str, *, from_start: bool = False, payloads: bool = False) -> SpanFollower:
    from readback.telemetry.projector_otlp import SdkReceiver

    receiver = SdkReceiver.otlp("" if otlp == FROM_ENVIRONMENT else otlp)
    return SpanFollower(session.store, session.runtime, receiver, from_start=from_start, payloads=payloads, warn=warned)


def _once(follower: SpanFollower) -> Followed:
    try:
        follower.enrol()
        follower.round()
    finally:
        follower.close()
    return follower.done


def _followed(follower: SpanFollower) -> Followed:
    """Follow until a signal."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        follower.enrol()
        with follower:
            note("Exporting spans. Stop with Ctrl-C.")
            stopped.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return follower.done


def _counts(done: Followed) -> dict[str, Json]:
    return {
        "entries": done.entries,
        "spans": done.spans,
        "damaged": done.damaged,
        "refused": done.refused,
        "position": done.position,
    }


def _show(found: list[Span], *, as_json: bool) -> None:
    if as_json:
        print_json([each.as_json() for each in found])
        return
    from rich.table import Table

    table = Table("span", "took", "status", "id", "parent", box=None, pad_edge=False)
    for each in found:
        status = "error" if each.error else "unset"
        took = span(each.end_us - each.start_us)
        table.add_row(safe(each.name), took, status, each.span_id, each.parent_id or "-")
    console().print(table)
    note(f"Trace {found[0].trace_id}. --json prints every attribute, event and link.")
