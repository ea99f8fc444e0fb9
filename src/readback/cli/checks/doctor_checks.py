"""The checks of `readback doctor`. Each examines one part, changes nothing, and returns a finding.

Test writes use a temporary folder. A check that cannot run is a fault, too.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from readback import bootstrap
from readback.audit.feedback.findings import Poor, feedback_json, poor_in
from readback.audit.feedback.fold import Fold
from readback.audit.feedback.tally import Feedback
from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.cli.checks.distribution import NAME, unrelated
from readback.cli.sessions import load_contracts
from readback.cli.terminal import moment, safe, span
from readback.cli.version import versions
from readback.client.recovery_table import table_in_force
from readback.config import Settings, shown
from readback.domain.side_effect import SideEffect, depth
from readback.errors import SettingsError, StoreError
from readback.log.tree import leaf_hash
from readback.ports.storage.store import ActionFilter, Append, Appended, LedgerStore, Projection, SealedEvent
from readback.telemetry.fold_reader import ContractWindows
from readback.telemetry.health import Health, health_json, health_of

PYTHON_MIN: Final = (3, 11)
COMMITS_TIMED: Final = 20
SLOW_COMMIT_US: Final = 50_000
EPOCH_MIN_US: Final = 1_735_689_600_000_000
"""1 January 2025. An earlier clock is wrong."""
CLOCK_BACK_MAX_US: Final = 60_000_000
OVERDUE_US: Final = 60_000_000
FAULTS_IN_A_ROW: Final = min(depth(one).repeated_mismatch_limit for one in SideEffect)
DUE_COUNTED_MAX: Final = 10_000
SAMPLE_EXPRESSION: Final = "authoritative.status == 'ok' && authoritative.n > 1"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `level`: ok, warning or fault. Only a fault sets the exit code."""

    name: str
    level: str
    said: str
    remedy: str = ""
    exit_code: int = 0
    details: dict[str, Json] = field(default_factory=dict)


Examination = Callable[[Settings], Iterator[Finding]]


def python(settings: Settings) -> Iterator[Finding]:
    """The interpreter and the required packages."""
    found = versions()
    if sys.version_info[:2] < PYTHON_MIN:
        yield Finding("python", "fault", f"Python {found['python']} is too old.", "Use Python 3.11 or later.", 5)
    else:
        yield Finding("python", "ok", f"Python {found['python']}, Readback {found['readback']}")


def configuration(settings: Settings) -> Iterator[Finding]:
    """The active settings."""
    said = f"{safe(shown(settings.url))}, tenant {safe(settings.tenant)}, principal {safe(settings.principal)}"
    yield Finding("settings", "ok", said)
    if settings.ignored_file:
        remedy = "Pin its SHA-256 in the user's own config.toml under [trusted], or remove it."
        yield Finding("settings", "warning", f"{safe(settings.ignored_file)} is not pinned and does not count.", remedy)


def recovery_table(settings: Settings) -> Iterator[Finding]:
    """The active table and the default table are total and respect the floor."""
    table = table_in_force(None, settings)
    table.check()
    whose = safe(settings.recovery_table) if settings.recovery_table else "the default"
    yield Finding("recovery table", "ok", f"{whose}: total, version {table.version[:12]}")


def expressions(settings: Settings) -> Iterator[Finding]:
    """The expression engine compiles and evaluates, and refuses non-boolean results."""
    engine = bootstrap.predicate_engine()
    predicate = engine.compile(SAMPLE_EXPRESSION)
    said = predicate.evaluate(engine.bind({"authoritative": {"status": "ok", "n": 2}}))
    if said.kind == "value" and said.value is True:
        yield Finding("expressions", "ok", "compiled and evaluated")
    else:
        yield Finding("expressions", "fault", f"A true expression gave {said}.", "Install Readback again.", 5)


