"""`readback gates check`, `replay` and `diff`: run the gates, print the result, and write the reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from readback import __version__, bootstrap
from readback.assurance.reports.document import document_bytes, document_of
from readback.assurance.results import GATES, NOT_RUN, Finding, GatesReport, Standing
from readback.assurance.review.acknowledgements import load_acknowledgements, proposed_file
from readback.assurance.run import run_gates
from readback.canon import Json
from readback.cli import options
from readback.cli.gates.inputs import Named, examined, input_of
from readback.cli.gc_tuning import READING, undisturbed
from readback.cli.sessions import settings_of, working
from readback.cli.terminal import BAD, NONE, OK, OPEN, console, mark, note, print_json, safe, value
from readback.client.recovery_table import table_in_force
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.errors import UsageError

if TYPE_CHECKING:
    from readback.client.client import Readback

F = TypeVar("F", bound=Callable[..., Any])
FORMATS: Final = ("text", "json", "junit", "sarif", "github")
SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
ACTIONS_SHOWN_MAX: Final = 5
LINE_MAX_CHARACTERS: Final = 900
RESULT: Final = "result.json"
RECORD_BUNDLE: Final = "record.bundle.json"
OF_THE_RELEASE: Final = frozenset({"ledger-schema", "false-success", "unknown-state"})
"""Gates of the installed release, with or without contracts."""
_SIGNS: Final = {Standing.PASSED: OK, Standing.FAILED: BAD, Standing.ERROR: BAD, Standing.UNDETERMINED: OPEN}


def _reporting(command: F) -> F:
    """The options of the reports, and of the examined logic."""
    for option in (
        options.as_json,
        click.option("--out", metavar="FOLDER", help="Write result.json and the other reports into this folder."),
        click.option(
            "--format",
            "formats",
            metavar="NAME,...",
            default="text",
            help=f"Reports, separated by commas: {', '.join(FORMATS)}. `github` writes the job summary, too.",
        ),
        click.option(
            "--acknowledge",
            "acknowledge",
            metavar="FILE",
            multiple=True,
            help="A file of acknowledged changes (YAML or JSON); may be repeated.",
        ),
    ):
        command = option(command)
    return click.argument("files", metavar="[FILE]...", nargs=-1)(examined(command))


@click.command("check", short_help="Run all gates and write the reports.")
@_reporting
@click.option("--only", metavar="GATE,...", default="", help=f"Only these gates: {', '.join(GATES)}.")
@click.option("--url", metavar="URL", help="The ledger that records the result (READBACK_URL).")
@click.option("--no-record", is_flag=True, help="Do not record the result in a ledger. `promote` then refuses it.")
def check(only: str, url: str | None, no_record: bool, **given: Any) -> int:
    """Run the release gates on candidate contracts and a candidate table, and compare with the incumbent.

    \b
    FILE, --contracts and --table: the logic as it is to be.
    --against: the logic in force, as a git ref, a folder, a file or a ledger.
    --history: recorded actions, as a ledger or as a folder of `gates capture`.

    With --out the result is written to FOLDER/result.json, and the ledger records this write as a verified action.
    Missing acknowledgements are proposed in FOLDER/acknowledgements.yaml, with empty reasons.

    \b
    Exit code 0: passed; 1: failed; 2: bad input; 3: undetermined; 5: a contract
    or the verifier has a fault.
    """
    return _run(_listed("--only", only, GATES), url, records=not no_record, **given)


@click.command("replay", short_help="Judge recorded actions again (gate 1).")
@_reporting
def replay(**given: Any) -> int:
    """Judge recorded actions again with candidate contracts and a candidate table. List every changed result.

    A changed verdict, class, row or state fails without an acknowledgement. A change to `verified` needs an
    acknowledgement that names each action. Exit code 0: passed; 1: failed; 3: undetermined.
    """
    return _run(("trace-replay",), None, records=False, **given)


@click.command("diff", short_help="Show changed predicates and affected actions (gate 2).")
@_reporting
def diff(**given: Any) -> int:
    """Compare candidate contracts and table with the incumbent, term by term.

    Each change is stricter, looser or other. A change without a proof counts as looser. Each changed postcondition
    lists the recorded actions with another truth. Looser and other changes fail without an acknowledgement.
    Exit code 0: passed; 1: failed; 3: undetermined.
    """
    return _run(("predicate-diff",), None, records=False, **given)


@click.command("inject", short_help="Inject faults into each contract (gate 4).")
@_reporting
def inject(**given: Any) -> int:
    """Inject every fault into each contract, in simulated worlds. No tool and no source is called.

    \b
    The faults: a stale read that denies, a stale read that confirms, a timeout
    before and after the commit, a duplicate, a wrong tenant, a partial commit, a
    source outage, a broken verifier. Each must end in the class and the words of
    the specification.

    A contract without a world is undetermined. State worlds with --worlds FILE, or as SimulatedWorld or SandboxWorld
    in a contract module. Exit code 0: passed; 1: a contract has a hole, named in the result; 3: undetermined.
    """
    return _run(("failure-injection",), None, records=False, **given)


@click.command("drill", short_help="Execute and verify each recovery on sandboxes (gate 5).")
@_reporting
def drill(**given: Any) -> int:
    """Execute rollback, compensation, forward recovery and escalation of each contract, and verify the end.

    A rollback and a compensation run on the declared twin of a SandboxWorld. Forward recovery and escalation run in a
    simulated world, too. A recovery table with a row below the floor fails.

    Exit code 0: executed and verified; 1: a recovery failed; 3: a world or a sandbox is missing.
    """
    return _run(("recovery-drill",), None, records=False, **given)


@click.command("schema", short_help="Read earlier ledgers, and new entries by an earlier release (gate 6).")
@_reporting
def schema(**given: Any) -> int:
    """Compare the ledger's schema with the last release's. Open, verify and replay earlier ledgers and bundles.

    A difference needs a declaration with a reason. A kept reader verifies and replays new entries in a process of its
    own. --history is replayed, too. No contracts are needed.

    Exit code 0: compatible; 1: an undeclared change, or a kept file that cannot be read; 3: a record is damaged.
    """
    return _run(("ledger-schema",), None, records=False, **given)


@click.command("false-success", short_help="Test that no surface tells completion early (gate 7).")
@_reporting
def guard(**given: Any) -> int:
    """Run a lying tool, an unreadable source and a late effect behind each surface of this installation.

    The surfaces: the sync and async client, the command line, the kit, the gateway, the HTTP server, the hooks, and
    each framework's adapter. A surface without its extra is listed as not run. No contracts are needed.

    Exit code 0: held on each installed surface; 1: a surface told completion too early; 3: a surface could not be run.
    """
    return _run(("false-success",), None, records=False, **given)


@click.command("unknown", short_help="Test that an unknown blocks a second mutation (gate 8).")
@_reporting
def unknown(**given: Any) -> int:
    """Repeat an operation with an unknown result on each surface. The tool must not run a second time.

    Afterwards the source answers, and a reading settles the result. On most surfaces a person also decides about
    another operation, and only then the operation runs again. No contracts are needed.

    Exit code 0: blocked on each installed surface; 1: a surface repeated a call; 3: a surface could not be run.
    """
    return _run(("unknown-state",), None, records=False, **given)


def _listed(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    named = tuple(each.strip() for each in text.split(",") if each.strip())
    for each in named:
        if each not in known:
            raise UsageError(f"{option} does not know {safe(each)}.", remedy=f"Use {', '.join(known)}.")
    return named


def _run(
    only: tuple[str, ...],
    url: str | None,
    *,
    records: bool,
    formats: str,
    out: str | None,
    acknowledge: tuple[str, ...],
    as_json: bool,
    files: tuple[str, ...],
    modules: tuple[str, ...],
    **given: Any,
) -> int:
    """Run the named gates, print the result, and write the reports. Return the exit code."""
    wanted = _listed("--format", formats, FORMATS)
    named = Named(contracts=(*modules, *files), **given)
    examined_logic = input_of(named, bare=bool(only) and frozenset(only) <= OF_THE_RELEASE)
    folder = None if out is None else Path(out)
    if folder is not None and os.path.lexists(folder):
        _make(folder)  # a file of this name is told before the gates run
    acknowledged = load_acknowledgements(acknowledge, examined_logic.candidate, examined_logic.incumbent)
    with undisturbed(READING):
        report = run_gates(
            examined_logic,
            acknowledged,
            only,
            lambda gate: note(f"{gate} ...") if sys.stderr.isatty() and not as_json else None,
            package=__version__,
        )
    document = document_of(report, named.as_json())
    if folder is not None:
        given_files = frozenset(map(os.path.realpath, acknowledge))
        _write(folder, report, document, wanted, (url, records), given_files, as_json=as_json)
    _print(report, document, wanted, as_json=as_json)
    return report.standing.exit_code


def _make(folder: Path) -> None:
    """Make the folder of the reports. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        said = f"The folder {safe(folder)} cannot be made: {safe(str(error))}."
        raise UsageError(said, remedy="Name another folder with --out.") from error


