"""Entry point of `readback`: lists the commands, imports the requested command, and turns failures into words.

The module decides nothing about actions. Answers go to stdout, in words or as one JSON value with --json. Progress,
warnings and errors go to stderr. The exit codes are those of EXIT_CODES.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TextIO, cast

import click

from readback import __version__
from readback.cli.lazy_group import LazyGroup

COMMANDS: Final = {
    "demo": ("readback.cli.demo_and_bench:demo", "Run the demo: an agent, faulty systems, and the truth."),
    "run": ("readback.cli.actions.run:run", "Execute one action and verify the result."),
    "submit": ("readback.cli.actions.submit:submit", "Queue one action for the workers."),
    "list": ("readback.cli.actions.list_actions:list_actions", "List the newest actions."),
    "show": ("readback.cli.actions.show:show", "Show one action."),
    "explain": ("readback.cli.actions.show:explain", "Explain an outcome and list the next steps."),
    "belief": ("readback.cli.actions.belief:belief", "Print the verified facts of a run."),
    "resume": ("readback.cli.workers.resume:resume", "Process all due actions once."),
    "worker": ("readback.cli.workers.worker:worker", "Process due actions until stopped."),
    "review": ("readback.cli.people.review:review", "List and resolve actions awaiting review."),
    "claims": ("readback.cli.people.claims:claims", "List verified claims, contests and retractions."),
    "events": ("readback.cli.people.events:events", "List subscribers and undelivered messages."),
    "freezes": ("readback.cli.people.freezes:freezes", "List and lift freezes of targets."),
    "incidents": ("readback.cli.people.incidents:incidents", "List and close incidents."),
    "approve": ("readback.cli.people.approve:approve", "Inspect an action awaiting approval, and approve it."),
    "deny": ("readback.cli.people.approve:deny", "Deny an action awaiting approval."),
    "keys": ("readback.cli.people.keys:keys", "Manage the keys of approvers."),
    "ledger": ("readback.cli.ledger.group:ledger", "Verify, seal, export, back up and prune the ledger."),
    "replay": ("readback.cli.ledger.replay:replay", "Recompute the verdicts of an exported bundle."),
    "trace": ("readback.cli.checks.trace:trace", "Verify a reasoning trace."),
    "delegate": ("readback.cli.agents.delegate:delegate", "Run a command until its work is verified."),
    "report": ("readback.cli.checks.report:report", "Check an agent's final report against the ledger."),
    "shadow": ("readback.cli.agents.shadow:shadow", "Report what shadow mode saw, and propose reading tools."),
    "decisions": ("readback.cli.agents.decisions:decisions", "Enforce the rules of a decision type."),
    "import": ("readback.cli.checks.import_files:import_files", "Import files of other systems as evidence."),
    "table": ("readback.cli.contracts.table:table", "Show or check a recovery table."),
    "init": ("readback.cli.contracts.init:init", "Write a first contract file."),
    "contracts": ("readback.cli.contracts.group:contracts", "Check, list or show contract files."),
    "gates": ("readback.cli.gates.group:gates", "Check new contracts and recovery tables before a release."),
    "mcp": ("readback.cli.agents.mcp:mcp", "Run the MCP gateway: verify tool calls of MCP servers."),
    "serve": ("readback.cli.serving.serve:serve", "Serve the HTTP API and the console."),
    "token": ("readback.cli.serving.token:token", "Manage the tokens of the HTTP server."),
    "hook": ("readback.cli.agents.hook:hook", "Answer the hooks of a coding agent."),
    "telemetry": ("readback.cli.telemetry.spans:telemetry", "Show and export the spans of actions."),
    "drill": ("readback.cli.contracts.drill:drill", "Test a contract's idempotency claim against a sandbox."),
    "metrics": ("readback.cli.checks.metrics:metrics", "Print the metrics of a ledger, for Prometheus or as JSON."),
    "doctor": ("readback.cli.checks.doctor:doctor", "Check this installation."),
    "bench": ("readback.cli.demo_and_bench:bench", "Measure the speed on this machine."),
    "version": ("readback.cli.version:version", "Print the installed versions."),
}
"""The module and the help line of each command. `--help` imports no command."""

EXIT_CODES: Final = """\b
Exit codes: 0 verified or done; 1 refuted, failed, partial, rolled back or
abandoned, or a check that found a fault; 2 bad usage or input; 3 undetermined
or pending, or an answer that could not be written; 4 held for review or
approval; 5 verifier, contract or settings error; 6 store error. Of several
actions: the first of 6, 5, 4, 3, 1, 0."""
UNHEARD: Final = 3


class Cli(LazyGroup):
    """The whole command line. Every failure ends with a documented exit code."""

    commands_by_name = COMMANDS

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from readback.contracts.problems import did_you_mean

            ctx.fail(f"There is no command {args[0]!r}.{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> NoReturn:
        arguments = list(sys.argv[1:] if args is None else args)
        sys.exit(self.answer(arguments))

    def answer(self, arguments: list[str]) -> int:
        """Run one command line and return the exit code."""
        as_json = "--json" in arguments
        _open_streams()
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
        stdout, sys.stdout = sys.stdout, cast("TextIO", _Told(sys.stdout))
        try:
            code = self._answered(arguments, as_json=as_json)
            sys.stdout.flush()
        except _UnheardError as error:
            return _unheard(error.why)
        finally:
            sys.stdout = stdout
        return code

    def _answered(self, arguments: list[str], *, as_json: bool) -> int:
        try:
            code = super().main(arguments, prog_name="readback", standalone_mode=False)
            return code if isinstance(code, int) else 0
        except click.exceptions.Exit as leaving:
            return leaving.exit_code
        except (click.Abort, KeyboardInterrupt):
            return _interrupted()
        except _UnheardError:
            raise
        except Exception as error:  # tidy: boundary -- the outermost: every exception ends in words and an exit code
            return _failed(error, arguments, as_json=as_json)


class _UnheardError(Exception):
    """The answer cannot be written. Not an OSError: libraries treat a closed pipe as the end of the program."""

    def __init__(self, why: OSError) -> None:
        super().__init__(str(why))
        self.why = why


class _Told:
    """stdout with failures of a type of their own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _UnheardError(error) from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise _UnheardError(error) from error