def writing(settings: Settings) -> Iterator[Finding]:
    """A test ledger in a temporary folder opens and keeps acknowledged writes. Measures the commit time."""
    clock = bootstrap.runtime()
    with tempfile.TemporaryDirectory(prefix="readback-doctor-") as folder:
        store = bootstrap.store(f"sqlite:///{quote(folder)}/doctor.db")
        try:
            before = clock.now_us()
            for number in range(COMMITS_TIMED):
                result = store.append([_sample(number, clock.now_us())])[0]
                if not isinstance(result, Appended):
                    yield Finding("store", "fault", "A first append was refused.", "Please report this.", 6)
                    return
            each_us = (clock.now_us() - before) // COMMITS_TIMED
            kept = sum(1 for _ in store.scan())
            damaged = bootstrap.store_damage(store)
        finally:
            store.close()
    if kept != COMMITS_TIMED or damaged:
        yield Finding("store", "fault", f"Of {COMMITS_TIMED} entries {kept} were stored.", "Check the disk.", 6)
        return
    details: dict[str, Json] = {"commit_us": each_us, "folder": tempfile.gettempdir()}
    said = f"SQLite {versions()['sqlite']}; a durable commit takes {span(each_us)} in {safe(tempfile.gettempdir())}"
    if each_us > SLOW_COMMIT_US:
        yield Finding("store", "warning", f"{said}: that is slow.", "Put the ledger on a local disk.", 0, details)
    else:
        yield Finding("store", "ok", said, details=details)


def _sample(number: int, at_us: int) -> Append:
    name, envelope = f"doctor{number}", b'{"n":%d}' % number
    texts = dict.fromkeys(
        ("principal", "run", "contract", "contract_version", "contract_hash", "kind", "side_effect", "target"), ""
    )
    more = dict.fromkeys(("operation", "hold", "verdict", "discrepancy", "row", "lease_owner"), "")
    projection = Projection(
        action_id=name,
        tenant="doctor",
        key_hash=sha256_hex(envelope),
        stamp=name,
        state="proposed",
        created_us=at_us,
        updated_us=at_us,
        due_us=None,
        lease_until_us=0,
        **texts,
        **more,
    )
    return Append(name, "doctor", 0, 0, (SealedEvent("proposed", at_us, envelope, leaf_hash(envelope)),), projection)


def clock(settings: Settings) -> Iterator[Finding]:
    """The clock moves forward and shows a plausible date."""
    runtime = bootstrap.runtime()
    first, second = runtime.now_us(), runtime.now_us()
    if first < EPOCH_MIN_US or second < first:
        yield Finding("clock", "fault", f"The clock says {moment(first)}.", "Set the machine's clock.", 5)
    else:
        yield Finding("clock", "ok", moment(first))


def distributions(settings: Settings) -> Iterator[Finding]:
    """No other project's distribution of the same name is installed."""
    said = unrelated()
    if said:
        yield Finding("distribution", "fault", said, f"pip uninstall readback; pip install {NAME}", 5)
    else:
        yield Finding("distribution", "ok", f"{NAME}, and no other distribution of that name")


def contracts(settings: Settings) -> Iterator[Finding]:
    """All named contracts load."""
    if not settings.contracts:
        yield Finding("contracts", "ok", "no contracts are named; pass --contracts or set READBACK_CONTRACTS")
        return
    registry = load_contracts(settings, needed=True)
    assert registry is not None
    names: list[Json] = [*sorted(registry)]
    yield Finding("contracts", "ok", f"{len(names)} load: {safe(', '.join(map(str, names)))}", details={"names": names})
    for name, plan in registry.load().items():
        if plan.contract.assumed:
            lines: list[Json] = [*plan.contract.assumed]
            said = f"{safe(name)} rests on assumptions: {safe('; '.join(plan.contract.assumed))}"
            yield Finding("assumptions", "ok", said, details={"contract": name, "assumed": lines})


def ledger(settings: Settings) -> Iterator[Finding]:
    """The ledger of the settings: the file and the pending work. A missing ledger is not created."""
    path = file_of(settings.url)
    if path is not None and not path.exists():
        yield from _place_for(path)
        return
    if path is not None:
        yield from _rights(path)
    try:
        store = bootstrap.store(settings.url, read_only=True)
    except StoreError as error:
        if error.code != "store.absent":
            raise
        yield Finding(
            "ledger", "ok", f"{safe(shown(settings.url))} has no ledger yet; the first action creates the ledger"
        )
        return
    try:
        yield Finding("ledger", "ok", f"{safe(shown(settings.url))} opens, with the schema of this release")
        yield from _clock_against(store)
        yield from _waiting(store, settings)
        yield from _leases(store)
        yield from _counters(store, settings)
    finally:
        store.close()


def file_of(url: str) -> Path | None:
    """The ledger's file, or None if the URL names no file."""
    prefix = "sqlite:///"
    return Path(unquote(url.removeprefix(prefix))).absolute() if url.startswith(prefix) else None


