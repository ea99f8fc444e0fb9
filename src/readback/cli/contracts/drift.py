"""`readback contracts drift`: compare contracts with the live server and source since the last verified use."""

from __future__ import annotations

from typing import Final

import click

from readback import bootstrap
from readback.agent_errors import UpstreamLostError
from readback.assurance.drift.checking import drift_of
from readback.assurance.drift.findings import Change, ContractDrift, Drift
from readback.assurance.history.recorded import is_ledger, ledger_url
from readback.assurance.results import Standing, worst
from readback.assurance.watched.calls import WatchedCall, calls
from readback.canon import Json
from readback.cli import options
from readback.cli.contracts.servers import COMMAND, WithServer, header_option, toolbox_of
from readback.cli.sessions import settings_of
from readback.cli.terminal import moment, note, print_json, safe
from readback.client.files import loaded_files
from readback.config import Settings, is_contract_file
from readback.contracts.files.assembly import Loaded, line_of
from readback.contracts.files.tools.listing import Toolbox
from readback.errors import FittingError, NotFoundError, SettingsError, UsageError

LINE_MAX_CHARACTERS: Final = 900


@click.command("drift", cls=WithServer, short_help="Compare contracts with the live systems.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--from", "ledger", metavar="URL", help="The ledger with the recorded uses (READBACK_URL).")
@click.option("--url", metavar="URL", help="Compare with the tools of this streamable HTTP server.")
@header_option
@click.option("--server", "own", is_flag=True, help="Start the servers named in the files, and compare the tools.")
@click.option("--contract", "only", metavar="NAME", multiple=True, help="Only this contract; may be repeated.")
@options.as_json
@click.pass_context
def drift(
    ctx: click.Context,
    files: tuple[str, ...],
    ledger: str | None,
    url: str | None,
    headers: tuple[str, ...],
    own: bool,
    only: tuple[str, ...],
    as_json: bool,
) -> int:
    """Compare each contract with its last verified use on record: the tool's inputs, the fields and types of the
    source, error habits and latencies.

    Each difference is changed, gone or new, with the parts of the contract at risk. The readers are asked again for the
    recorded targets. No tool is called, and the ledger is only read. The command of an MCP server may follow after
    `--`.

    \b
    Exit code 0: no difference puts anything at risk; 1: one does; 3: a source or
    server gave no answer, or no verified use is on record; 5: the files are
    refused.
    """
    url_of_ledger = ledger_url(ledger) if ledger and is_ledger(ledger) else ledger
    settings = settings_of(url=url_of_ledger, modules=files)
    loaded = _loaded(settings)
    for name in only:
        if name not in loaded.contracts:
            remedy = f"There are: {', '.join(loaded.contracts)}."
            raise NotFoundError(f"There is no contract {name!r:.80}.", remedy=remedy)
    chosen = {name: each for name, each in loaded.contracts.items() if not only or name in only}
    server, toolbox = _server(loaded, tuple(ctx.meta.get(COMMAND, ())), url or "", own, headers)
    server += _broken(settings, toolbox)
    by_name = _recorded(settings.url, chosen)
    clock = bootstrap.runtime()
    found = [
        drift_of(
            each,
            by_name.get(name, []),
            principal=settings.principal,
            clock_us=clock.now_us,
            toolbox=toolbox,
        )
        for name, each in chosen.items()
    ]
    return _told(found, server, as_json=as_json)


def _loaded(settings: Settings) -> Loaded:
    named = [name for name in settings.contracts if is_contract_file(name)]
    if not named:
        raise UsageError("No contract file is named.", remedy="Name one: a file that ends in .yaml or .yml, or a pack.")
    return loaded_files(named, pins=dict(settings.contract_pins)).sound()


def _server(
    loaded: Loaded, command: tuple[str, ...], url: str, own: bool, headers: tuple[str, ...]
) -> tuple[list[Drift], Toolbox | None]:
    """Return the live tools, or a difference for a server without an answer."""
    try:
        return [], toolbox_of(loaded, command, url, own, headers)
    except (UpstreamLostError, FittingError, SettingsError) as error:
        return [Drift(Change.UNSEEN, "server", url or " ".join(command) or "the files' servers", error.message)], None


def _broken(settings: Settings, toolbox: Toolbox | None) -> list[Drift]:
    """Return the faults of the files beside the live tools: the contract no longer compiles against the server."""
    if toolbox is None:
        return []
    again = loaded_files(
        [name for name in settings.contracts if is_contract_file(name)],
        pins=dict(settings.contract_pins),
        toolbox=toolbox,
    )
    return [
        Drift(Change.CHANGED, "contract", fault.path, line_of(file, fault), (fault.path,))
        for file, fault in again.faults
    ]


def _recorded(url: str, names: dict[str, object] | object) -> dict[str, list[WatchedCall]]:
    wanted = list(names) if isinstance(names, dict) else []
    found: dict[str, list[WatchedCall]] = {}
    store = bootstrap.store(url, read_only=True)
    try:
        for each in calls(store, wanted):
            found.setdefault(each.contract, []).append(each)
    finally:
        store.close()
    return found


def _told(found: list[ContractDrift], server: list[Drift], *, as_json: bool) -> int:
    standing = worst([*(each.standing for each in found), *(each.standing for each in server)])
    code = standing.exit_code
    if as_json:
        listed: list[Json] = [each.as_json() for each in found]
        beside: list[Json] = [each.as_json() for each in server]
        print_json({"standing": standing.value, "contracts": listed, "server": beside, "exit_code": code})
        return code
    for one in server:
        print(safe(_line(one), LINE_MAX_CHARACTERS))
    for each in found:
        last = f"last verified {moment(each.last_us)}" if each.last else "never verified here"
        many = sum(each.compared.values())
        print(safe(f"{each.standing.value}: {each.contract}: {many} parts compared, {last}", LINE_MAX_CHARACTERS))
        for one in each.found:
            print(safe(f"  {_line(one)}", LINE_MAX_CHARACTERS))
    if standing is Standing.UNDETERMINED:
        note("Not everything was compared: undetermined is not the absence of drift.")
    return code


def _line(one: Drift) -> str:
    risk = f" (at risk: {', '.join(one.at_risk)})" if one.at_risk else ""
    named = f" {one.name}" if one.name and one.name not in one.said else ""
    return f"{one.change.value}: {one.subject}{named}: {one.said}{risk}"