# --- files ---------------------------------------------------------------------------------------------------------


def _write(
    folder: Path,
    report: GatesReport,
    document: dict[str, Json],
    wanted: tuple[str, ...],
    ledger: tuple[str | None, bool],
    acknowledged: frozenset[str],
    *,
    as_json: bool,
) -> None:
    content = document_bytes(document)
    url, records = ledger
    _make(folder)
    bootstrap.keep_file(folder / RESULT, content)  # first: a ledger that fails loses no result
    made = _reports(report, wanted)
    proposed = proposed_file(each for gate in report.gates for each in gate.findings)
    if proposed:
        # A file of --acknowledge holds a person's reasons, and the proposals hold the missing ones alone.
        names = chain(["acknowledgements.yaml"], (f"acknowledgements-{number}.yaml" for number in count(2)))
        made[next(each for each in names if os.path.realpath(folder / each) not in acknowledged)] = proposed.encode()
    for name, data in made.items():
        bootstrap.keep_file(folder / name, data)
    if records:
        _record(url, report, str(document["sha256"]), content, folder)
    if not as_json:
        note(f"Reports: {', '.join(str(folder / each) for each in (RESULT, *made))}.")


def _reports(report: GatesReport, wanted: tuple[str, ...]) -> dict[str, bytes]:
    from readback.assurance.reports.github import summary
    from readback.assurance.reports.junit import junit_xml
    from readback.assurance.reports.sarif import sarif_json

    made: dict[str, bytes] = {}
    if "junit" in wanted:
        made["junit.xml"] = junit_xml(report)
    if "sarif" in wanted:
        made["readback.sarif"] = sarif_json(report)
    if "github" in wanted:
        made["summary.md"] = summary(report).encode()
    return made


