"""A saga as a graph: steps in columns by their prerequisites, and an edge for each prerequisite.

The place of a step is its distance from the first steps, so the graph needs no layout program. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.saga.outcome import SagaOutcome, StepOutcome
from readback.views.text import safe

WIDTH: Final = 190
HEIGHT: Final = 58
GAP_X: Final = 60
GAP_Y: Final = 22
NAME_MAX_CHARACTERS: Final = 22
STEPS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A step at its place, in pixels."""

    step: StepOutcome
    name: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from a prerequisite to its follower, in pixels."""

    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes and edges, and the size of the drawing. `left_out`: steps beyond STEPS_MAX."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int
    left_out: int


def graph_of(outcome: SagaOutcome) -> Graph:
    """Return the graph of a saga."""
    steps = list(outcome.steps.values())
    shown = steps[:STEPS_MAX]
    columns = _columns({each.name: each.after for each in shown})
    rows: dict[int, int] = {}
    placed: dict[str, Node] = {}
    for each in shown:
        column = columns[each.name]
        row = rows.get(column, 0)
        rows[column] = row + 1
        x, y = column * (WIDTH + GAP_X), row * (HEIGHT + GAP_Y)
        placed[each.name] = Node(each, safe(each.name, NAME_MAX_CHARACTERS), x, y)
    edges = tuple(
        Edge(placed[before].x + WIDTH, placed[before].y + HEIGHT // 2, node.x, node.y + HEIGHT // 2)
        for node in placed.values()
        for before in node.step.after
        if before in placed
    )
    width = (max(columns.values(), default=0) + 1) * (WIDTH + GAP_X) - GAP_X
    height = max(rows.values(), default=1) * (HEIGHT + GAP_Y) - GAP_Y
    return Graph(tuple(placed.values()), edges, width, height, len(steps) - len(shown))


def _columns(after: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The longest chain of prerequisites before each step. The definition of a saga permits no cycle."""
    found: dict[str, int] = {}
    left = dict(after)
    while left:
        ready = {name for name, before in left.items() if all(each in found or each not in after for each in before)}
        if not ready:  # a cycle: a damaged record is drawn in one column, and the audit names the fault
            ready = set(left)
        for name in ready:
            found[name] = max((found.get(each, -1) + 1 for each in left[name]), default=0)
        left = {name: before for name, before in left.items() if name not in ready}
    return found
