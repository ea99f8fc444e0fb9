"""`readback contracts`: contract files checked, listed and shown, and their JSON Schema.

Nothing is executed and no ledger is opened. `check` also asks each reader for a target that does not exist.
"""

from __future__ import annotations

from dataclasses import replace

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.contracts.draft import draft
from readback.cli.contracts.packs import list_packs
from readback.cli.contracts.servers import COMMAND, WithServer, header_option, pins_broken, toolbox_of
from readback.cli.contracts.servers import told as servers_told
from readback.cli.sessions import load_contracts, settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.files import loaded_files
from readback.client.operations.probing import Probe, probed
from readback.config import Settings, is_contract_file
from readback.contracts.files.assembly import Loaded, described, line_of
from readback.contracts.files.contract import GATEWAY, FileContract
from readback.contracts.files.tools.listing import Toolbox
from readback.contracts.packs import completed, is_pack, pack_named
from readback.domain.contract.contract import describe
from readback.errors import NotFoundError, UsageError

EXIT_REFUSED = 5
EXIT_FAULT = 1
LINE_MAX_CHARACTERS = 900


@click.group("contracts")
def contracts() -> None:
    """Check, list or show the contracts of files.

    A contract file says in YAML what decorators say in Python; `docs/contract-files.md` has its keys.
    """


