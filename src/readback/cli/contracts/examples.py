"""`readback contracts test`: judge the examples of contract files, and test them with mutants.

No system is reached, and no tool is called. A ledger for the history is opened read-only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from readback.canon import Json
from readback.cli import options
from readback.cli.sessions import settings_of
from readback.cli.terminal import note, print_json, safe
from readback.client.files import loaded_files
from readback.config import Settings, is_contract_file
from readback.contracts.files.assembly import Loaded
from readback.contracts.files.contract import FileContract
from readback.contracts.judging import Judged, judged
from readback.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from readback.assurance.mutation.trial import Trial
    from readback.audit.record.bundle import Bundle

LINE_MAX_CHARACTERS: Final = 900
EXIT_FAULT: Final = 1
EXIT_UNDETERMINED: Final = 3


def examples_judged(loaded: Loaded) -> list[tuple[FileContract, Judged]]:
    """Judge every example of the loaded contracts."""
    return [(each, judged(each.plan, one)) for each in loaded.contracts.values() for one in each.examples]


def example_lines(found: Sequence[tuple[FileContract, Judged]]) -> list[str]:
    """Return a line for each contract with examples, and a line for each wrong example."""
    lines: list[str] = []
    counts: dict[str, int] = {}
    for each, one in found:
        if one.sound:
            counts[each.name] = counts.get(each.name, 0) + 1
            continue
        place = f"{each.home.file}:{one.example.line}:{one.example.column}"
        wanted = one.example.expect.value + (f" ({one.example.discrepancy})" if one.example.discrepancy else "")
        lines.append(f"fault: {each.name}: example {one.example.name!r} at {place}: expected {wanted}, got {one.said}")
    sound = [f"ok: {name}: {many} {'example' if many == 1 else 'examples'}" for name, many in counts.items()]
    return [safe(line, LINE_MAX_CHARACTERS) for line in (*sound, *lines)]


def examples_as_json(found: Sequence[tuple[FileContract, Judged]]) -> list[Json]:
    """Return the judged examples as plain data."""
    return [
        {
            "contract": each.name, "example": one.example.name, "file": each.home.file, "line": one.example.line,
            "column": one.example.column, "expected": one.example.expect.value, "sound": one.sound, "said": one.said,
        }
        for each, one in found
    ]  # fmt: skip


@click.command("test", short_help="Judge the examples of contracts; test them with mutants.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--mutate", is_flag=True, help="Change contracts and worlds, and report the unnoticed changes.")
@click.option("--history", metavar="URL", help="A ledger whose recorded actions test the contracts, too.")
@click.option("--contract", "only", metavar="NAME", multiple=True, help="Only this contract; may be repeated.")
@options.as_json
def test_contracts(
    files: tuple[str, ...], mutate: bool, history: str | None, only: tuple[str, ...], as_json: bool
) -> int:
    """Judge every example of the contract files by the engine's own rules.

    With --mutate, each clause is dropped, weakened, and given another field or comparison, and each identity key is
    ignored. A mutant is killed by an example or a recorded action with another verdict. Then the right states of the
    examples are made wrong: a field changed, an effect doubled, nothing changed, another tenant. The contract kills a
    wrong state by not verifying it. Each survivor is named with the example or the postcondition that would kill it.

    \b
    Exit code 0: every example is as expected and every mutant is killed or
    accepted; 1: a wrong example or a survivor; 3: no examples and no history;
    5: the files are refused.
    """
    settings = settings_of(modules=files)
    if history and not mutate:
        raise UsageError("--history is used by --mutate alone.", remedy="Add --mutate.")
    loaded = _loaded(settings)
    chosen = _chosen(loaded, only)
    if mutate:
        return _mutated(chosen, _history(history, chosen), as_json=as_json)
    found = [(each, judged(each.plan, one)) for each in chosen.values() for one in each.examples]
    wrong = any(not one.sound for _, one in found)
    code = EXIT_FAULT if wrong else 0 if found else EXIT_UNDETERMINED
    if as_json:
        print_json({"examples": examples_as_json(found), "exit_code": code})
        return code
    for line in example_lines(found):
        print(line)
    if not found:
        note("No contract has examples. Add `examples` to a contract.")
    return code


def _loaded(settings: Settings) -> Loaded:
    named = [name for name in settings.contracts if is_contract_file(name)]
    if not named:
        raise UsageError("No contract file is named.", remedy="Name one: a file that ends in .yaml or .yml, or a pack.")
    return loaded_files(named, pins=dict(settings.contract_pins)).sound()


def _chosen(loaded: Loaded, only: Sequence[str]) -> dict[str, FileContract]:
    for name in only:
        if name not in loaded.contracts:
            known = ", ".join(loaded.contracts)
            raise NotFoundError(f"There is no contract {name!r:.80}.", remedy=f"There are: {known}.")
    return {name: each for name, each in loaded.contracts.items() if not only or name in only}


def _history(url: str | None, chosen: Mapping[str, FileContract]) -> dict[str, list[Bundle]]:
    if not url:
        return {}
    from readback import bootstrap
    from readback.assurance.history.recorded import is_ledger, ledger_url
    from readback.assurance.watched.calls import bundles

    found: dict[str, list[Bundle]] = {}
    store = bootstrap.store(ledger_url(url) if is_ledger(url) else url, read_only=True)
    try:
        for name, bundle in bundles(store, chosen):
            found.setdefault(name, []).append(bundle)
    finally:
        store.close()
    return found


def _mutated(chosen: Mapping[str, FileContract], history: Mapping[str, Sequence[Bundle]], *, as_json: bool) -> int:
    from readback import bootstrap
    from readback.assurance.mutation.trial import run_trial, totals
    from readback.assurance.results import Standing, worst

    trials = [
        run_trial(
            each.plan,
            each.examples,
            bootstrap.expression_mutants,
            history=history.get(each.name, ()),
            accepted=each.survivors,
        )
        for each in chosen.values()
    ]
    standing = worst(each.standing for each in trials)
    code = standing.exit_code
    counts = dict(totals(trials))
    if as_json:
        listed: list[Json] = [each.as_json() for each in trials]
        print_json({"standing": standing.value, "counts": dict(counts), "contracts": listed, "exit_code": code})
        return code
    for each in trials:
        for line in trial_lines(each):
            print(safe(line, LINE_MAX_CHARACTERS))
    note(", ".join(f"{many} {name}" for name, many in counts.items()) + ".")
    if standing is Standing.UNDETERMINED:
        note("A contract without examples and history was not tested. Add `examples`, or name a ledger with --history.")
    return code


def trial_lines(trial: Trial) -> list[str]:
    """Return a trial in lines of text."""
    killed = sum(trial.killed.values())
    basis = f"{trial.examples} examples, {trial.history} recorded actions"
    basis += f", {trial.unlike} with another verdict on replay" if trial.unlike else ""
    if trial.wrong:
        lines = [f"fault: {trial.contract}: an example is not as expected; nothing was mutated"]
        return [
            *lines,
            *(f"  {each.example.name}: expected {each.example.expect.value}, got {each.said}" for each in trial.wrong),
        ]
    if not (trial.examples or trial.history):
        return [f"undetermined: {trial.contract}: no examples and no usable history ({basis})"]
    word = "survivors" if trial.open else "ok"
    lines = [f"{word}: {trial.contract}: {killed} mutants killed, {len(trial.open)} survived ({basis})"]
    for each in trial.survivors:
        where = f" (example {each.example!r})" if each.example else ""
        if each.accepted:
            lines.append(f"  accepted: {each.name}{where}: {each.accepted}")
            continue
        lines.append(f"  survived: {each.of}: {each.name}{where}: {each.said}")
        if each.remedy:
            lines.append(f"    would kill it: {each.remedy}")
    lines += [f"  unused: survivors.{name}: no mutant has this name" for name in trial.unused]
    return lines
