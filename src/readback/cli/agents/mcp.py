"""`readback mcp`: the gateway in front of MCP servers, for one client over stdio or for many over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import click

from readback.agent_errors import UpstreamLostError
from readback.cli import options
from readback.cli.gc_tuning import SERVING, undisturbed
from readback.cli.optional_deps import of_extra, without_answers
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.config import Settings, is_contract_file, secret_at
from readback.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from readback.gateway.actions import ActionServer
    from readback.gateway.gateway import Gateway
    from readback.gateway.upstream.upstream import Upstream


# The HTTP headers of `readback mcp --header`: named on the command line, their values given by reference.

REMEDY: Final = "Write --header NAME=@FILE (or =env:VARIABLE); of several servers --header SERVER:NAME=@FILE."
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = re.compile(r"(?i)host|connection|content-.*|transfer-encoding|accept|last-event-id|mcp-.*|te|upgrade")
"""Headers written by the gateway. Another value would change the request for the server."""
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")


def server_headers(given: Sequence[str], keys: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the headers of each server, by key ("" for a single server).

    Raises:
        UsageError: A header is malformed, or names no server.
        SettingsError: A reference names no value. The message never holds a value.
    """
    found: dict[str, dict[str, str]] = {}
    for each in given:
        key, name, reference = _parted(each, keys)
        if name.lower() in (known.lower() for known in found.get(key, {})):
            raise UsageError(f"The header {safe(name)} is given twice.", remedy="Give it once.")
        found.setdefault(key, {})[name] = _value(name, reference)
    return found


def _parted(given: str, keys: Sequence[str]) -> tuple[str, str, str]:
    """Server, name and reference. An error never repeats the text, because the text may hold the secret value."""
    head, _, named = given.partition("=")
    server, colon, name = head.rpartition(":")
    reference = f"file:{named[1:]}" if named.startswith("@") else named
    kind, _, where = reference.partition(":")
    if not where or kind not in ("file", "env") or not _NAME.fullmatch(name):
        raise UsageError("--header needs a header by reference.", remedy=REMEDY)
    if _OURS.fullmatch(name):
        raise UsageError(f"The header {safe(name)} is the gateway's own.", remedy="Leave it out.")
    if colon and server not in keys:
        raise UsageError(f"--header names the server {safe(server)}, and no --url has this name.", remedy=REMEDY)
    if not colon and len(keys) > 1:
        raise UsageError(f"The header {safe(name)} names no server.", remedy=REMEDY)
    return server if colon else keys[0], name, reference


def _value(name: str, reference: str) -> str:
    """The referenced value without the line end."""
    try:
        value = secret_at(reference).decode("ascii")
    except UnicodeDecodeError:
        value = ""
    if not _VALUE.fullmatch(value):
        raise SettingsError(
            f"{safe(reference)} holds no value of the header {safe(name)}.",
            remedy="Write one line of printable characters into the file.",
        )
    return value


LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
HOLD_MAX_S: Final = 3600.0
IDLE_MAX_S: Final = 86_400.0
COUNT_MAX: Final = 10_000
READS_MAX_CHARACTERS: Final = 65_536
URL_REMEDY: Final = "Write http://HOST:PORT/PATH or https://..."


@click.command("mcp")
@click.option(
    "--contracts",
    "files",
    metavar="FILE",
    multiple=True,
    help="A contract file (.yaml), or pack:NAME; may be repeated (READBACK_CONTRACTS, separated by commas).",
)
@click.option(
    "--actions",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="A Python module; its decorated actions and sagas are the tools, and no server is needed. May be repeated.",
)
@click.option(
    "--url",
    "urls",
    metavar="URL",
    multiple=True,
    help="A streamable HTTP server. For several servers use NAME=URL; their tools are named NAME__tool.",
)
@click.option(
    "--serve",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="stdio serves one client; http serves many clients over streamable HTTP.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the HTTP server.")
