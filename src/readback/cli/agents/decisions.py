"""`readback decisions`: check and enforce envelopes of decision types; seal and show episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from readback import bootstrap
from readback.agent_errors import BindingError, EnvelopeError
from readback.canon import Json, json_text
from readback.cli import options
from readback.cli.agents.decisions_run import run
from readback.cli.checks.import_files import content_of, tell
from readback.cli.sessions import load_contracts, settings_of
from readback.cli.terminal import note, print_json, safe
from readback.decisions.api import DecisionType
from readback.decisions.contracts.binding import bound
from readback.decisions.contracts.document import read_text
from readback.decisions.contracts.formats import UNSEALED
from readback.decisions.interop.decision_files import import_drift, import_envelope, import_episode, shaped
from readback.decisions.model.drift import written_moment
from readback.decisions.model.seals import sealed
from readback.domain.state import EXIT_FAILED, EXIT_VERIFIER
from readback.engine.compiled_contract import CompiledContract
from readback.errors import UsageError

LINE_MAX_CHARACTERS: Final = 900


@click.group("decisions")
def decisions() -> None:
    """Enforce the envelope of a decision type around an action, and inspect the episode.

    An envelope sets the time limit, the freshness of the context, the rules and the verification of a decision.
    `docs/decisions.md` lists what Readback enforces.
    """


@decisions.command("check", short_help="Check whether envelopes can be enforced.")
@click.argument("files", nargs=-1, required=True, metavar="ENVELOPE...")
@click.option("--verifiers", metavar="DIR", help="Folder of custom verifiers, each as NAME.py.")
@options.contracts
@options.as_json
def check(files: tuple[str, ...], verifiers: str | None, modules: tuple[str, ...], as_json: bool) -> int:
    """Report every fault of the envelopes, with location. Only the named verifiers are imported; nothing else runs.

    With --contracts the contracts of the allowed action types are compared with the envelopes, too.

    Exit code 0: sound; 5: the envelopes cannot be enforced.
    """
    plans: Mapping[str, CompiledContract] = {}
    if modules:
        registry = load_contracts(settings_of(modules=modules), needed=True)
        plans = registry.load() if registry is not None else {}
    told: list[Json] = []
    lines: list[str] = []
    for file in files:
        found, faults = _checked(file, verifiers, plans)
        told.append({"file": file, **found, "faults": [*faults]})
        sound = f"{found.get('decisionType')} {found.get('version')}, sound. sha256 {found.get('sha256')}"
        lines += [_line(file, each) for each in faults] or [f"{file}: {sound}"]
    code = EXIT_VERIFIER if any(isinstance(each, dict) and each["faults"] for each in told) else 0
    if as_json:
        print_json({"envelopes": told, "exit_code": code})
        return code
    for line in lines:
        print(safe(line, LINE_MAX_CHARACTERS))
    return code


@decisions.command("seal", short_help="Seal an episode.")
@click.argument("file", metavar="EPISODE")
@click.option("--out", metavar="FILE", help="Write the sealed episode to this new file (default: stdout).")
@options.as_json
def seal(file: str, out: str | None, as_json: bool) -> int:
    """Seal an unsealed episode: SHA-256 over the written form, and the time.

    A seal shows only that the bytes are unchanged; the statements may still be false. A sealed episode is not sealed
    again: `decisions show` checks the seal.
    """
    episode = shaped(content_of(file), file, UNSEALED, "episode to seal")
    made = sealed(episode, written_moment(bootstrap.runtime().now_us()))
    if out is not None:
        write_new(out, made)
        note(f"Next: readback decisions show {safe(out)}")
    if as_json or out is None:
        print_json(made)
    return 0


@decisions.command("show", short_help="Print the schema of an envelope, an episode or a drift event.")
@click.argument("file", metavar="FILE")
@options.as_json
def show(file: str, as_json: bool) -> int:
    """Show the content of a file. For an episode, check the seal and name the rule.

    Exit code 0: shown; 1: no known rule yields the episode's seal; 2: another kind of file.
    """
    content = content_of(file)
    value = read_text(content, file).value
    keys = value if isinstance(value, dict) else {}
    look = import_drift if "driftId" in keys else import_episode if "episodeId" in keys else import_envelope
    found = look(content, file)
    if as_json:
        print_json({**found.as_json(), "value": value})
    else:
        tell(found)
    return 0 if found.sound else EXIT_FAILED


def write_new(path: str, value: object) -> None:
    """Write one JSON value into a new file. Raises UsageError."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(json_text(value, indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", remedy="Name a new file.") from error


def _checked(
    file: str, verifiers: str | None, plans: Mapping[str, CompiledContract]
) -> tuple[dict[str, Json], list[Json]]:
    """The envelope and all faults, including faults of the action contracts."""
    try:
        kind = DecisionType.load(file, verifiers=verifiers)
    except EnvelopeError as error:
        problems = error.details["problems"]
        assert isinstance(problems, list)
        return {}, list(problems)
    envelope = kind.envelope
    found: dict[str, Json] = {
        "decisionType": envelope.decision_type,
        "version": envelope.version,
        "sha256": envelope.sha256,
        "methods": list(envelope.verification.methods),
        "verifiers": {name: each.source for name, each in kind.loaded.verifiers.items()},
    }
    allowed = envelope.safe_action.allowed_types
    faults: list[Json] = []
    for name, plan in plans.items():
        if allowed is None or name in allowed:
            try:
                bound(plan, kind.loaded)
            except BindingError as error:
                faults.append({"file": file, "key": f"contract {name}", "reason": error.message})
    if plans:
        missing = [name for name in allowed or () if name not in plans]
        found["without_contract"] = [*missing]
    return found, faults


def _line(file: str, fault: Json) -> str:
    assert isinstance(fault, dict)
    at = f":{fault['line']}:{fault['column']}" if "line" in fault else ""
    return f"{file}{at}: {fault['key'] or 'the whole'}: {fault['reason']}"


decisions.add_command(run)