def _place_for(path: Path) -> Iterator[Finding]:
    if not path.parent.is_dir():
        error = f"The folder {safe(path.parent)} does not exist."
        yield Finding("ledger", "fault", error, "Create the folder, or give another --url.", 6)
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        error = f"The folder {safe(path.parent)} cannot be written by this user."
        yield Finding("ledger", "fault", error, "Give the user the right to write there, or give another --url.", 6)
    else:
        yield Finding("ledger", "ok", f"{safe(path)} does not exist yet; the first action creates the folder")


def _rights(path: Path) -> Iterator[Finding]:
    mode = path.stat().st_mode
    if not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        said = f"{safe(path)} or its folder cannot be written by this user."
        yield Finding("permissions", "fault", said, "Give the user the right to read and write both.", 6)
    elif mode & (stat.S_IRWXG | stat.S_IRWXO):
        said = f"{safe(path)} has mode {stat.S_IMODE(mode):03o}: others may read or write it."
        yield Finding("permissions", "warning", said, f"Run: chmod 600 {safe(path)}")
    else:
        yield Finding("permissions", "ok", f"mode {stat.S_IMODE(mode):03o}")


def _clock_against(store: LedgerStore) -> Iterator[Finding]:
    """Entries from the future show a wrong clock on this or another machine."""
    newest = store.page(ActionFilter(limit=1))
    now_us = bootstrap.runtime().now_us()
    if newest and newest[0].projection.updated_us > now_us + CLOCK_BACK_MAX_US:
        at = moment(newest[0].projection.updated_us)
        yield Finding(
            "clock", "warning", f"The ledger has entries of {at}, later than the current time.", "Check clocks."
        )


def _waiting(store: LedgerStore, settings: Settings) -> Iterator[Finding]:
    now_us = bootstrap.runtime().now_us()
    due = store.due(now_us, DUE_COUNTED_MAX)
    overdue = store.due(now_us - OVERDUE_US, DUE_COUNTED_MAX)
    next_us = store.next_due_us()
    details: dict[str, Json] = {"due": len(due), "overdue": len(overdue), "next_due_us": next_us}
    if overdue:
        said = f"{len(overdue)} actions have been due for more than {span(OVERDUE_US)}, and no worker processes them."
        yield Finding("work", "warning", said, "Run `readback resume` or a `readback worker`.", 0, details)
    else:
        coming = f", the next at {moment(next_us)}" if next_us is not None else ""
        yield Finding("work", "ok", f"{len(due)} actions are due{coming}", details=details)


def _leases(store: LedgerStore) -> Iterator[Finding]:
    runtime = bootstrap.runtime()
    owners = store.owners()
    gone = [owner for owner in owners if runtime.is_owner_dead(owner)]
    details: dict[str, Json] = {"owners": [*owners], "gone": [*gone]}
    if gone:
        said = f"{len(gone)} dead processes still hold leases."
        yield Finding("leases", "warning", said, "Run `readback resume` to continue their work.", 0, details)
    else:
        yield Finding("leases", "ok", f"{len(owners)} processes hold leases", details=details)


def _counters(store: LedgerStore, settings: Settings) -> Iterator[Finding]:
    counts = store.counts(settings.tenant)
    details: dict[str, Json] = {"counts": [[subject, name, value] for subject, name, value in counts]}
    failing = [count for count in counts if count[2] >= FAULTS_IN_A_ROW]
    for subject, name, value in failing:
        said = f"{safe(subject)}: {value} times {name.replace('_', ' ')} in a row"
        yield Finding("counters", "warning", said, "Check this reader or contract: `readback list`.", 0, details)
    if not failing:
        yield Finding("counters", "ok", "no contract and no source keeps failing", details=details)


EXAMINATIONS: Final[dict[str, Examination]] = {
    "python": python,
    "settings": configuration,
    "recovery table": recovery_table,
    "clock": clock,
    "expressions": expressions,
    "store": writing,
    "distribution": distributions,
    "contracts": contracts,
    "ledger": ledger,
}


# The examination of `readback doctor` that reads the ledger's entries: which contracts cannot verify well, and why.

ENTRIES_MAX: Final = 200_000
"""Number of newest log entries to read."""