@click.option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    help="Another host name used by clients, besides --host; may be repeated. Required with 0.0.0.0 and ::.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port of the HTTP server; 0 selects a free port.",
)
@click.option(
    "--hold",
    type=click.FloatRange(0, HOLD_MAX_S),
    default=45.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds until a caller receives a pending answer.",
)
@click.option(
    "--ungoverned",
    type=click.Choice(["pass", "unverified", "deny"]),
    default="unverified",
    show_default=True,
    help="Tools without a contract: pass on, pass on with a mark, or refuse.",
)
@click.option(
    "--header",
    "headers",
    metavar="[SERVER:]NAME=@FILE",
    multiple=True,
    help=(
        "HTTP header for the server of --url, with the value read from a file. SERVER selects one of several servers."
    ),
)
@click.option(
    "--sessions-max",
    type=click.IntRange(1, COUNT_MAX),
    default=256,
    show_default=True,
    metavar="N",
    help="Maximum number of open HTTP sessions; further sessions are refused.",
)
@click.option(
    "--session-idle",
    type=click.FloatRange(0, IDLE_MAX_S, min_open=True),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds until an HTTP session without a request or an open stream ends.",
)
@click.option(
    "--servers-max",
    type=click.IntRange(1, COUNT_MAX),
    default=64,
    show_default=True,
    metavar="N",
    help="Maximum number of COMMAND processes for HTTP sessions.",
)
@click.option(
    "--shadow",
    is_flag=True,
    help="Hand on every answer unchanged: watch tools without a contract, and judge contracts that the settings allow.",
)
@click.option(
    "--reads",
    "reads",
    metavar="NAMES",
    multiple=True,
    help=(
        "With --shadow: reading tools to call before and after each call, separated by commas, or @FILE. "
        "TOOL=READING names a pair."
    ),
)
@click.option("--ledger-url", metavar="URL", help="The ledger (READBACK_URL; else sqlite:///readback.db).")
@click.option("--tenant", metavar="ID", help="The tenant (READBACK_TENANT; else default).")
@click.option("--principal", metavar="ID", help="The acting principal (READBACK_PRINCIPAL; else agent:local).")
@options.as_json
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
def mcp(
    files: tuple[str, ...],
    modules: tuple[str, ...],
    urls: tuple[str, ...],
    serve: str,
    host: str,
    allow_hosts: tuple[str, ...],
    port: int,
    hold: float,
    ungoverned: str,
    headers: tuple[str, ...],
    sessions_max: int,
    session_idle: float,
    servers_max: int,
    shadow: bool,
    reads: tuple[str, ...],
    ledger_url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run the gateway: read back the effect of each governed tool call before the client receives an answer.

    The server is the COMMAND after `--`, or one or several --url, or else the `server` sections of the contract files.
    A governed tool answers with the verdict; all other traffic passes unchanged. The gateway ends after the client
    closes stdin and has its answers, or by SIGINT or SIGTERM. All started processes end, too. The next gateway on the
    same ledger, or `readback worker`, resumes calls in progress. SIGHUP reloads the contract files. With --json,
    --serve http prints its address on stdout; with stdio, stdout carries only the protocol.

    With --actions, the actions and sagas of a Python module are the tools: each call acts, is read back, and answers
    with the verdict.
    """
    limits: dict[str, Any] = {"sessions_max": sessions_max, "session_idle": session_idle, "allow_hosts": allow_hosts}
    watch: dict[str, Any] = {"shadow": shadow, "reads": reading_names(reads)}
    if modules:
        _check_alone(command, urls, headers, files)
        _check_unwatched(shadow=shadow, reads=reads)
        settings = settings_of(ledger_url, tenant, principal)
        served: Served = _action_server(settings, modules, hold, serve, host, allow_hosts)
    else:
        _check_reads(shadow=shadow, reads=reads)
        settings = settings_of(ledger_url, tenant, principal, files)
        served = _gateway(
            settings, command, urls, headers, hold, ungoverned, servers_max, serve, host, allow_hosts, watch
        )
    if serve == "http" and host not in LOOPBACK:
        note(f"Warning: every client that reaches {safe(host)} may call these tools; there is no login.")
    with undisturbed(SERVING), asyncio.Runner(loop_factory=_event_loop()) as runner:
        runner.run(_until_stopped(served, _serving(served, serve, host, port, limits, as_json=as_json)))
    return 0


def _gateway(
    settings: Settings,
    command: Sequence[str],
    urls: Sequence[str],
    headers: Sequence[str],
    hold: float,
    ungoverned: str,
    servers_max: int,
    serve: str,
    host: str,
    allow_hosts: Sequence[str],
    watch: Mapping[str, Any],
) -> Gateway:
    """The gateway before the named servers."""
    contracts = _contracts(settings, command)
    with of_extra("mcp", "The gateway"):
        from readback.gateway.gateway import Gateway
        from readback.host_names import names_of
    without_answers()
    if serve == "http":
        names_of(host, allow_hosts)  # before any server is started for an address that cannot be guarded
    upstreams = _upstreams(command, urls, contracts, settings, headers)
    return Gateway(
        upstreams,
        contracts,
        url=settings.url,
        tenant=settings.tenant,
        principal=settings.principal,
        hold=hold,
        ungoverned=ungoverned,
        pins=dict(settings.contract_pins),
        servers_max=servers_max,
        **watch,
    )


def _check_alone(command: Sequence[str], urls: Sequence[str], headers: Sequence[str], files: Sequence[str]) -> None:
    """Raise UsageError for a server beside --actions."""
    if command or urls or headers or files:
        raise UsageError(
            "--actions serves a module's own actions, and a server, a header or a contract file is named too.",
            remedy="Run two: `readback mcp --actions MODULE`, and `readback mcp` in front of the server.",
        )


def _check_unwatched(*, shadow: bool, reads: Sequence[str]) -> None:
    """Raise UsageError for --shadow beside --actions."""
    if shadow or reads:
        raise UsageError(
            "--shadow watches the tools of a server, and --actions has no server.",
            remedy="State mode: shadow in the contracts, and allow them in the settings.",
        )


def _check_reads(*, shadow: bool, reads: Sequence[str]) -> None:
    """Raise UsageError for --reads without --shadow."""
    if reads and not shadow:
        raise UsageError("--reads names reading tools for --shadow, and --shadow is missing.", remedy="Add --shadow.")


def reading_names(given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of --reads: separated by commas, or a line each in @FILE. Raises SettingsError."""
    from readback.contracts.documents.own_files import keep

    found: list[str] = []
    for each in given:
        if each.startswith("@"):
            keep(each[1:])
            try:
                with open(each[1:], encoding="utf-8") as file:
                    found += [line for line in file.read(READS_MAX_CHARACTERS).splitlines() if line.strip()]
            except (OSError, ValueError) as error:
                raise SettingsError(
                    f"--reads {safe(each)} cannot be read: {error}.", remedy="Name a text file."
                ) from error
        else:
            found += each.split(",")
    return tuple(each.strip() for each in found)


def _action_server(
    settings: Settings, modules: Sequence[str], hold: float, serve: str, host: str, allow_hosts: Sequence[str]
) -> ActionServer:
    """The server of the modules' actions and sagas. Raises UsageError for modules without any, ContractError."""
    with of_extra("mcp", "The server of actions"):
        from readback.gateway.actions import ActionServer
        from readback.host_names import names_of
    without_answers()
    if serve == "http":
        names_of(host, allow_hosts)
    return ActionServer(
        offered(modules), url=settings.url, tenant=settings.tenant, principal=settings.principal, hold=hold
    )


def offered(modules: Sequence[str]) -> list[Any]:
    """The actions and sagas of the modules, as tools. An action that only reverses another one is no tool."""
    from readback.cli.contract_modules import allow_modules
    from readback.contracts.registry import registry_of
    from readback.kit import SagaDefinition

    allow_modules(os.getcwd(), modules)
    registry = registry_of(modules)
    registry.load()
    found: list[Any] = [registry.get(name) for name in registry]
    reversing = {id(each.compensation) for each in found if each.compensation is not None}
    named = [value for each in modules for value in vars(sys.modules[each]).values()]
    sagas = {id(value): value for value in named if isinstance(value, SagaDefinition)}
    return [*(each for each in found if id(each) not in reversing), *sagas.values()]


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop if installed, else asyncio's. The extra installs uvloop where available."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return new_event_loop


def _contracts(settings: Settings, command: Sequence[str]) -> list[str]:
    """The contract files, with packs completed from the server's command. Raises UsageError for modules."""
    from readback.contracts.packs import completed

    for named in settings.contracts:
        if not is_contract_file(named):
            raise UsageError(
                f"{safe(named)} is no contract file: a gateway knows tools by contract files alone.",
                remedy="Name a .yaml file, or pack:NAME.",
            )
    return [completed(named, command, os.environ) for named in settings.contracts]


def _upstreams(
    command: Sequence[str],
    urls: Sequence[str],
    contracts: Sequence[str],
    settings: Settings,
    headers: Sequence[str] = (),
) -> list[Upstream]:
    """The servers of the command line, else of the contract files. Raises UsageError."""
    from readback.gateway.upstream.upstream import Upstream

    if command and urls:
        raise UsageError(
            "A command and a --url are given.",
            remedy="For several servers give each as --url NAME=URL, or in contract files' `server` sections.",
        )
    if headers and not urls:
        raise UsageError(
            "--header needs a --url.",
            remedy="Name the server by --url, or write `headers` into the contract file's `server` section.",
        )
    if command:
        return [Upstream.command(command)]
    if urls:
        named = _named(urls)
        given = server_headers(headers, [key for key, _ in named])
        return [_endpoint(key, url, given.get(key, {})) for key, url in named]
    found = _of_files(contracts, settings)
    if not found:
        raise UsageError(
            "No server is named.",
            remedy="Pass the server's command after --, or --url, or add a `server` section to a contract file.",
        )
    return found


def _endpoint(key: str, url: str, headers: Mapping[str, str]) -> Upstream:
    """A server of --url with its headers."""
    from readback.gateway.upstream.upstream import Endpoint, Upstream
    from readback.systems.configured.settings import Credentials

    address = urlsplit(url)
    if headers and address.scheme == "http" and address.hostname not in LOOPBACK:
        note(f"Warning: the --header goes to {safe(str(address.hostname))} without encryption; use https.")
    return Upstream(Endpoint(url, headers or None), key=key, secrets=Credentials(headers.values()))


def _named(urls: Sequence[str]) -> list[tuple[str, str]]:
    """The key and address of each server."""
    found = []
    for each in urls:
        name, equals, url = each.partition("=")
        named = bool(equals) and "/" not in name and ":" not in name
        key, address = (name, url) if named else ("", each)
        if not address.startswith(("http://", "https://")):
            raise UsageError(f"{safe(each)} is no address.", remedy=URL_REMEDY)
        try:
            urlsplit(address)
        except ValueError as error:  # it may hold a password, and is not repeated
            raise UsageError(f"--url is not an address: {error}.", remedy=URL_REMEDY) from error
        if len(urls) > 1 and not key:
            raise UsageError("With several servers, each needs a name.", remedy="Write --url NAME=URL for each.")
        found.append((key, address))
    return found


def _of_files(contracts: Sequence[str], settings: Settings) -> list[Upstream]:
    """The servers of the files' `server` sections. With several servers the file's name is the key."""
    from pathlib import Path

    from readback.client.files import loaded_files
    from readback.gateway.gateway import upstream_of

    if not contracts:
        return []
    loaded = loaded_files(contracts, pins=dict(settings.contract_pins))
    named = [(Path(home.file).stem, home.server) for home in loaded.homes if home.server is not None]
    kept = [(key, terms) for n, (key, terms) in enumerate(named) if terms not in [each for _, each in named[:n]]]
    if len({key for key, _ in kept}) < len(kept):
        raise SettingsError("Two contract files of the same name have servers of their own.", remedy="Rename one.")
    return [upstream_of(key if len(kept) > 1 else "", terms) for key, terms in kept]


Served: TypeAlias = "Gateway | ActionServer"
Serving = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


def _serving(gateway: Served, serve: str, host: str, port: int, limits: Mapping[str, Any], *, as_json: bool) -> Serving:
    def listening(url: str) -> None:
        if as_json:
            print_json({"url": url})
            sys.stdout.flush()
        else:
            note(f"Serving on {url}")

    async def serving(stop: asyncio.Event) -> None:
        if serve == "stdio":
            await gateway.serve_stdio(stop=stop)
        else:
            await gateway.serve_http(host, port, stop=stop, on_listening=listening, **limits)

    return serving


async def _until_stopped(gateway: Served, serving: Serving) -> None:
    """Serve until the client leaves or a signal arrives. An early signal ends the start."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    work: asyncio.Task[None]
    started = False

    def stopped() -> None:
        stop.set()
        if not started:
            work.cancel()

    async def run() -> None:
        nonlocal started
        async with gateway:
            started = True
            await serving(stop)

    work = asyncio.ensure_future(run())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped)
    gateway.reload_on_hangup()  # from the start: an unhandled hangup would leave servers behind
    try:
        await work
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    except UpstreamLostError as error:
        if started:
            raise
        remedy = "Nothing was called. See whether the server starts by itself."
        raise UpstreamLostError(
            error.message, remedy=error.remedy if error.details.get("denied") else remedy
        ) from error