def _open_streams() -> None:
    """Replace missing standard streams by the null device. The caller then receives only the exit code."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def _unheard(error: OSError) -> int:
    """Report an answer that was not delivered. The exit code claims no result. A closed pipe needs no message."""
    from readback.cli.terminal import note, safe

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter writes what is left at its end
    if not isinstance(error, BrokenPipeError):
        note(f"Error: The answer could not be written: {safe(error.strerror or error)}.")
        note("Next: read the result in the ledger: `readback list`, `readback show ID`.")
    return UNHEARD


def _is_nowhere() -> bool:
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _failed(error: Exception, arguments: list[str], *, as_json: bool) -> int:
    from readback.canon.fault import ReadbackError
    from readback.cli import failures
    from readback.errors import UsageError

    if isinstance(error, FileNotFoundError) and _is_nowhere():
        error = UsageError("The working folder was deleted.", remedy="Change to an existing folder.")
    if isinstance(error, UnicodeEncodeError) and any("\udc80" <= each <= "\udcff" for each in "".join(arguments)):
        error = click.UsageError("An argument is not valid UTF-8 text.")
    if isinstance(error, click.ClickException):
        return failures.misused(error, as_json=as_json)
    if isinstance(error, ReadbackError):
        return failures.fail(error, as_json=as_json)
    return failures.crashed(error, as_json=as_json)


def _interrupted() -> int:
    from readback.cli.terminal import note

    note("Interrupted. Recorded work stays; `readback resume` continues.")
    return 3


@click.group(
    cls=Cli,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, "--version", message="readback %(version)s")
@click.pass_context
def main(context: click.Context) -> int | None:
    """Verify what AI agents do: an action counts as done only after Readback has read its result back.

    Answers go to stdout, as one JSON value with --json. Progress and errors go to stderr.
    """
    if context.invoked_subcommand is not None:
        if context.invoked_subcommand not in SILENT:
            say_if_unrelated()
        return None
    print(context.get_help(), file=sys.stderr)
    return 2


SILENT: Final = frozenset({"hook", "mcp", "doctor"})
"""Commands read by programs, and `doctor`, which makes the same check."""


def say_if_unrelated() -> None:
    """Warn on stderr if another project's distribution is installed under the name `readback`."""
    from readback.cli.checks.distribution import unrelated
    from readback.cli.terminal import note

    said = unrelated()
    if said:
        note(said)


if __name__ == "__main__":
    main()
