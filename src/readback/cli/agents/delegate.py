"""`readback delegate`: any command as a delegate, sent until what it was to do has been read back."""

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
from readback.cli.sessions import settings_of, working
from readback.cli.terminal import BAD, OK, OPEN, console, mark, note, print_json, safe
from readback.client.client import Readback
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
@click.option("--task", metavar="TEXT", help="What is to be done; else it is read from stdin.")
@click.option("--verify", "script", metavar="FILE", help="A script that defines run(result).")
@click.option("--hook", "hooks", metavar="FILE", multiple=True, help="A hook's file; may be repeated.")
@click.option("--args", "arguments", metavar="JSON", default="{}", help="What scripts see as `args`.")
@click.option("--allow-http", metavar="URL", multiple=True, help="An address that scripts may ask below; repeatable.")
@click.option("--allow-fs", metavar="DIR", multiple=True, help="A folder that scripts may look into; repeatable.")
@click.option(
    "--allow-sql", metavar="NAME=FILE", multiple=True, help="An SQLite file that scripts may read; repeatable."
)
@click.option(
    "--max-verify-retries",
    "retries",
    type=click.IntRange(0, RETRIES_MAX),
    default=RETRIES_DEFAULT,
    show_default=True,
    help="How often it may be sent again.",
)
@click.option("--within", default="10s", show_default=True, metavar="TIME", help="How long a reading may still turn.")
@click.option("--session-flag", default="", metavar="FLAG", help="The command keeps its conversation: FLAG and an id.")
@click.option("--resume-flag", default="", metavar="FLAG", help="Instead of --session-flag from the second turn on.")
@click.option("--output", type=click.Choice(OUTPUTS), default="text", show_default=True, help="What its stdout is.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 86_400), default=TIMEOUT_DEFAULT_S, show_default=True,
              metavar="SECONDS", help="How long one turn may take.")  # fmt: skip
@click.option("--env", metavar="NAME", multiple=True, help="A variable that the command is given; may be repeated.")
@click.option(
    "--name", default="delegate", show_default=True, metavar="NAME", help="The kind of delegate, for records."
)
@click.option("--operation", metavar="ID", help="Names the intent: the same name is answered from the record.")
@options.ledger
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
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Send COMMAND with a task until a verifier has read that it is done.

    The command reads the task on stdin and answers on stdout. Where the verifier refutes it, after looking again for
    as long as --within, it is called again with the reason and its task: with --session-flag only that is on its stdin,
    without it the whole conversation. It is not called again for what cannot be told.

    \b
    Exit code 0: read back and accepted; 1: refuted as often as it may be sent, or
    withheld by a hook; 3: undetermined, or nothing verified it; 4: held for a
    person; 5: a verifier, a hook or a setting is at fault.
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
    settings = settings_of(url, tenant, principal)
    try:
        sent.check()
        with working(settings, None) as session, sigterm_interrupts():
            try:
                done = sent.run(Readback(session), asked, operation=operation, args=given)
            except UnknownOutcomeError as error:
                session.raise_alarm(error)
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
        lines.append("  Its answer is a claim that was not accepted; --json holds it.")
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
