"""`readback contracts`: check, list and show contract files, and print their JSON Schema.

Nothing is executed. `check` also asks each reader for a missing target, and judges the examples.
"""

from __future__ import annotations

from dataclasses import replace

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.contracts.draft import draft
from readback.cli.contracts.drift import drift
from readback.cli.contracts.examples import example_lines, examples_as_json, examples_judged, test_contracts
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

    A contract file states in YAML what decorators state in Python; `docs/contract-files.md` lists the keys.
    """


@contracts.command("check", cls=WithServer, short_help="Check contract files and their readers.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--offline", is_flag=True, help="Check the files alone; contact no system.")
@click.option("--url", metavar="URL", help="Compare with the tools of this streamable HTTP server.")
@header_option
@click.option(
    "--server", "own", is_flag=True, help="Start the servers named in the files, and compare with their tools."
)
@click.option("--tenant", metavar="ID", help="Tenant of the test reads (READBACK_TENANT; else default).")
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
    """Report every fault of the files with line and column. Then ask each reader for a missing target, and each search
    for an unused stamp, and judge the contracts' examples.

    Python modules (`package.module`) are loaded, and the assumptions of their contracts are listed.

    Without FILE the files of the settings are checked. Nothing is executed, and no ledger is opened. The command of an
    MCP server may follow after `--`: the server is started, the contracts are compared with the inputs and outputs of
    its tools, and the server is stopped. No tool is called.

    \b
    Exit code 0: sound; 1: a reader or an example fails; 3: the server did not answer; 5: the files are refused.
    """
    settings = settings_of(tenant=tenant, modules=files)
    if settings.contracts and not any(is_contract_file(name) for name in settings.contracts):
        return _check_modules(settings, as_json)
    command = tuple(ctx.meta.get(COMMAND, ()))
    if offline and (command or url or own or headers):
        raise UsageError("--offline reaches no system, and a server is named.", remedy="Omit one of them.")
    loaded, toolbox = _against(settings, command, url or "", own, headers)
    probes: list[Probe] = []
    if not loaded.faults and not offline:
        probes = [
            each for one in loaded.contracts.values() for each in probed(one, settings.tenant, settings.principal)
        ]
    examples = [] if loaded.faults else examples_judged(loaded)
    wrong = any(not each.sound for each in probes) or any(not each.sound for _, each in examples)
    code = EXIT_REFUSED if loaded.faults else EXIT_FAULT if wrong else 0
    if as_json:
        print_json({**_checked(loaded, probes, code, toolbox), "examples": examples_as_json(examples)})
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
    for line in example_lines(examples):
        print(line)
    for said in _notes(loaded, toolbox):
        note(said)
    return code


def _check_modules(settings: Settings, as_json: bool) -> int:
    """The contracts of Python modules with their assumptions. Raises ContractError with all faults."""
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
    """The files, compared with the tools of the named servers. The server's command selects the pack."""
    settings = replace(settings, contracts=tuple(completed(each, command) for each in settings.contracts))
    loaded = _loaded(settings)
    toolbox = toolbox_of(loaded, command, url, own, headers)
    if toolbox is None:
        return loaded, None
    again = _loaded(settings, toolbox)
    broken = [(each.home.file, fault) for each in again.contracts.values() for fault in pins_broken(each, toolbox)]
    return replace(again, faults=(*again.faults, *broken)), toolbox


@contracts.command("list", short_help="List the contracts of files.")
@options.contracts
@options.as_json
def list_contracts(modules: tuple[str, ...], as_json: bool) -> int:
    """List the contracts of files with kind, class, version and hash, and the SHA-256 of each file.

    Without a file: list the built-in packs, each with server and parameters.
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


@contracts.command("show", cls=WithServer, short_help="Show one contract as compiled.")
@click.argument("name")
@options.contracts
@click.option("--url", metavar="URL", help="Compare with the tools of this streamable HTTP server.")
@header_option
@click.option(
    "--server", "own", is_flag=True, help="Start the servers named in the files, and compare with their tools."
)
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
    """Show one contract as compiled: every key with its value, including the class's defaults.

    For a pack (`pack:NAME`): the file, with `${...}` for each parameter.

    Credentials are shown as references. With a server, the tool's inputs, the changes by its hints, and the server's
    own checks are shown, too.
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


@contracts.command("schema", short_help="Print the JSON Schema of contract files.")
@options.as_json
def schema(as_json: bool) -> int:
    """Print the JSON Schema of contract files, for editors.

    An editor with a YAML language server reads the schema named in the first line of a file:

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
contracts.add_command(drift)
contracts.add_command(test_contracts)
