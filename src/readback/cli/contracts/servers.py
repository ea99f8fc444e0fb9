"""List the tools of servers for `readback contracts check`: start or contact each server, list the tools, and end.

No tool is called. A started server process is always stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from readback.agent_errors import UpstreamLostError
from readback.canon import Json
from readback.cli.optional_deps import of_extra, without_answers
from readback.cli.terminal import safe
from readback.contracts.files.assembly import Loaded
from readback.contracts.files.contract import FileContract
from readback.contracts.files.document import Fault
from readback.contracts.files.templates.injection_checks import sound_header
from readback.contracts.files.tools.listing import Toolbox, fingerprint
from readback.errors import ContractFieldError, SettingsError, UsageError
from readback.ports.system_factory import Reference, ServerTerms

if TYPE_CHECKING:
    from readback.gateway.upstream.upstream import Upstream

TIMEOUT_S: Final = 60.0
Listing: TypeAlias = dict[str, Mapping[str, Json]]
"""A server's tools, by name."""
_ALONE: Final = "Nothing was called. See whether the server starts by itself."


class WithServer(click.Command):
    """A command whose arguments after `--` are a server's own command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        mine, theirs = args, list[str]()
        if "--" in args:
            at = args.index("--")
            mine, theirs = args[:at], args[at + 1 :]
            if not theirs:
                raise UsageError("Nothing stands after --.", remedy="Give the server's command there.")
        ctx.meta[COMMAND] = tuple(theirs)
        return super().parse_args(ctx, mine)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        pieces = " ".join([*self.collect_usage_pieces(ctx), "[-- COMMAND...]"])
        formatter.write_usage(ctx.command_path, pieces)


COMMAND: Final = "readback.contracts.command"
header_option = click.option(
    "--header",
    "headers",
    metavar="NAME=env:VARIABLE",
    multiple=True,
    help="HTTP header for --url, by reference: NAME=env:VARIABLE or NAME=file:PATH; may be repeated.",
)


def references(given: Sequence[str], url: str) -> dict[str, Reference]:
    """Headers of the command line, by reference, because other users can see a literal value. Raises UsageError."""
    found: dict[str, Reference] = {}
    for each in given:
        name, equals, value = each.partition("=")
        kind, colon, where = value.partition(":")
        try:
            sound_header(name, None)
        except ContractFieldError as error:
            raise UsageError(f"--header: {error.message}", remedy=_BY_REFERENCE) from error
        if not (equals and colon and where) or kind not in ("env", "file"):
            raise UsageError(f"--header {name}: its value is no reference.", remedy=_BY_REFERENCE)
        if name.lower() in {known.lower() for known in found}:
            raise UsageError(f"--header {name} is given twice.", remedy="Give it once.")
        found[name] = Reference(kind, where)
    if found and not url:
        raise UsageError("--header belongs to --url.", remedy="Give the address, or leave the header away.")
    return found


_BY_REFERENCE: Final = "Write NAME=env:VARIABLE or NAME=file:PATH; the variable or the file holds the whole value."


def toolbox_of(
    loaded: Loaded, command: Sequence[str], url: str, own: bool, headers: Sequence[str] = ()
) -> Toolbox | None:
    """The tools for the check, or None without a server.

    `own`: also start the servers named in the files. Raises UpstreamLostError, FittingError, SettingsError.
    """
    if command and url:
        raise UsageError("Two servers are named.", remedy="Give a command after --, or --url.")
    referred = references(headers, url)
    if not (command or url or own):
        return None
    wanted: dict[tuple[str, str], ServerTerms] = {}
    if command or url:
        wanted["", ""] = ServerTerms("", ".", tuple(command), url, headers=referred)
    for home in loaded.homes if own else ():
        wanted |= {(home.file, ""): home.server} if home.server is not None and not (command or url) else {}
        wanted |= {("", name): terms for name, terms in home.servers.items()}
    if not wanted:
        raise UsageError("No file names a server.", remedy="Pass the server's command after --, or --url.")
    listed = asyncio.run(_all({key: upstream_at(key[1], terms) for key, terms in wanted.items()}))
    return Toolbox(
        listed.get(("", "")),
        {name: tools for (_, name), tools in listed.items() if name},
        {file: tools for (file, name), tools in listed.items() if file and not name},
    )


def tools_of(command: Sequence[str], url: str, headers: Sequence[str] = ()) -> Listing:
    """Return the tools of one server. Raises UsageError, UpstreamLostError, SettingsError."""
    if bool(command) is bool(url):
        raise UsageError("Exactly one server is needed.", remedy="Pass the server's command after --, or --url.")
    terms = ServerTerms("", ".", tuple(command), url, headers=references(headers, url))
    return asyncio.run(_all({("", ""): upstream_at("", terms)}))["", ""]


def pins_broken(contract: FileContract, toolbox: Toolbox) -> list[Fault]:
    """Tools whose definition differs from the contract's pin."""
    tool = toolbox.of(contract.home.file).tool("", contract.tool) if contract.tool_sha256 else None
    if tool is None or not tool.defined:
        return []
    found = fingerprint(tool.definition)
    if found == contract.tool_sha256:
        return []
    said = f"The server's tool {contract.tool!r} is not the one that is pinned: its SHA-256 is {found}."
    remedy = "Check the changes of the tool; then pin this hash."
    return [Fault(contract.place, f"contracts.{contract.name}.tool_sha256", said, remedy, "contract.tool-changed")]


def told(toolbox: Toolbox) -> list[str]:
    """The contacted servers, in words."""
    counted = [("The server", toolbox.own)] if toolbox.own is not None else []
    counted += [(f"The server of {safe(file)}", tools) for file, tools in toolbox.files.items()]
    counted += [(f"The server {safe(name)}", tools) for name, tools in toolbox.others.items()]
    return [
        f"{name} has {len(tools)} {'tool' if len(tools) == 1 else 'tools'}; none was called." for name, tools in counted
    ]


def upstream_at(name: str, terms: ServerTerms) -> Upstream:
    """Return an unstarted server. Raises UsageError for an address of another kind."""
    if isinstance(terms.url, str) and terms.url and not terms.url.startswith(("http://", "https://")):
        raise UsageError(f"{safe(terms.url)} is no address.", remedy="Write http://HOST:PORT/PATH or https://...")
    with of_extra("mcp", "Reading a server's tools"):
        from readback.gateway.gateway import upstream_of
    without_answers()
    return upstream_of(name, terms)


async def _all(servers: Mapping[tuple[str, str], Upstream]) -> dict[tuple[str, str], Listing]:
    """Ask one server after another, so that messages do not mix."""
    return {key: await _listed(key, server) for key, server in servers.items()}


async def _listed(key: tuple[str, str], server: Upstream) -> Listing:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            tools = await server.tools()
    except TimeoutError as error:
        raise UpstreamLostError(f"The server did not list its tools within {TIMEOUT_S:g} s.", remedy=_ALONE) from error
    except UpstreamLostError as error:
        raise UpstreamLostError(error.message, remedy=_ALONE) from error
    except OSError as error:
        raise SettingsError(f"The server cannot be started: {error}.", remedy=_ALONE) from error
    finally:
        await server.aclose()
    return {str(tool.get("name", "")): tool for tool in tools}
