"""`readback delegate`: run any command as a delegate until its work is verified."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from readback.agent_errors import DelegationFailedError, ScriptError
from readback.canon import Json, ReadbackError
from readback.cli import options
from readback.cli.actions.arguments import read_object
from readback.cli.actions.run import sigterm_interrupts
from readback.cli.sessions import working
from readback.cli.terminal import BAD, OK, OPEN, console, mark, note, print_json, safe
from readback.client.client import Readback
from readback.config import Settings
from readback.contracts.documents.own_files import keep
from readback.delegations.api import Delegation, delegation
from readback.delegations.command import OUTPUTS, TIMEOUT_DEFAULT_S, CommandDelegate
from readback.delegations.model.record import NOTHING_ANSWERED, Delegated
from readback.delegations.model.words import RETRIES_DEFAULT, RETRIES_MAX, TASK_MAX_CHARACTERS, VerifyOutcome
from readback.errors import UnknownOutcomeError, UsageError

LINE_MAX_CHARACTERS: Final = 600
FILE_MAX_BYTES: Final = 131_072
_SIGNS: Final = {VerifyOutcome.PASSED: OK, VerifyOutcome.FAILED: BAD}


@click.command("delegate")
@click.option("--task", metavar="TEXT", help="The task (default: read from stdin).")
@click.option("--verify", "script", metavar="FILE", help="A script that defines run(result).")
@click.option("--hook", "hooks", metavar="FILE", multiple=True, help="A hook's file; may be repeated.")
@click.option("--args", "arguments", metavar="JSON", default="{}", help="JSON passed to scripts as `args`.")
@click.option("--allow-http", metavar="URL", multiple=True, help="URL prefix allowed to scripts; may be repeated.")
@click.option("--allow-fs", metavar="DIR", multiple=True, help="Folder readable by scripts; may be repeated.")
@click.option(
    "--allow-sql", metavar="NAME=FILE", multiple=True, help="SQLite file readable by scripts; may be repeated."
)
@click.option(
    "--max-verify-retries",
    "retries",
    type=click.IntRange(0, RETRIES_MAX),
    default=RETRIES_DEFAULT,
    show_default=True,
    help="Maximum number of retries.",
)
@click.option("--within", default="10s", show_default=True, metavar="TIME", help="Time until a reading is final.")
@click.option(
    "--session-flag", default="", metavar="FLAG", help="The command resumes its own session: pass FLAG and an id."
)
@click.option("--resume-flag", default="", metavar="FLAG", help="Replaces --session-flag from the second turn on.")
@click.option(
    "--output", type=click.Choice(OUTPUTS), default="text", show_default=True, help="Format of the command's stdout."
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 86_400), default=TIMEOUT_DEFAULT_S, show_default=True,
              metavar="SECONDS", help="Time limit of one turn.")  # fmt: skip
@click.option("--env", metavar="NAME", multiple=True, help="Environment variable for the command; may be repeated.")
@click.option("--name", default="delegate", show_default=True, metavar="NAME", help="Kind of delegate, for records.")
@click.option("--operation", metavar="ID", help="Name of the intent; the same name is answered from the record.")
@options.settings
@options.as_json
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
def delegate(
    task: str | None,
    script: str | None,
    hooks: tuple[str, ...],
    arguments: str,
    allow_http: tuple[str, ...],
    allow_fs: tuple[str, ...],
    allow_sql: tuple[str, ...],
    retries: int,
    within: str,
    session_flag: str,
    resume_flag: str,
    output: str,
    timeout_s: float,
    env: tuple[str, ...],
    name: str,
    operation: str | None,
    settings: Settings,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND with a task until a verifier confirms the result.

    The command reads the task on stdin and answers on stdout. If the verifier refutes the result after reading again
    for the time of --within, the command runs again with the reason and the task. With --session-flag, stdin holds
    only these two; otherwise the whole conversation. An undetermined result does not run the command again.

    \b
    Exit code 0: verified and accepted; 1: refuted after the last retry, or withheld
    by a hook; 3: undetermined, or nothing verified the result; 4: held for a
    person; 5: fault of a verifier, a hook or a setting.
    """
    given = read_object("--args", arguments)
    asked = sys.stdin.read(TASK_MAX_CHARACTERS + 1) if task is None else task
    called = CommandDelegate(command, session_flag, resume_flag, output, env, timeout_s=timeout_s)
    allow = {"http": allow_http, "fs": [str(Path(each).absolute()) for each in allow_fs], "sql": _files(allow_sql)}
    sent: Delegation = delegation(
        name=name,
        verify=None if script is None else _text(script),
        hooks=hooks,
        allow=allow,
        max_verify_retries=retries,
        within=within,
        execute={"timeout": f"{timeout_s + 30:.0f}s"},
    )(called)
    try:
        sent.check()
        with working(settings, None) as session, sigterm_interrupts():
            try:
                done = sent.run(Readback(session), asked, operation=operation, args=given)
            except UnknownOutcomeError as error:
                session.report_unknown_outcome(error)
                raise
            except (DelegationFailedError, ScriptError) as error:
                if not isinstance(error.delegated, Delegated):
                    raise
                return _told(error.delegated, as_json, error)
    finally:
        sent.close()
    return _told(done, as_json, None)


def _told(done: Delegated, as_json: bool, error: ReadbackError | None) -> int:
    code = done.exit_code if error is None else error.exit_code
    if as_json:
        said: dict[str, Json] = {**done.as_json(), "exit_code": code}
        print_json(said if error is None else {**said, "error": {"code": error.code, "message": error.message}})
        return code
    from rich.text import Text

    out = console()
    head = f"{safe(done.kind)} {done.verify_outcome.value} after {done.attempts} verified attempt(s)"
    out.print(Text.assemble(mark(_SIGNS.get(done.verify_outcome, OPEN)), " ", (head, "bold")), soft_wrap=True)
    for line in _lines(done, error):
        out.print(Text(line), soft_wrap=True)
    if code and done.outcomes:
        note(f"Next: readback explain {done.outcomes[-1].id}")
    return code


def _lines(done: Delegated, error: ReadbackError | None) -> list[str]:
    lines = [f"  reason: {safe(done.reason, LINE_MAX_CHARACTERS)}"] if done.reason else []
    if done.withheld:
        lines.append(f"  withheld: {safe(done.withheld, LINE_MAX_CHARACTERS)}")
    if error is not None and error.message not in done.reason:
        lines.append(f"  {error.code}: {safe(error.message, LINE_MAX_CHARACTERS)}")
    lines += [f"  action: {each.id} {each.state.value}" for each in done.outcomes]
    if done.passed:
        lines.append(f"  answer: {safe(done.response, LINE_MAX_CHARACTERS)}")
    elif done.result is not None and done.result.get("error") != NOTHING_ANSWERED:
        lines.append("  The command's answer is an unaccepted claim; --json contains the answer.")
    return lines


def _text(file: str) -> str:
    keep(file)
    try:
        with open(file, "rb") as opened:
            content = opened.read(FILE_MAX_BYTES + 1)
        if len(content) > FILE_MAX_BYTES:
            raise UsageError(f"{safe(file)} is over {FILE_MAX_BYTES} bytes.", remedy="Name a shorter script.")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The script {safe(file)} cannot be read: {error}.", remedy="Name a text file.") from error


def _files(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, file = pair.partition("=")
        if not sign or not name or not file or name in found:
            said = f"--allow-sql {safe(pair)!r} is not NAME=FILE, or its name is given twice."
            raise UsageError(said, remedy="Write --allow-sql shop=/path/to/shop.db, each name once.")
        found[name] = str(Path(file).absolute())
    return found
