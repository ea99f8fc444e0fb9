"""`readback report`: a final report of an agent against the ledger, and the citations for one. It changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from readback.cli import options
from readback.cli.sessions import reading, settings_of
from readback.cli.terminal import BAD, OK, console, mark, note, print_json, safe
from readback.domain.grounding.report import REPORT_MAX_BYTES, ReportCheck, ReportFault
from readback.errors import OversizeError, UsageError

FAULTS_SHOWN_MAX: Final = 40
LINE_MAX_CHARACTERS: Final = 400

_FILE: Final = click.argument("file", metavar="FILE")
_RUN: Final = click.option("--run", "run_id", metavar="ID", help="Only actions of this run count.")


@click.group("report")
def report() -> None:
    """Check what an agent reports in the end: every citation, and everything that it declares as done.

    A citation is [readback:ACTION:PLACE:SHA256]. What stands under a heading `## Done`, is ticked (`- [x]`) or begins
    with `Done:` is declared as done, and has to cite.
    """


@report.command("check", short_help="Every citation, and what is declared as done.")
@_FILE
@_RUN
@click.option("--every", is_flag=True, help="All that is not under `## Open` has to cite, not only what is declared.")
@options.ledger
@options.as_json
def check(
    file: str,
    run_id: str | None,
    every: bool,
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
) -> int:
    """Check a report, a file or - for stdin: does each citation resolve to a claim that stands and to its evidence, and
    does everything that is declared as done cite?

    Exit code 0: it passed; 1: it did not; 3: nothing is wrong with it but what cannot be told: an action is pending or
    undetermined, or its evidence is gone; 2: the report cannot be read, or is too large.
    """
    from readback.client.client import Readback

    text = _text(file)
    with reading(settings_of(url, tenant, principal)) as session:
        found = Readback(session).check_report(text, run_id, every=every)
    if as_json:
        print_json(found.as_json())
    else:
        _tell(found)
    return found.exit_code


@report.command("guard", short_help="The report, or the honest text in its place.")
@_FILE
@click.option("--run", "run_id", metavar="ID", required=True, help="The run that the report is of.")
@options.ledger
@options.as_json
def guard(file: str, run_id: str, url: str | None, tenant: str | None, principal: str | None, as_json: bool) -> int:
    """Print the report (a file, or - for stdin) if everything in it cites that is not under `## Open` and each citation
    resolves; else what is known of the run, in the words of the reporting vocabulary, and end with exit code 1.
    """
    from readback.client.client import Readback

    text = _text(file)
    with reading(settings_of(url, tenant, principal)) as session:
        told = Readback(session).guard_report(text, run_id)
    if as_json:
        print_json({"passed": told == text, "text": told})
    else:
        sys.stdout.write(told if told.endswith("\n") else told + "\n")
    if told == text:
        return 0
    note("The report was not passed on; `readback report check --every` says why.")
    return 1


@report.command("cite", short_help="A citation of what an action is verified by.")
@click.argument("action", metavar="ID")
@click.argument("place", required=False, default="")
@options.ledger
@options.as_json
def cite(action: str, place: str, url: str | None, tenant: str | None, principal: str | None, as_json: bool) -> int:
    """Print a citation of an action: of a field of its authoritative state (a JSON pointer, as /status), of a span of
    bytes (0-120), or of the whole. What is not verified, or does not stand any more, cannot be cited.
    """
    from readback.client.client import Readback

    with reading(settings_of(url, tenant, principal)) as session:
        cited = Readback(session).get(action).cite(place)
    if as_json:
        print_json({"citation": cited})
    else:
        print(cited)
    return 0


def _text(file: str) -> str:
    """The report as it was told, line ends and all. Raises UsageError, OversizeError."""
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
        note("Next: do not pass this report on; `readback report guard` gives the honest text in its place.")
    elif not found.declared:
        note("Nothing in it is declared as done, so nothing of it is confirmed; --every asks for more.")


def _line(fault: ReportFault) -> str:
    return safe(f"{fault.fault.value}  line {fault.line}  {fault.message}  {fault.cited}", LINE_MAX_CHARACTERS)