def _record(url: str | None, report: GatesReport, sha256: str, content: bytes, folder: Path) -> None:
    """Write the result as a verified action of the ledger, and seal the log where there is a key."""
    from readback.assurance.recording import record

    with recording_client(url) as client:
        outcome = record(client, report, sha256, content, folder)
    note(f"Recorded as {outcome.id}: {outcome.state.value}.")
    if not outcome.verified:
        note("The record is not verified, so `readback gates promote` refuses this result.")
        return
    bootstrap.keep_file(folder / RECORD_BUNDLE, _record_bundle(url, outcome.id), private=True)


@contextmanager
def recording_client(url: str | None) -> Iterator[Readback]:
    """The client of the ledger that records results."""
    from readback.client.client import Readback

    with working(settings_of(url), None) as session:
        yield Readback(session)


def _record_bundle(url: str | None, action_id: str) -> bytes:
    """Return the record as a bundle. With a key of the log, seal the log and add the signed proof of the last entry."""
    from readback.assurance.history.capture import bundle_of
    from readback.cli.ledger.log import proof_now

    settings = settings_of(url)
    tables = (DEFAULT_TABLE, table_in_force(None, settings))
    store = bootstrap.store(settings.url)
    try:
        proof = None
        if settings.signing_key_file:
            proof = proof_now(store, store.events(action_id)[-1], None, lambda *_: None).to_bytes()
        return bundle_of(store, settings.tenant, action_id, tables, proof)
    finally:
        store.close()