@contracts.command("check", cls=WithServer, short_help="Are these files sound, and can their readers read?")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--offline", is_flag=True, help="Reach no system: check the files alone.")
@click.option("--url", metavar="URL", help="Check against the tools of this server, by streamable HTTP.")
@header_option
@click.option("--server", "own", is_flag=True, help="Start the servers that the files name, and check against them.")
@click.option("--tenant", metavar="ID", help="For whom the readers are asked (READBACK_TENANT; else default).")
@options.as_json
@click.pass_context
def check(
    ctx: click.Context,
    files: tuple[str, ...],
    offline: bool,
    url: str | None,
    headers: tuple[str, ...],
    own: bool,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Name every fault of the files with its line and column; then ask each reader for a target that does not exist,
    and each search for a stamp that nobody was given.

    Python modules (`package.module`) are loaded, and what their contracts assume is listed.

    Without FILE the files of the settings are checked. Nothing is executed, and no ledger is opened. After -- stands
    the command of an MCP server: it is started, the contracts are checked against what its tools take and give, and
    it is stopped. No tool is called.

    \b
    Exit code 0: sound; 1: a reader cannot read; 3: the server did not answer; 5: the files are not used.
    """
    settings = settings_of(tenant=tenant, modules=files)
    if settings.contracts and not any(is_contract_file(name) for name in settings.contracts):
        return _check_modules(settings, as_json)
    command = tuple(ctx.meta.get(COMMAND, ()))
    if offline and (command or url or own or headers):
        raise UsageError("--offline reaches no system, and a server is named.", remedy="Leave one of them away.")
    loaded, toolbox = _against(settings, command, url or "", own, headers)
    probes: list[Probe] = []
    if not loaded.faults and not offline:
        probes = [
            each for one in loaded.contracts.values() for each in probed(one, settings.tenant, settings.principal)
        ]
    code = EXIT_REFUSED if loaded.faults else EXIT_FAULT if any(not each.sound for each in probes) else 0
    if as_json:
        print_json(_checked(loaded, probes, code, toolbox))
        return code
    for file, fault in loaded.faults:
        print(safe(line_of(file, fault), LINE_MAX_CHARACTERS))
    if loaded.faults:
        many = f"{len(loaded.faults)} {'fault' if len(loaded.faults) == 1 else 'faults'}"
        note(f"{many}: nothing of these files is used.")
        return code
    for home in loaded.homes:
        count = sum(1 for each in loaded.contracts.values() if each.home.file == home.file)
        print(f"{safe(home.file)}: {count} {'contract' if count == 1 else 'contracts'}, sound. sha256 {home.sha256}")
    for each in probes:
        word = "ok" if each.sound else "fault"
        print(safe(f"{word}: {each.contract}: {each.reader}: {each.said}", LINE_MAX_CHARACTERS))
    for said in _notes(loaded, toolbox):
        note(said)
    return code


def _check_modules(settings: Settings, as_json: bool) -> int:
    """The contracts of Python modules, with what each assumes. Raises ContractError with all faults."""
    registry = load_contracts(settings, needed=True)
    assert registry is not None
    plans = registry.load()
    if as_json:
        found: dict[str, Json] = {name: [*plan.contract.assumed] for name, plan in plans.items()}
        print_json({"contracts": [*plans], "assumed": found, "exit_code": 0})
        return 0
    for name, plan in plans.items():
        print(f"ok: {safe(name)}, sound. sha256 {plan.contract.hash}")
        for line in plan.contract.assumed:
            print(safe(f"  assumed: {line}", LINE_MAX_CHARACTERS))
    return 0


def _against(
    settings: Settings, command: tuple[str, ...], url: str, own: bool, headers: tuple[str, ...]
) -> tuple[Loaded, Toolbox | None]:
    """The files, checked against the tools of servers where any are named; a pack is told by its server's command."""
    settings = replace(settings, contracts=tuple(completed(each, command) for each in settings.contracts))
    loaded = _loaded(settings)
    toolbox = toolbox_of(loaded, command, url, own, headers)
    if toolbox is None:
        return loaded, None
    again = _loaded(settings, toolbox)
    broken = [(each.home.file, fault) for each in again.contracts.values() for fault in pins_broken(each, toolbox)]
    return replace(again, faults=(*again.faults, *broken)), toolbox


@contracts.command("list", short_help="The contracts of the files.")
@options.contracts
@options.as_json
def list_contracts(modules: tuple[str, ...], as_json: bool) -> int:
    """The contracts of the files, with their kind, class, version and hash, and the SHA-256 of each file.

    Where no file is named: the packs that come with the package, each with its server and its parameters.
    """
    settings = settings_of(modules=modules)
    if not any(is_contract_file(name) for name in settings.contracts):
        return list_packs(as_json)
    loaded = _loaded(settings).sound()
    if as_json:
        print_json({"files": _files(loaded), "contracts": [_listed(each) for each in loaded.contracts.values()]})
        return 0
    for each in loaded.contracts.values():
        terms = each.plan.contract
        said = f"{terms.kind.value}  {terms.side_effect.value}  version {safe(terms.version)}  {terms.hash[:12]}"
        print(f"{safe(each.name)}  {said}  {safe(each.home.file)}:{each.place.line}")
    for home in loaded.homes:
        note(f"{safe(home.file)}  sha256 {home.sha256}")
    return 0


@contracts.command("show", cls=WithServer, short_help="One contract, as it was understood.")
@click.argument("name")
@options.contracts
@click.option("--url", metavar="URL", help="As it is beside the tools of this server, by streamable HTTP.")
@header_option
@click.option("--server", "own", is_flag=True, help="Start the servers that the files name, and show it beside them.")
@options.as_json
@click.pass_context
def show(
    ctx: click.Context,
    name: str,
    modules: tuple[str, ...],
    url: str | None,
    headers: tuple[str, ...],
    own: bool,
    as_json: bool,
) -> int:
    """One contract as it was understood: every key with its value, the class's defaults among them.

    Of a pack (`pack:NAME`) the file itself, with `${...}` where its parameters go.

    Credentials are shown as the references that they are. Beside a server it is shown what the tool takes, what its
    hints changed, and what the server alone checks.
    """
    if is_pack(name):
        click.echo(pack_named(name)[0].text, nl=False)
        return 0
    command = tuple(ctx.meta.get(COMMAND, ()))
    loaded = _against(settings_of(modules=modules), command, url or "", own, headers)[0].sound()
    found = loaded.contracts.get(name)
    if found is None:
        raise NotFoundError(
            f"There is no contract {name!r}.", remedy=f"There are: {', '.join(loaded.contracts) or 'none'}."
        )
    terms = describe(found.plan.contract)
    if as_json:
        print_json({"contract": terms, "hash": found.plan.contract.hash, **found.as_json()})
        return 0
    from readback.canon import payload_bytes

    for key, value in {**terms, **found.as_json()}.items():
        shown = value if isinstance(value, str) else payload_bytes(value).decode()
        if shown not in ("", "[]", "{}", "null"):
            print(safe(f"{key}: {shown}", LINE_MAX_CHARACTERS))
    print(f"hash: {found.plan.contract.hash}")
    return 0


@contracts.command("schema", short_help="The JSON Schema of contract files.")
@options.as_json
def schema(as_json: bool) -> int:
    """The JSON Schema of contract files, for editors.

    An editor with a YAML language server takes it from a line at the top of a file:

    \b
    # yaml-language-server: $schema=contracts.schema.json
    """
    from readback.contracts.files.schema import published_schema

    click.echo(published_schema(), nl=False)
    return 0


def _loaded(settings: Settings, toolbox: Toolbox | None = None) -> Loaded:
    files = [name for name in settings.contracts if is_contract_file(name)]
    if not files:
        raise UsageError("No contract file is named.", remedy="Name one: a file that ends in .yaml or .yml.")
    return loaded_files(files, pins=dict(settings.contract_pins), toolbox=toolbox)


def _notes(loaded: Loaded, toolbox: Toolbox | None) -> list[str]:
    said = [] if toolbox is None else servers_told(toolbox)
    uncalled = [each.name for each in loaded.contracts.values() if each.uncallable]
    if uncalled:
        said.append(f"Not callable from here: {safe(', '.join(uncalled))}: {GATEWAY}.")
    unknown = [each.name for each in loaded.contracts.values() if not each.arguments_known]
    if unknown:
        named = safe(", ".join(unknown))
        said.append(f"Not checked against the tool's own arguments, which only its server knows: {named}.")
    for each in loaded.contracts.values():
        if each.raised:
            said.append(
                f"{safe(each.name)} is held to {each.plan.contract.side_effect.value}: its tool says {each.raised}."
            )
        if each.left_to_server:
            count = len(each.left_to_server)
            terms = "1 term of its tool is" if count == 1 else f"{count} terms of its tool are"
            said.append(f"{safe(each.name)}: {terms} checked by the server alone.")
    return said


def _checked(loaded: Loaded, probes: list[Probe], code: int, toolbox: Toolbox | None) -> dict[str, Json]:
    readers: list[Json] = [
        {"contract": p.contract, "reader": p.reader, "sound": p.sound, "found": p.word, "said": p.said} for p in probes
    ]
    faults: list[Json] = [described(file, fault) for file, fault in loaded.faults]
    names: list[Json] = [*loaded.contracts] if not loaded.faults else []
    notes: list[Json] = [*_notes(loaded, toolbox)]
    return {
        "files": _files(loaded),
        "contracts": names,
        "faults": faults,
        "readers": readers,
        "notes": notes,
        "exit_code": code,
    }


def _files(loaded: Loaded) -> list[Json]:
    return [{"file": home.file, "sha256": home.sha256} for home in loaded.homes]


def _listed(each: FileContract) -> Json:
    terms = each.plan.contract
    return {
        "name": each.name,
        "kind": terms.kind.value,
        "side_effect": terms.side_effect.value,
        "version": terms.version,
        "hash": terms.hash,
        "file": each.home.file,
        "line": each.place.line,
        "callable": not each.uncallable,
        "description": each.description,
    }


contracts.add_command(draft)
