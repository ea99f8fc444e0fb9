"""Plays one cell and prints everything: `python -m tests.truth.replay GROUP EFFECT ANSWER PATH`."""

from __future__ import annotations

import sys

from readback.testing.world_answers import Answer
from readback.testing.world_effects import Landing
from tests.truth.cells import GROUPS
from tests.truth.oracle import faults, knowable, really
from tests.truth.stage import PATHS, Cell, play


def main(group: str, effect: str, answer: str, path: str) -> None:
    chosen = GROUPS[int(group)]
    shown = next(each for each in PATHS if each.name == path)
    cell = Cell(chosen.kind, chosen.side_effect, Landing(effect), Answer(answer), shown, chosen.offers)
    played = play(cell)
    outcome = played.outcome
    lines = [
        str(cell),
        f"state      {outcome.state.value}",
        f"verdict    {outcome.verdict.value} {outcome.why.value}",
        f"class      {outcome.discrepancy.value if outcome.discrepancy else '-'}",
        f"row        {outcome.row} ({outcome.recovery}), may repeat: {outcome.may_repeat}",
        f"whose      {outcome.attribution.value}",
        f"really     {really(played.scene)}, knowable: {knowable(cell)}",
        *(f"effect     {effect}" for effect in played.scene.world.journal),
        *(f"event      {event.kind} {event.envelope.decode()[:400]}" for event in played.store.events(outcome.id)),
        *(f"FAULT      {fault}" for fault in faults(played, outcome)),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
