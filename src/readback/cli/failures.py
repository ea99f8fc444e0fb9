"""Ends a failed command: message and remedy on stderr, an object on stdout with --json, and an exit code.

Expected errors have a message of their own. Any other exception is a crash, reported in one line unless READBACK_DEBUG
is set.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Final

import click

from readback.canon import Json, ReadbackError
from readback.cli.terminal import note, print_json, safe
from readback.domain.outcome.outcome import Outcome
from readback.views.text import json_or_text

EXIT_USAGE: Final = 2
EXIT_INTERNAL: Final = 5
EXIT_STORE: Final = 6
MESSAGE_MAX_CHARACTERS: Final = 4000
PROBLEMS_SHOWN_MAX: Final = 20


def fail(error: ReadbackError, *, as_json: bool) -> int:
    """Report an expected error: the fault, the next step and the exit code."""
    problems = problem_lines(error)
    note(f"Error: {headline(error) if problems else safe(error.message, MESSAGE_MAX_CHARACTERS)}")
    for line in problems:
        note(f"  - {line}")
    if error.remedy:
        note(f"Next: {safe(error.remedy, MESSAGE_MAX_CHARACTERS)}")
    if as_json:
        print_json({"error": described(error)})
    return error.exit_code


def described(error: ReadbackError) -> dict[str, Json]:
    """The error as data."""
    outcome = getattr(error, "outcome", None)
    said: dict[str, Json] = {
        "code": error.code,
        "message": error.message,
        "remedy": error.remedy,
        "details": {str(key): json_or_text(value) for key, value in error.details.items()},
        "exit_code": error.exit_code,
    }
    if isinstance(outcome, Outcome):
        said["outcome"] = outcome.as_json()
    return said


def headline(error: ReadbackError) -> str:
    """The first sentence of a message. Single faults follow below the sentence."""
    sentence, stop, _ = error.message.partition(". ")
    sentence = sentence.partition(": ")[0] if not stop else sentence
    return safe(sentence.rstrip(".") + ":", MESSAGE_MAX_CHARACTERS)


def problem_lines(error: ReadbackError) -> list[str]:
    """The single faults of a collecting error."""
    problems = error.details.get("problems")
    if not isinstance(problems, list):
        return []
    lines = [_problem(each) for each in problems[:PROBLEMS_SHOWN_MAX]]
    if len(problems) > PROBLEMS_SHOWN_MAX:
        lines.append(f"and {len(problems) - PROBLEMS_SHOWN_MAX} more")
    return lines


def _problem(problem: object) -> str:
    if not isinstance(problem, dict):
        return safe(problem)
    where = ".".join(str(problem[key]) for key in ("contract", "argument", "name", "key") if problem.get(key))
    if problem.get("file"):  # a fault of a file: where to look
        lines = problem.get("line") is not None  # of JSON, and of what no line is to blame for, the key alone is known
        place = f"{problem['file']}:{problem['line']}:{problem.get('column')}" if lines else problem["file"]
        path = problem.get("path") or problem.get("key")
        where = f"{place}: {path}" if path else str(place)
    reason = problem.get("reason") or problem.get("message") or problem.get("problem") or ""
    return safe(f"{where}: {reason}" if where else reason or problem)


def misused(error: click.ClickException, *, as_json: bool) -> int:
    """Report a wrong command line. Nothing was done."""
    context = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split())  # a list of choices comes with a line for each
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        note(error.format_message())
        message = "A command is missing."
    elif context is not None:
        note(context.get_usage())
    help_line = f"Run `{context.command_path if context is not None else 'readback'} --help`."
    note(f"Error: {safe(message, MESSAGE_MAX_CHARACTERS)}")
    note(f"Next: {help_line}")
    if as_json:
        said = {"code": "input.usage", "message": message, "remedy": help_line, "details": {}, "exit_code": EXIT_USAGE}
        print_json({"error": said})
    return EXIT_USAGE


def crashed(error: BaseException, *, as_json: bool) -> int:
    """Report a bug of Readback in one line, or with the whole trace under READBACK_DEBUG."""
    kind = type(error).__name__
    if os.environ.get("READBACK_DEBUG"):
        traceback.print_exception(error, file=sys.stderr)
    note(f"Error: Readback failed unexpectedly: {kind}: {safe(error)}")
    remedy = "Please report this; with READBACK_DEBUG=1 the whole trace is shown. The ledger holds what was done."
    note(f"Next: {remedy}")
    if as_json:
        said = {
            "code": "internal",
            "message": f"{kind}: {safe(error)}",
            "remedy": remedy,
            "details": {},
            "exit_code": EXIT_INTERNAL,
        }
        print_json({"error": said})
    return EXIT_INTERNAL
