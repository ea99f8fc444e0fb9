"""`readback serve`: the HTTP API and the console on a ledger."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click

from readback.bootstrap import MEMORY_URL
from readback.cli import options
from readback.cli.demo_and_bench import run_demo
from readback.cli.gc_tuning import SERVING, undisturbed
from readback.cli.optional_deps import of_extra
from readback.cli.sessions import load_contracts, settings_of
from readback.cli.terminal import note, print_json
from readback.config import Settings
from readback.errors import SettingsError

if TYPE_CHECKING:
    from readback.contracts.registry import Registry
    from readback.server.settings import ServerSettings


DEMO_FOLDER: Final = "readback-demo"
DEMO_TENANT: Final = "acme"
DEMO_PERSON: Final = "human:visitor"


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the server.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8787,
    show_default=True,
    help="Port of the server; 0 selects a free port.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    help="Another host name used by clients, besides --host; may be repeated. Required with 0.0.0.0 and ::.",
)
@click.option(
    "--without-tokens",
    is_flag=True,
    help="Serve without authentication, with every right of --tenant and --principal. Loopback only.",
)
@click.option("--tokens", "tokens_file", metavar="FILE", help="The file of tokens (READBACK_TOKENS_FILE).")
@click.option("--config", "config_file", metavar="FILE", help="Identity providers and webhooks (else server.toml).")
@click.option(
    "--demo",
    "shows_demo",
    is_flag=True,
    help="Show the demo's ledger in ./readback-demo without tokens; run the demo first where there is none.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of processes behind the address. Each takes a processor; a token's rate counts in each.",
)
@click.option("--no-worker", is_flag=True, help="Leave due actions to `readback worker`.")
@options.contracts
@options.table
@options.ledger
@options.as_json
def serve(
    host: str,
    port: int,
    allow_hosts: tuple[str, ...],
    without_tokens: bool,
    tokens_file: str | None,
    config_file: str | None,
    shows_demo: bool,
    processes: int,
    no_worker: bool,
    modules: tuple[str, ...],
    table: str | None,
    url: str | None,
    tenant: str | None,
    principal: str | None,
    as_json: bool,
) -> int:
    """Serve the HTTP API and the console on a ledger.

    Clients authenticate with tokens of `readback token create`, or of an identity provider in --config. The server
    stops at SIGINT or SIGTERM, after the requests in flight.
    """
    with of_extra("server", "The HTTP server"):
        from readback.server.settings import ServerSettings, server_document, tokens_path
    document = server_document(config_file)
    if shows_demo:
        url, tenant, principal = demo_ledger(), DEMO_TENANT, principal or DEMO_PERSON
    server_settings = ServerSettings(
        host=host,
        port=port,
        allow_hosts=allow_hosts,
        open_access=without_tokens or shows_demo,
        tokens_file=str(tokens_path(tokens_file)),
        issuers=tuple(document.oidc.items()),
        webhooks=tuple(document.webhooks.items()),
        worker=not (no_worker or shows_demo),
        processes=processes,
    ).check()
    settings = settings_of(url, tenant, principal, modules, table)
    if not server_settings.open_access and not server_settings.issuers:
        note_missing_token(server_settings.tokens_file)
    if processes == 1:
        registry = load_contracts(settings, needed=False)
        with undisturbed(SERVING):
            run(settings, server_settings, registry, as_json=as_json)
    else:
        run_processes(settings, server_settings, as_json=as_json)
    return 0


def demo_ledger() -> str:
    """Return the URL of the demo's ledger in the working folder, after the demo where there is none."""
    ledger = Path(DEMO_FOLDER).absolute() / "ledger.db"
    if not ledger.is_file():
        with redirect_stdout(sys.stderr):
            run_demo(False, ledger.parent)
    return f"sqlite:///{quote(str(ledger))}"


def note_missing_token(tokens_file: str) -> None:
    """Say that every request is refused, where the file of tokens has no token."""
    from readback.server.access.tokens import TokenFile

    file = TokenFile(tokens_file)
    if not file.entries():
        note(f"There is no token in {file.path}, so every request is refused. Next: readback token create --help")


def run(settings: Settings, server_settings: ServerSettings, registry: Registry | None, *, as_json: bool) -> None:
    """Serve in this process until a signal arrives. Raises as `server.serving.serve`."""
    with of_extra("server", "The HTTP server"):
        from readback.server.serving import serve as serve_http

    def listening(url: str) -> None:
        _tell(url, as_json=as_json)

    _until_stopped(lambda stop: serve_http(settings, server_settings, registry, stop=stop, on_listening=listening))


def run_processes(settings: Settings, server_settings: ServerSettings, *, as_json: bool) -> None:
    """Serve in several processes until a signal arrives. Raises as `run`, and SettingsError for a ledger in memory."""
    with of_extra("server", "The HTTP server"):
        from readback.server.processes import divide
        from readback.server.serving import listening, serve_channel, url_of

    if settings.url == MEMORY_URL:
        raise SettingsError("Several processes cannot share a ledger in memory.", remedy="Name a ledger with --url.")
    with listening(server_settings.host, server_settings.port) as listener:
        url = url_of(server_settings.host, listener)
        with _folder() as folder:
            channel = divide(listener, server_settings.processes, lambda: _tell(url, as_json=as_json))
            if channel is None:
                return
    # One of the processes from here on. Contracts are loaded here: they may start threads, which a fork would lose.
    shared = replace(server_settings, shared=folder)
    registry = load_contracts(settings, needed=False)
    with undisturbed(SERVING), channel:
        _until_stopped(lambda stop: serve_channel(settings, shared, registry, channel, stop=stop))


@contextmanager
def _folder() -> Iterator[str]:
    """Yield a private folder for all processes. The first process deletes the folder; the others leave it behind."""
    first, folder = os.getpid(), mkdtemp(prefix="readback-serve-")
    try:
        yield folder
    finally:
        if os.getpid() == first:
            rmtree(folder, ignore_errors=True)


def _tell(url: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"url": url})
        sys.stdout.flush()
    else:
        note(f"Serving on {url}")


def _until_stopped(serving: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> None:
    """Run until the stop is set by a signal or by the work itself."""

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await serving(stop)

    with asyncio.Runner(loop_factory=_event_loop()) as runner:
        runner.run(run())


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop where installed, else asyncio's."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return new_event_loop
