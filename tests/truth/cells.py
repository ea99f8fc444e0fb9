"""The cells of the matrix: groups of contracts, each with every effect on every read path under rotating answers.

Effects, answers and paths follow from the patterns of hallucinated success (HS-01 to HS-14). Every pair of effect and
answer, and of path and answer, is met in every group; the groups differ by kind, class and what the source offers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from readback.domain.kind import Kind
from readback.domain.side_effect import SideEffect
from readback.testing.world_answers import Answer
from readback.testing.world_effects import Landing
from tests.truth.stage import PATHS, Cell, Offers

ANSWERS_EACH: Final = 3
WITHOUT_EFFECT: Final = (Landing.NONE, Landing.ALREADY_SO, Landing.BY_OTHER)
SOON: Final = "8s"
"""A late window that is over before the verification window closes: then an attempt without effect is dead."""
S, K = SideEffect, Kind


@dataclass(frozen=True, slots=True)
class Group:
    """One contract's worth of cells."""

    kind: Kind
    side_effect: SideEffect
    offers: Offers

    def __str__(self) -> str:
        offered = [n for n in ("stamps", "find", "lookup", "final", "honours_key", "compensate", "late_window")
                   if getattr(self.offers, n)]  # fmt: skip
        return f"{self.kind.value}-{self.side_effect.value}-{'+'.join(offered) or 'nothing'}"


GROUPS: Final = (
    Group(K.SET, S.LOW_RISK_INTERNAL, Offers(late_window="1h")),
    Group(K.SET, S.MEDIUM_RISK_WRITE, Offers(stamps=False, late_window=SOON)),
    Group(K.SET, S.HIGH_RISK_EXTERNAL, Offers(find=True, lookup=True, final=True, honours_key=True, late_window="1h")),
    Group(K.CREATE, S.LOW_RISK_INTERNAL, Offers(stamps=False, find=True)),
    Group(K.CREATE, S.LOW_RISK_INTERNAL, Offers(stamps=False, lookup=True, late_window="1h")),
    Group(K.CREATE, S.MEDIUM_RISK_WRITE, Offers(find=True, compensate=True, late_window="1h")),
    Group(K.CREATE, S.HIGH_RISK_EXTERNAL, Offers(find=True, late_window=SOON)),
    Group(K.ADJUST, S.MEDIUM_RISK_WRITE, Offers(stamps=False, find=True, lookup=True, final=True, honours_key=True)),
    Group(K.APPEND, S.LOW_RISK_INTERNAL, Offers()),
    Group(K.SEND, S.HIGH_RISK_EXTERNAL, Offers(find=True)),
    Group(K.DELETE, S.MEDIUM_RISK_WRITE, Offers(late_window=SOON)),
    Group(K.CREATE, S.MEDIUM_RISK_WRITE, Offers(late_window=SOON)),
)


def possible(landing: Landing, answer: Answer, offers: Offers) -> bool:
    """What no honest reading can see through is left out: a tool that proves that nothing was sent and acts all the
    same, and a contract that promises that nothing lands so late.
    """
    lies = answer is Answer.REFUSED and landing not in WITHOUT_EFFECT
    return not lies and not (landing is Landing.TOO_LATE and offers.late_window == SOON)


def cells(number: int, answers_each: int = ANSWERS_EACH) -> Iterator[Cell]:
    """The cells of a group, each with its own answers in turn."""
    group, answers = GROUPS[number], tuple(Answer)
    for place, (landing, path) in enumerate(product(Landing, PATHS)):
        for turn in range(answers_each):
            # Steps that share no factor with the number of answers, so that all pairs come up.
            answer = answers[(number + 3 * place + 5 * turn + place // len(PATHS)) % len(answers)]
            if possible(landing, answer, group.offers):
                yield Cell(group.kind, group.side_effect, landing, answer, path, group.offers)
