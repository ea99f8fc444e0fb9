"""`readback contracts draft`: write a contract file with open decisions, from a live server's tools or a ledger.

The command starts or contacts the server, lists the tools, and ends; or it reads the recorded calls. No tool is called.
The file is a proposal:
`readback contracts check` refuses the file until a person has decided.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from readback.agent_errors import UpstreamLostError
from readback.canon import Json
from readback.cli.contracts.servers import header_option, references, upstream_at
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, safe
from readback.contracts.options import microseconds
from readback.errors import ContractFieldError, UsageError
from readback.ports.system_factory import ServerTerms

if TYPE_CHECKING:
    from readback.gateway.upstream.upstream import Upstream

US: Final = 1_000_000
_ALONE: Final = "Nothing was called or written. See whether the server starts by itself; --timeout gives it more time."


@click.command("draft", short_help="Propose contracts for a server's tools.")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED)
@click.option("--url", metavar="URL", help="A streamable HTTP server, instead of a command.")
@click.option("--from", "ledger", metavar="URL", help="A ledger with at least five watched calls, instead of a server.")
@header_option
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Output file (default: stdout).")
@click.option(
    "--tool",
    "only",
    metavar="NAME",
    multiple=True,
    help="Draft only this tool, regardless of its annotations; may be repeated.",
)
@click.option("--timeout", metavar="SPAN", default="60s", show_default=True, help="Time limit for the server.")
def draft(
    command: tuple[str, ...],
    url: str | None,
    ledger: str | None,
    headers: tuple[str, ...],
    out: Path | None,
    only: tuple[str, ...],
    timeout: str,
) -> int:
    """Read the tools of a live MCP server and write a commented contract file.

    Proposals follow names and hints and are marked: each value beginning with DECIDE fails `readback contracts check`
    until a person decides. Read-only tools receive no contract. No tool is called.

    With --from the recorded calls of a ledger are read instead. A tool with at least five calls gets proposals for
    postconditions, identity and times, each with its support and its counterexamples. --tool then names a contract.

    \b
    readback contracts draft --out notes.yaml -- npx -y @modelcontextprotocol/server-filesystem /notes
    readback contracts draft --out orders.yaml --from sqlite:///readback.db
    """
    from readback.contracts.drafting.draft import Server
    from readback.contracts.drafting.draft import draft as drafted

    if ledger:
        if command or url or headers:
            said = "A draft from a ledger asks no server, and a server is named."
            raise UsageError(said, remedy="Pass --from, or a server.")
        return _put(_watched(ledger, only, out), out)
    if bool(command) is bool(url):
        raise UsageError("A draft needs exactly one server.", remedy="Pass the server's command after --, or --url.")
    _free(out)
    try:
        limit = (microseconds(timeout) or 0) / US
    except ContractFieldError as error:
        raise UsageError(f"--timeout: {error.message}", remedy="Write it with its unit, such as 60s.") from error
    settings_of()  # notes the files that a server must not be started on
    named = references(headers, url or "")
    whole = {
        name: replace(each, name=str(Path(each.name).absolute())) if each.kind == "file" else each
        for name, each in named.items()
    }
    terms = ServerTerms("", ".", command, url or "", headers=whole)
    found = _listed(terms, limit)
    server = Server(command, url or "", found.name, found.version, terms.headers)
    return _put(drafted(found.tools, server, frozenset(only)), out)


def _watched(url: str, only: tuple[str, ...], out: Path | None) -> str:
    """Return a draft from the recorded calls of a ledger. Raises WatchedCallsError, NotFoundError, StoreError."""
    from readback import bootstrap
    from readback.assurance.history.recorded import is_ledger, ledger_url
    from readback.assurance.watched.calls import calls
    from readback.assurance.watched.drafted import drafted

    _free(out)
    store = bootstrap.store(ledger_url(url) if is_ledger(url) else url, read_only=True)
    try:
        return drafted(calls(store, only), only)
    finally:
        store.close()


def _free(out: Path | None) -> None:
    if out is not None and os.path.lexists(out):
        raise UsageError(f"{out} is there already.", remedy="Name another file; nothing was written.")


def _put(text: str, out: Path | None) -> int:
    if out is None:
        sys.stdout.write(text)
    else:
        _written(out, text)
        note(f"Next: decide the marked values in {safe(out)}, then: readback contracts check {safe(out)}")
    return 0


def _written(out: Path, text: str) -> None:
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error}.", remedy="Name another file.") from error


class _Listed(NamedTuple):
    """A server's tools and name."""

    tools: Sequence[Mapping[str, Json]]
    name: str
    version: str


def _listed(terms: ServerTerms, limit_s: float) -> _Listed:
    """The server's own list. Raises UpstreamLostError, FittingError, SettingsError."""
    return asyncio.run(_asked(upstream_at("", terms), limit_s))


async def _asked(server: Upstream, limit_s: float) -> _Listed:
    try:
        async with asyncio.timeout(limit_s):
            tools = await server.tools()
        greeting = server.own.greeting
        info = greeting.info if greeting is not None else {}
        return _Listed(tools, str(info.get("name", "")), str(info.get("version", "")))
    except TimeoutError as error:
        raise UpstreamLostError(f"The server did not list its tools within {limit_s:g} s.", remedy=_ALONE) from error
    except UpstreamLostError as error:
        raise UpstreamLostError(error.message, remedy=_ALONE) from error
    finally:
        await server.aclose()
