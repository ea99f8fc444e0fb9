"""`readback shadow`: propose reading tools of a server, and print the report of shadow mode."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.contracts.servers import COMMAND, WithServer, header_option
from readback.cli.sessions import reading, settings_of
from readback.cli.terminal import BAD, OK, OPEN, console, mark, moment, note, print_json, safe
from readback.config import Settings
from readback.domain.state import EXIT_FAILED, EXIT_UNDETERMINED, EXIT_VERIFIED
from readback.errors import UsageError

if TYPE_CHECKING:
    from readback.shadow.pairs import Pair
    from readback.shadow.report import ShadowReport, ToolCounts

CALLS_MAX: Final = 1_000_000
NAME_MAX_CHARACTERS: Final = 120
REASON_MAX_CHARACTERS: Final = 300
SECONDS: Final = len("2026-01-01 00:00:00")


@click.group("shadow")
def shadow() -> None:
    """See what a server's tools say, and what was there. The gateway watches with `readback mcp --shadow`."""


@shadow.command("pairs", cls=WithServer, short_help="Propose reading tools for a server's writing tools.")
@click.option("--url", default="", metavar="URL", help="A streamable HTTP server, instead of a command.")
@header_option
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the confirmed names to a new file.")
@click.option("--yes", is_flag=True, help="Confirm the names for --out without a question.")
@options.as_json
@click.pass_context
def pairs(
    context: click.Context, url: str, headers: tuple[str, ...], out: Path | None, yes: bool, as_json: bool
) -> int:
    """Start or contact a server, list the tools, and propose pairs of a writing and a reading tool.

    No tool is called. The proposal follows names, schemas and hints, and a server may state wrong hints. Read the list:
    a named tool is called before and after each call. Then pass the names to `readback mcp --shadow --reads`.

    \b
    readback shadow pairs -- python notes_server.py
    """
    from readback.cli.contracts.servers import tools_of
    from readback.shadow.pairs import pairs_of

    settings_of()  # notes the files that a server must not be started on
    listed = tools_of(context.meta[COMMAND], url, headers)
    found = pairs_of([*listed.values()])
    reads = sorted({each.read for each in found})
    if as_json:
        print_json({"pairs": [_pair_json(each) for each in found], "reads": [*reads], "tools": sorted(listed)})
    else:
        _tell_pairs(found, reads, sorted(listed))
    if out is not None:
        _confirm(out, reads, yes=yes)
    return EXIT_VERIFIED


def _pair_json(pair: Pair) -> dict[str, Json]:
    return {"tool": pair.write, "reading_tool": pair.read, "keys": list(pair.keys)}


def _tell_pairs(found: list[Pair], reads: list[str], listed: list[str]) -> None:
    for pair in found:
        keys = f" with the same {', '.join(safe(key, 60) for key in pair.keys)}" if pair.keys else ""
        print(f"{safe(pair.write, NAME_MAX_CHARACTERS)} <- {safe(pair.read, NAME_MAX_CHARACTERS)}{keys}")
    alone = [name for name in listed if name not in {each.write for each in found} and name not in reads]
    if alone:
        note(f"Without a reading tool: {', '.join(safe(name, NAME_MAX_CHARACTERS) for name in alone)}.")
    if reads:
        named = ",".join(safe(name, NAME_MAX_CHARACTERS) for name in reads)
        note(f"Next, if each of these only reads: readback mcp --shadow --reads {named} -- COMMAND")
    else:
        note("No pair is proposed. Name the tools that only read with --reads.")


def _confirm(out: Path, reads: list[str], *, yes: bool) -> None:
    """Write the names to a new file after a person's confirmation. Raises UsageError."""
    if not reads:
        raise UsageError("There are no names to write.", remedy="Name reading tools with --reads.")
    if not yes and not (sys.stdin.isatty() and click.confirm("Does each of these only read?", default=False, err=True)):
        raise UsageError("The names are not confirmed; nothing was written.", remedy="Confirm them, or pass --yes.")
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write("".join(f"{name}\n" for name in reads))
    except OSError as error:
        raise UsageError(f"{safe(out)} cannot be written: {error}.", remedy="Name a new file.") from error
    note(f"Next: readback mcp --shadow --reads @{safe(out)} -- COMMAND")


