"""`readback report`: check a final report against the ledger, print citations, and write a page. Changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from readback.cli import options
from readback.cli.sessions import reading
from readback.cli.terminal import BAD, OK, console, mark, note, print_json, safe
from readback.config import Settings
from readback.domain.grounding.report import REPORT_MAX_BYTES, ReportCheck, ReportFault
from readback.errors import OversizeError, UsageError

FAULTS_SHOWN_MAX: Final = 40
LINE_MAX_CHARACTERS: Final = 400

_FILE: Final = click.argument("file", metavar="FILE")
_RUN: Final = click.option("--run", "run_id", metavar="ID", help="Count only actions of this run.")


@click.group("report")
def report() -> None:
    """Check an agent's final report: every citation, and every declared result.

    A citation is [readback:ACTION:PLACE:SHA256]. Text under a heading `## Done`, ticked text (`- [x]`) and text after
    `Done:` is declared as done and must cite.
    """


@report.command("check", short_help="Check every citation and every declared result.")
@_FILE
@_RUN
@click.option(
    "--every",
    is_flag=True,
    help="Require a citation for everything outside `## Open`, not only for declared results.",
)
@options.settings
@options.as_json
def check(
    file: str,
    run_id: str | None,
    every: bool,
    settings: Settings,
    as_json: bool,
) -> int:
    """Check a report (a file, or - for stdin). Each citation must resolve to a standing claim and to evidence, and
    every declared result must cite.

    Exit code 0: passed; 1: failed; 3: no fault, but an action is pending or undetermined, or evidence is gone; 2: the
    report cannot be read or is too large.
    """
    from readback.client.client import Readback

    text = _text(file)
    with reading(settings) as session:
        found = Readback(session).check_report(text, run_id, every=every)
    if as_json:
        print_json(found.as_json())
    else:
        _tell(found)
    return found.exit_code


@report.command("guard", short_help="Print the report, or an honest text instead.")
@_FILE
@click.option("--run", "run_id", metavar="ID", required=True, help="The run of the report.")
@options.settings
@options.as_json
def guard(file: str, run_id: str, settings: Settings, as_json: bool) -> int:
    """Print the report (a file, or - for stdin) if all text outside `## Open` cites and every citation resolves.
    Otherwise print the known facts of the run in the reporting vocabulary, with exit code 1.
    """
    from readback.client.client import Readback

    text = _text(file)
    with reading(settings) as session:
        told = Readback(session).guard_report(text, run_id)
    if as_json:
        print_json({"passed": told == text, "text": told})
    else:
        sys.stdout.write(told if told.endswith("\n") else told + "\n")
    if told == text:
        return 0
    note("The report was not passed on; `readback report check --every` says why.")
    return 1


@report.command("cite", short_help="Print a citation of an action's verification.")
@click.argument("action", metavar="ID")
@click.argument("place", required=False, default="")
@options.settings
@options.as_json
def cite(action: str, place: str, settings: Settings, as_json: bool) -> int:
    """Print a citation of an action: of a field of the authoritative state (a JSON pointer such as /status), of a span
    of bytes (0-120), or of the whole. An action that is unverified or no longer verified cannot be cited.
    """
    from readback.client.client import Readback

    with reading(settings) as session:
        cited = Readback(session).get(action).cite(place)
    if as_json:
        print_json({"citation": cited})
    else:
        print(cited)
    return 0


@report.command("html", short_help="Write a page about an action or a run.")
@click.argument("action", metavar="[ID]", required=False, default="")
@click.option("--run", "run_id", metavar="ID", default="", help="The actions of this run, in place of one action.")
@click.option("-o", "--out", metavar="FILE", required=True, help="The file to write; - for stdout.")
@options.settings
def html(action: str, run_id: str, out: str, settings: Settings) -> int:
    """Write one HTML file about an action, a saga or a run. The file holds no script and needs no network.

    The file names the signed head that covers the entries, and holds a proof of each action's last entry. ID is as in
    `readback show`.
    """
    if bool(action) == bool(run_id):
        raise UsageError("Neither an action nor a run is named, or both are.", remedy="Pass ID, or --run ID.")
    from readback.cli.optional_deps import of_extra

    with of_extra("server", "A report in HTML"):
        from readback.server.console import report as pages

    with reading(settings) as session:
        made = pages.report_of_action(session, action) if action else pages.report_of_run(session, run_id)
    if out == "-":
        sys.stdout.write(made)
        return 0
    from readback import bootstrap

    page = made.encode("utf-8", "backslashreplace")
    bootstrap.keep_file(Path(out), page, private=True)  # the page quotes answers of tools
    note(f"Wrote {len(page)} bytes to {safe(out)}.")
    return 0


def _text(file: str) -> str:
    """The report unchanged, including line ends. Raises UsageError, OversizeError."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read(REPORT_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(REPORT_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{safe(file)} cannot be read: {safe(str(error))}.", remedy="Name the report's file, or - for stdin."
        ) from error
    if len(data) > REPORT_MAX_BYTES:
        raise OversizeError(f"The report is over {REPORT_MAX_BYTES} bytes.", remedy="Report in several parts.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{safe(file)} is no UTF-8.", remedy="Write the report as UTF-8.") from error


def _tell(found: ReportCheck) -> None:
    from rich.text import Text

    out = console()
    for each in found.faults[:FAULTS_SHOWN_MAX]:
        out.print(Text.assemble(mark(BAD), " ", _line(each)), soft_wrap=True)
    left = found.faults_total - min(len(found.faults), FAULTS_SHOWN_MAX)
    if left > 0:
        out.print(Text(f"  and {left} more; --json lists {len(found.faults)} of them"))
    verdict = Text.assemble(mark(OK if found.passed else BAD), " ", ("passed" if found.passed else "failed", "bold"))
    figures = f": {found.citations} citations of {found.actions} actions, {found.declared} declared as done"
    out.print(Text.assemble(verdict, figures))
    if not found.passed:
        note("Next: do not pass this report on; `readback report guard` prints an honest text instead.")
    elif not found.declared:
        note("The report declares no result, so nothing is confirmed; --every demands more.")


def _line(fault: ReportFault) -> str:
    return safe(f"{fault.fault.value}  line {fault.line}  {fault.message}  {fault.cited}", LINE_MAX_CHARACTERS)