def quality(settings: Settings) -> Iterator[Finding]:
    """Findings about contracts, tools and sources from the ledger's entries."""
    path = file_of(settings.url)
    if path is not None and not path.exists():
        return
    try:
        store = bootstrap.store(settings.url, read_only=True)
    except (SettingsError, StoreError):
        return  # the examination of the ledger names it
    try:
        fold = Fold((settings.tenant,))
        fold.take(store.scan(_from(store)))
        windows, now_us = ContractWindows(store), bootstrap.runtime().now_us()
        health = health_of(fold, lambda name: windows.is_over(fold.pending()[name], now_us))
    finally:
        store.close()
    poor = poor_in(fold.feedback)
    for one in poor:
        yield _finding(one)
    yield _summary(fold.feedback, len(poor))
    yield from _health(health)


HEALTH_LINES_MAX: Final = 20
"""Most lines about contracts, tools and sources. The details of `--json` have all."""


def _health(health: Health) -> Iterator[Finding]:
    """Stuck actions, then one line for each contract, tool and source."""
    if health.stuck:
        oldest = health.stuck[0]
        since = f"{safe(oldest.contract)} {oldest.action} is {oldest.state} since {moment(oldest.since_us)}"
        said = f"{health.stuck_count} actions wait for a person or a reading: {since}"
        stuck = health_json(health)["stuck"]
        remedy = "Run `readback review list`, and a `readback worker`."
        yield Finding("stuck", "warning", said, remedy, 0, {"count": health.stuck_count, "stuck": stuck})
    lines = [("contract", name, _contract_line(one), one) for name, one in health.contracts.items()]
    lines += [("tool", name, _tool_line(one), one) for name, one in health.tools.items()]
    lines += [("source", name, _source_line(one), one) for name, one in health.sources.items()]
    for number, (kind, name, said, details) in enumerate(lines):
        if number == HEALTH_LINES_MAX:
            yield Finding("health", "ok", f"{len(lines) - number} more; `readback metrics --json` has all")
            return
        yield Finding("health", "ok", f"{kind} {safe(name)}: {said}", details={"kind": kind, "name": name, **details})


def _contract_line(one: dict[str, Json]) -> str:
    return (
        f"{one['verified']} of {one['executed']} verified, false success {_percent(one['false_success_rate'])}, "
        f"unknown {_percent(one['unknown_rate'])}, verdict within {_latency(one['verification_us'])}, last verified "
        f"{_at(one['last_verified_us'])}, {one['verifier_errors']} verifier errors"
    )


def _tool_line(one: dict[str, Json]) -> str:
    return (
        f"{one['calls']} calls, false success {_percent(one['false_success_rate'])}, no answer "
        f"{_percent(one['unknown_rate'])}, answer within {_latency(one['took_us'])}"
    )


def _source_line(one: dict[str, Json]) -> str:
    return (
        f"{one['readings']} readings, {one['verifier_errors']} failed, reading within {_latency(one['took_us'])}, last "
        f"good reading {_at(one['last_read_us'])}"
    )


def _percent(share: Json) -> str:
    return f"{share:.1%}" if isinstance(share, int | float) else "-"


def _latency(spread: Json) -> str:
    """The median and the 95th percentile; "-" without durations."""
    if not isinstance(spread, dict) or not spread.get("count"):
        return "-"
    half, most = spread["p50"], spread["p95"]
    if not isinstance(half, int) or not isinstance(most, int):
        return "-"
    return f"{span(half)} (half) and {span(most)} (95 %)"


def _at(at_us: Json) -> str:
    return moment(at_us) if isinstance(at_us, int) else "-"


def _from(store: LedgerStore) -> int:
    """The sequence number after which entries are read."""
    return max(0, store.last_seq() - ENTRIES_MAX)


def _finding(one: Poor) -> Finding:
    details: dict[str, Json] = {
        "kind": one.kind,
        "name": one.name,
        "code": one.code,
        "count": one.count,
        "of": one.of,
        "contracts": [*one.contracts],
    }
    touched = "" if one.kind != "source" else f"; it weakens {safe(', '.join(one.contracts))}"
    said = f"{one.kind} {safe(one.name)}: {safe(one.said, 400)}{touched}"
    return Finding("quality", "warning", said, one.remedy, 0, details)


def _summary(feedback: Feedback, poor: int) -> Finding:
    executed = sum(one.executed for one in feedback.contracts.values())
    verified = sum(one.verified for one in feedback.contracts.values())
    said = f"{len(feedback.contracts)} contracts, {executed} executed actions, {verified} verified"
    if not poor:
        said += "; no contract with enough actions verifies poorly"
    return Finding("quality", "ok", said, details={"feedback": feedback_json(feedback)})