@shadow.command("report", short_help="Report the claims of watched tools, and the judgements of shadow contracts.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="html is one page that opens without a network.",
)
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Output file (default: stdout).")
@click.option(
    "--limit",
    type=click.IntRange(1, CALLS_MAX),
    default=10_000,
    show_default=True,
    help="Maximum number of calls, the newest.",
)
@options.settings
@options.as_json
def report(
    form: str,
    out: Path | None,
    limit: int,
    settings: Settings,
    as_json: bool,
) -> int:
    """Count, by tool: calls, claimed successes, seen changes, unchanged states, and calls that could not be judged.

    Contracts in shadow mode follow, with the words of the enforced mode. Exit code 0: no claimed success is
    contradicted; 1: at least one is; 3: no call was watched, or none could be judged.
    """
    from readback.shadow.report import shadow_report

    with reading(settings) as session:
        found = shadow_report(session, calls_max=limit)
    form = "json" if as_json else form
    if form == "text" and out is None:
        _tell(found)
    elif form == "json" and out is None:
        print_json(found.as_json())
    else:
        _write(found, form, out)
    return _exit_code(found)


def _exit_code(found: ShadowReport) -> int:
    if found.contradicted:
        return EXIT_FAILED
    judged = sum(each.changed + each.unchanged + each.failed for each in found.tools)
    nothing = not judged and (bool(found.tools) or not found.contracts)
    return EXIT_UNDETERMINED if nothing else EXIT_VERIFIED


def _write(found: ShadowReport, form: str, out: Path | None) -> None:
    from readback.bootstrap import keep_file
    from readback.canon import json_text
    from readback.shadow.page import page

    if form == "html":
        text = page(found, f"{moment(found.made_us)[:SECONDS]} UTC")
    elif form == "json":
        text = json_text(found.as_json()) + "\n"
    else:
        text = "\n".join(_lines(found)) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        keep_file(out, text.encode("utf-8", "backslashreplace"), private=True)  # it quotes answers of tools
        note(f"Written: {safe(out)}")


def _tell(found: ShadowReport) -> None:
    from rich.text import Text

    sign = BAD if found.contradicted else OK if _exit_code(found) == EXIT_VERIFIED and found.tools else OPEN
    head, *rest = _lines(found)
    console().print(Text.assemble(mark(sign), f" {head}"), soft_wrap=True)
    for line in rest:
        console().print(Text(line), soft_wrap=True)


def _lines(found: ShadowReport) -> list[str]:
    """The report in lines, the contradictions first."""
    calls = sum(each.calls for each in found.tools)
    lines = [f"{found.contradicted} claimed successes contradicted in {calls} watched calls."]
    for each in found.contradictions:
        lines.append(f"  {safe(each.watched.tool, NAME_MAX_CHARACTERS)}: {safe(each.reason, REASON_MAX_CHARACTERS)}")
        lines.append(f"    readback show {each.watched.id}")
    lines += [line for each in found.tools for line in _tool_lines(each)]
    for counts in found.contracts:
        lines.append(
            f"{safe(counts.contract, NAME_MAX_CHARACTERS)} in shadow mode: {counts.actions} actions; enforced, "
            f"{counts.verified} would be verified, {counts.refuted} refuted, {counts.undetermined} open, "
            f"{counts.refused} refused; {counts.open} not judged yet."
        )
    for action in found.differing:
        words = "not judged yet." if action.judgement is None else action.judgement.words
        lines.append(f"  {action.id}: enforced, the user would have read: {safe(words, REASON_MAX_CHARACTERS)}")
    return lines


def _tool_lines(each: ToolCounts) -> list[str]:
    name = f"{each.server}__{each.tool}" if each.server else each.tool
    lines = [
        f"{safe(name, NAME_MAX_CHARACTERS)}: {each.calls} calls, {each.claimed} claimed successes: "
        f"{each.changed} changes seen, {each.contradicted} contradicted, {each.unchanged} as asked already, "
        f"{each.not_judged} not judged; {each.failed} reported failures, {each.unanswered} without an answer."
    ]
    if each.failed_and_changed:
        lines.append(f"  {each.failed_and_changed} x The tool reported a failure, and the state changed.")
    lines += [f"  {count} x {safe(why, REASON_MAX_CHARACTERS)}" for why, count in sorted(each.reasons.items())]
    return lines