# --- words ---------------------------------------------------------------------------------------------------------


def _print(report: GatesReport, document: dict[str, Json], wanted: tuple[str, ...], *, as_json: bool) -> None:
    if as_json or wanted == ("json",):
        print_json(document)
    elif "text" in wanted or "json" in wanted:
        tell(report)
    if "github" in wanted:
        _github(report, quiet=as_json)


def _github(report: GatesReport, *, quiet: bool) -> None:
    from readback.assurance.reports.github import summary, workflow_commands

    place = os.environ.get(SUMMARY_VARIABLE)
    if place:
        with open(place, "a", encoding="utf-8") as opened:
            opened.write(summary(report))
    for line in () if quiet else workflow_commands(report):
        print(line)


def tell(report: GatesReport) -> None:
    """Print the gates with their findings, the open ones in full."""
    from rich.text import Text

    out = console()
    for gate in report.gates:
        passed = sum(each.standing is Standing.PASSED for each in gate.findings)
        head = f"{gate.gate}: {gate.standing.value} ({passed} of {len(gate.findings)} passed)"
        out.print(Text.assemble(mark(_SIGNS[gate.standing]), " ", (head, "bold")))
        for finding in gate.findings:
            for line in _lines(finding):
                out.print(Text(line), soft_wrap=True)
        missing = [name.removeprefix(NOT_RUN) for name in gate.counts if name.startswith(NOT_RUN)]
        if missing:
            out.print(Text(safe(f"  not run (not installed, or not applicable): {', '.join(missing)}")), soft_wrap=True)
    sign = mark(_SIGNS[report.standing]) if report.gates else mark(NONE)
    out.print(Text.assemble(sign, " ", (f"Release gates: {report.standing.value}", "bold")))


def _lines(finding: Finding) -> Iterator[str]:
    place = "" if finding.place is None else f"{finding.place.path}:{finding.place.line}:{finding.place.column}: "
    named = f"{finding.contract}: " if finding.contract else ""
    yield safe(f"  {finding.standing.value}: {place}{named}{finding.message} [{finding.code}]", LINE_MAX_CHARACTERS)
    if finding.standing is not Standing.PASSED and finding.actions:
        shown = ", ".join(finding.actions[:ACTIONS_SHOWN_MAX])
        more = len(finding.actions) - ACTIONS_SHOWN_MAX
        yield safe(f"      actions: {shown}{f', and {more} more' if more > 0 else ''}", LINE_MAX_CHARACTERS)
    yield from _states(finding)


def _states(finding: Finding) -> Iterator[str]:
    """The states with another truth: found by trial, and recorded."""
    for name, words in (("state_gained", "now true of"), ("state_lost", "no longer true of")):
        state = finding.detail.get(name)
        if state is not None:
            yield safe(f"      {words}: {value(state)}", LINE_MAX_CHARACTERS)
    listed = finding.detail.get("counterexamples")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            then, now = each["recorded"], each["replayed"]
            said = f"      {each['action']}: {then} then, {now} now, of {value(each['values'])}"
            yield safe(said, LINE_MAX_CHARACTERS)
