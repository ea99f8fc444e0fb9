"""`readback decisions run`: one action under its envelope, from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from readback.canon import Json, json_text
from readback.cli import options
from readback.cli.actions.arguments import read_arguments
from readback.cli.actions.run import sigterm_interrupts
from readback.cli.sessions import action_named, load_contracts, settings_of, working
from readback.cli.terminal import BAD, OK, OPEN, console, mark, note, print_json, safe
from readback.client.client import Readback
from readback.decisions.api import ACTORS, PLANNERS, Decided, DecisionType
from readback.decisions.flow.record import Actor
from readback.decisions.model.envelope import Counts, Snapshot
from readback.decisions.model.words import Severity, Stage, VerificationResultWord
from readback.errors import UnknownOutcomeError, UsageError

TIERS: Final = ("tiny", "small", "medium", "large")
LINE_MAX_CHARACTERS: Final = 600
_COUNT = click.IntRange(min=0)
_SIGNS: Final = {
    VerificationResultWord.PASS: OK,
    VerificationResultWord.FAIL: BAD,
    VerificationResultWord.INCONCLUSIVE: OPEN,
    VerificationResultWord.NA: BAD,
}


@click.command("run", short_help="Run one action under its envelope.")
@click.argument("envelope", metavar="ENVELOPE")
@click.argument("tool", metavar="ACTION")
@click.option("--verifiers", metavar="DIR", help="Folder of custom verifiers, each as NAME.py.")
@click.option("--arg", "texts", metavar="K=V", multiple=True, help="An argument, in the form of `readback run`.")
@click.option("--arg-json", "jsons", metavar="K=JSON", multiple=True, help="An argument as JSON.")
@click.option("--operation", metavar="ID", help="Name of the intent; the same name never executes twice.")
@click.option("--tier", type=click.Choice(TIERS), help="Blast radius declared by the proposer.")
@click.option("--snapshot", default="", metavar="ID", help="Context of the decision.")
@click.option("--age", "ages", metavar="FEATURE=MS", multiple=True, help="Present age of a feature; may be repeated.")
@click.option("--evidence", metavar="REF", multiple=True, help="Evidence behind the context; may be repeated.")
@click.option("--hops", type=_COUNT, required=True, help="Number of hops.")
@click.option("--fanout", type=_COUNT, required=True, help="Fan-out of the decision.")
@click.option("--tool-calls", type=_COUNT, required=True, help="Number of tool calls.")
@click.option("--chain-depth", type=_COUNT, required=True, help="Depth of the chain.")
@click.option("--context-ms", type=_COUNT, default=0, help="Time spent on gathering the context.")
@click.option("--plan-ms", type=_COUNT, default=0, help="Time spent on planning.")
@click.option("--actor", type=click.Choice(ACTORS), default="agent", help="The decider (default: agent).")
@click.option("--planner", type=click.Choice(PLANNERS), default="rules", help="The planner (default: rules).")
@click.option("--summary", default="", metavar="TEXT", help="The plan, for the record.")
@click.option("--fallback", default="", metavar="STEP", help="Degrade step used to plan faster.")
@click.option("--episode", "episode_file", metavar="FILE", help="Write the sealed episode to this new file.")
@click.option(
    "--drifts", "drift_file", metavar="FILE", help="Append drift events to this file, one JSON object a line."
)
@options.contracts
@options.ledger
@options.table
@options.as_json
def run(
    envelope: str,
    tool: str,
    verifiers: str | None,
    texts: tuple[str, ...],
    jsons: tuple[str, ...],
    operation: str | None,
    tier: str | None,
    snapshot: str,
    ages: tuple[str, ...],
    evidence: tuple[str, ...],
    hops: int,
    fanout: int,
    tool_calls: int,
    chain_depth: int,
    context_ms: int,
    plan_ms: int,
    actor: str,
    planner: str,
    summary: str,
    fallback: str,
    episode_file: str | None,
    drift_file: str | None,
    modules: tuple[str, ...],
    url: str | None,
    tenant: str | None,
    principal: str | None,
    table: str | None,
    as_json: bool,
) -> int:
    """Run ACTION once under ENVELOPE: check the rules, execute, verify, and write a sealed episode.

    The action type is the contract's name. The blast radius follows from the contract's class. A broken hard rule
    blocks the execution. Only a verification passed in time proceeds. An inconclusive verification never proceeds and
    never repeats the execution. The same command with the same --operation asks again.

    \b
    Exit code 0: passed; 1: refused or refuted; 3: inconclusive; 4: held for a
    person; 5: fault of a verifier, a contract or the envelope.
    """
    settings = settings_of(url, tenant, principal, modules, table)
    kind = DecisionType.load(envelope, verifiers=verifiers)
    registry = load_contracts(settings, needed=True)
    assert registry is not None
    definition = action_named(registry, tool)
    arguments = read_arguments(definition.arguments.schema, texts, jsons)
    seen = Snapshot(snapshot, _ages(ages), evidence)
    counts = Counts(hops, fanout, tool_calls, chain_depth)
    _free(episode_file)
    spent = {Stage.CONTEXT: context_ms, Stage.PLAN: plan_ms}
    with working(settings, registry) as session, sigterm_interrupts():
        client = Readback(session)
        decision = kind.begin(client, actor=Actor(actor, session.scope.principal), spent_ms=spent)
        decision.context(seen)
        decision.planned(summary, planner=planner, fallback=fallback)
        proposal = definition(**arguments)
        try:
            decided = decision.act(proposal, counts=counts, operation=operation, tier=tier)
        except UnknownOutcomeError as error:
            session.report_unknown_outcome(error)
            raise
        finally:
            if not proposal.used:
                proposal.mark_run()
        if decided is None:
            decided = decision.abstain(f"degrade_step={decision.needed_step}", counts=counts)
    _keep(decided, episode_file, drift_file)
    if as_json:
        print_json(decided.as_json())
    else:
        _tell(decided)
    return decided.exit_code


def _ages(pairs: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name or not text.isascii() or not text.isdigit() or len(text) > 15 or name in found:
            raise UsageError(f"--age {safe(pair)} is not FEATURE=MS, or is repeated.", remedy="As in login_rate=40.")
        found[name] = int(text)
    return found


def _free(file: str | None) -> None:
    """Check the output path before the action runs."""
    if file is not None and (Path(file).exists() or not Path(file).absolute().parent.is_dir()):
        raise UsageError(f"{safe(file)} already exists, or the folder is missing.", remedy="Name a new file.")


def _keep(decided: Decided, episode_file: str | None, drift_file: str | None) -> None:
    try:
        if episode_file is not None:
            with open(episode_file, "x", encoding="utf-8") as file:
                file.write(json_text(dict(decided.episode), indent=2) + "\n")
        if drift_file is not None:
            with open(drift_file, "a", encoding="utf-8") as file:
                for each in decided.drifts:
                    file.write(json_text(each.as_json()) + "\n")
    except OSError as error:
        note(f"Warning: {safe(error.filename)} could not be written: {error.strerror}. The content is printed above.")
        print_json({"episode": dict(decided.episode), "drifts": [each.as_json() for each in decided.drifts]})


def _tell(decided: Decided) -> None:
    from rich.text import Text

    out = console()
    word = "proceeds" if decided.proceed else "does not proceed"
    episode = decided.episode
    head = f"{safe(episode['decisionType'])} {word}: verification {decided.verification.value}"
    out.print(Text.assemble(mark(_SIGNS[decided.verification]), " ", (head, "bold")), soft_wrap=True)
    ended = episode["outcome"]
    assert isinstance(ended, dict)
    lines = [f"  outcome: {safe(ended['code'])}  {safe(ended['reason'], LINE_MAX_CHARACTERS)}"]
    lines.append(f"  ladder: {decided.degraded.word} ({decided.degraded.reason.value})")
    lines += [f"  {'hard' if each.hard else 'soft'}: {safe(each.message)}" for each in decided.violations]
    for drift in decided.drifts:
        sign = {Severity.RED: "RED", Severity.YELLOW: "yellow", Severity.GREEN: "green"}[drift.severity]
        lines.append(f"  drift: {drift.kind.value} {sign}: {safe(drift.notes, LINE_MAX_CHARACTERS)}")
    if decided.outcome is not None:
        lines.append(f"  action: {decided.outcome.id}: {safe(decided.outcome.message, LINE_MAX_CHARACTERS)}")
    seal: Json = episode["seal"]
    assert isinstance(seal, dict)
    lines.append(f"  episode: sealed {safe(seal['sealHash'])}")
    for line in lines:
        out.print(Text(line), soft_wrap=True)
    if decided.outcome is not None and not decided.proceed:
        note(f"Next: readback explain {decided.outcome.id}")
