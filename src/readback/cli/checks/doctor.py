"""`readback doctor`: check this installation. The command changes nothing in the working folder."""

from __future__ import annotations

from typing import Final

import click

from readback.canon import Json, ReadbackError
from readback.cli import options
from readback.cli.checks.doctor_checks import EXAMINATIONS, Examination, Finding, quality
from readback.cli.failures import headline, problem_lines
from readback.cli.sessions import settings_of
from readback.cli.terminal import BAD, OK, OPEN, console, mark, print_json, safe
from readback.config import Settings
from readback.domain.state import EXIT_FAILED, worst_exit

MARKS: Final = {"ok": OK, "warning": OPEN, "fault": BAD}


@click.command("doctor")
@click.option("--strict", is_flag=True, help="Treat warnings as faults (exit code 1).")
@options.contracts
@options.ledger
@options.table
@options.as_json
def doctor(
    strict: bool,
    modules: tuple[str, ...],
    url: str | None,
    tenant: str | None,
    principal: str | None,
    table: str | None,
    as_json: bool,
) -> int:
    """Check this installation: Python, settings, clock, expressions, store, contracts, and pending work in the ledger.

    The command also reads the tenant's newest entries and names unreliable contracts, tools and sources, with reasons.
    Exit code 0 without a fault; warnings count only with --strict. Test writes use a temporary folder.
    """
    settings = settings_of(url, tenant, principal, modules, table)
    findings = examine(settings)
    code = worst_exit(finding.exit_code for finding in findings if finding.level == "fault")
    sound = code == 0
    if strict and any(finding.level == "warning" for finding in findings):
        code = worst_exit([code, EXIT_FAILED])
    if as_json:
        print_json({"sound": sound, "findings": [_described(finding) for finding in findings], "exit_code": code})
    else:
        _tell(findings)
    return code


def examine(settings: Settings) -> list[Finding]:
    """Run every check, regardless of earlier results."""
    found: list[Finding] = []
    for name, examination in {**EXAMINATIONS, "quality": quality}.items():
        found += _made(name, examination, settings)
    return found


def _made(name: str, examination: Examination, settings: Settings) -> list[Finding]:
    """Run one check. An error becomes the finding."""
    found: list[Finding] = []
    try:
        found.extend(examination(settings))
    except ReadbackError as error:
        problems = problem_lines(error)
        said = f"{headline(error)} {'; '.join(problems)}" if problems else error.message
        details: dict[str, Json] = {"code": error.code}
        found.append(Finding(name, "fault", said, error.remedy, error.exit_code, details))
    except OSError as error:
        found.append(Finding(name, "fault", f"{type(error).__name__}: {error}", "Correct the rights or the disk.", 6))
    except ImportError as error:
        found.append(Finding(name, "fault", f"{error}", "Install Readback again with every dependency.", 5))
    return found


def _described(finding: Finding) -> dict[str, Json]:
    return {
        "name": finding.name,
        "level": finding.level,
        "said": finding.said,
        "remedy": finding.remedy,
        "exit_code": finding.exit_code,
        "details": finding.details,
    }


def _tell(findings: list[Finding]) -> None:
    from rich.text import Text

    out = console()
    for finding in findings:
        line = Text.assemble(mark(MARKS[finding.level]), " ", (f"{finding.name:<15}", "bold"), safe(finding.said, 2000))
        out.print(line, soft_wrap=True)
        if finding.remedy and finding.level != "ok":
            out.print(Text(f"  {'':<15}Next: {safe(finding.remedy)}"), soft_wrap=True)
    faults = sum(finding.level == "fault" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    word = "This installation is sound." if not faults else f"{faults} faults."
    out.print(Text(f"{word} {warnings} warnings." if warnings else word, style="bold"))
