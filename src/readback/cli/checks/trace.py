"""`readback trace verify`: check a reasoning trace against plan and evidence. No ledger is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from readback.cli import options
from readback.cli.terminal import BAD, NONE, OK, console, mark, note, print_json, safe
from readback.decisions.interop.run_folder import RunFolder, read_given
from readback.domain.state import EXIT_FAILED
from readback.traces import (
    DEFAULT_POLICY,
    Failure,
    Policy,
    Report,
    TraceInputError,
    TracePolicyError,
    read_policy,
    verify_trace,
)
from readback.traces.format.fault import PLAN_MAX_BYTES, RUN_FILE_MAX_BYTES, TRACE_MAX_BYTES

FAILURES_SHOWN_MAX: Final = 40
LINE_MAX_CHARACTERS: Final = 600
POLICY_REMEDY: Final = "Name a regular file of your own that can be read; `docs/traces.md` has its keys."


@click.group("trace")
def trace() -> None:
    """Verify reasoning traces: every claim grounded by span and hash, every id recomputed, nothing missing."""


@trace.command("verify", short_help="Check a trace against its plan and evidence.")
@click.option("--trace", "trace_file", metavar="FILE", required=True, help="The trace (trace.jsonl of a run).")
@click.option("--plan", "plan_file", metavar="FILE", required=True, help="The plan of the run (plan.json).")
@click.option("--artifacts", metavar="DIR", help="Folder of the run. Without a folder, checks that need files fail.")
@click.option("--policy", "policy_file", metavar="FILE", help="Your requirements as JSON, in a file outside the run.")
@options.as_json
def verify(trace_file: str, plan_file: str, artifacts: str | None, policy_file: str | None, as_json: bool) -> int:
    """Verify a reasoning trace. The checks judge the origin and the production of claims, not their truth.

    \b
    Ten checks belong to the format; thirteen are stricter: every id and hash is
    recomputed; plan, specification, run and trace belong to one run; steps follow
    the plan's order; one result a call; no evidence from a failed call; no
    rejected or unsupported claim final; manifest, fingerprint and documents hold.

    A check that cannot run fails. The run's own declarations can only add demands to your policy.

    Exit code 0: passed; 1: failed, with the location of each failure; 2: the files are no trace and plan; 5: the policy
    cannot be used.
    """
    policy = _policy(policy_file, artifacts)
    given = (
        read_given(Path(trace_file), TRACE_MAX_BYTES, "trace"),
        read_given(Path(plan_file), PLAN_MAX_BYTES, "plan"),
    )
    if artifacts is None:
        report = verify_trace(*given, None, policy)
    else:
        with RunFolder(Path(artifacts)) as folder:
            report = verify_trace(*given, folder, policy)
    if as_json:
        print_json(report.as_json())
    else:
        _tell(report)
    return 0 if report.passed else EXIT_FAILED


def _policy(file: str | None, artifacts: str | None) -> Policy:
    """The caller's policy. A file of the tested run is refused."""
    if file is None:
        return DEFAULT_POLICY
    if artifacts is not None and Path(os.path.realpath(file)).is_relative_to(os.path.realpath(artifacts)):
        raise TracePolicyError(
            f"The policy {safe(file)} lies in the run's folder.",
            remedy="Keep the policy where the run cannot write it.",
        )
    try:
        given = read_given(Path(file), RUN_FILE_MAX_BYTES, "policy")
    except TraceInputError as error:
        raise TracePolicyError(error.message, remedy=POLICY_REMEDY, details=error.details) from error
    return read_policy(given, safe(file))


def _tell(report: Report) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    shown = Table("", "check", "failures", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for check in report.checks:
        sign = OK if check.passed else BAD if check.run else NONE
        said = check.details or ("" if check.run else "not run")
        shown.add_row(mark(sign), Text(check.name), Text(str(check.failures)), Text(safe(said)))
    out.print(shown)
    for failure in report.failures[:FAILURES_SHOWN_MAX]:
        out.print(Text.assemble(mark(BAD), " ", _line(failure)), soft_wrap=True)
    left = report.failures_total - min(len(report.failures), FAILURES_SHOWN_MAX)
    if left > 0:
        out.print(Text(f"  and {left} more; --json lists {len(report.failures)} of them"))
    for said in report.notes:
        out.print(Text(f"note: {safe(said)}"), soft_wrap=True)
    failed = sum(not check.passed for check in report.checks)
    figures = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in report.figures.items())
    verdict = "passed" if report.passed else "failed"
    out.print(Text.assemble((verdict, "bold"), f": {len(report.checks) - failed} of {len(report.checks)} checks"))
    if figures:
        out.print(Text(figures))
    if not report.passed:
        note("Next: do not rely on this trace. Start with the first failure; later failures often follow.")


def _line(failure: Failure) -> str:
    return safe(f"{failure.code}  {failure.place.path}  {failure.message}", LINE_MAX_CHARACTERS)
