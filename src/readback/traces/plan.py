"""The checked plan of a run in a small form for the fold: dependencies and due calls.

`verify` builds the plan before the first event. The plan's own objects are not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from readback.canon import sha256_bytes
from readback.canon.frozen import dataclass
from readback.traces.digest_rows import DIGEST_BYTES
from readback.traces.format import shapes as recipes
from readback.traces.format.forms import PLAN
from readback.traces.format.report import Findings, Place, shown
from readback.traces.format.shapes import faults_of
from readback.traces.format.strict_json import Value, canonical

FILE: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class Node:
    """One planned step."""

    id: str
    kind: str
    before: tuple[int, ...]
    """The nodes before this node."""
    requests: bytes
    """A digest for each planned call, in order."""

    @property
    def calls(self) -> int:
        return len(self.requests) // DIGEST_BYTES

    def asks(self, index: int, digest: bytes) -> bool:
        """Whether the planned call of this number has this content."""
        return self.requests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] == digest


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of the closed form. The report names its faults."""

    id: str
    spec_id: str
    problem: str
    written: bytes
    """The plan's canonical bytes, id included."""
    nodes: tuple[Node, ...]
    places: dict[str, int] = field(repr=False)

    def place(self, node_id: str) -> int:
        """Return the number of a node, or -1."""
        return self.places.get(node_id, -1)


def request_digest(tool_name: str, arguments: Value) -> bytes:
    """Return the digest of a call's content, the same in plan and trace."""
    return sha256_bytes(canonical({"tool_name": tool_name, "arguments": arguments}))


def read_plan(value: Value, findings: Findings) -> Plan | None:
    """Return the plan, or None without the closed form. Check ids, nodes and cycles."""
    file = Place(FILE)
    faults = faults_of(value, PLAN)
    for fault in faults:
        findings.fail("schema.plan", file.at(fault.pointer), fault.said)
    if faults:
        return None
    if recipes.plan_id(value) != value["id"]:
        findings.fail("id.plan", file.at("/id"))
    places = _places(value["nodes"], findings)
    before = _order(value, places, findings)
    if _has_cycle(before):
        findings.fail("plan.cycle", file.at("/nodes"))
    nodes = tuple(
        Node(node["id"], node["kind"], tuple(sorted(waits)), _requests(node))
        for node, waits in zip(value["nodes"], before, strict=True)
    )
    return Plan(value["id"], value["spec_id"], value["problem"], canonical(value), nodes, places)


def _places(nodes: list[Value], findings: Findings) -> dict[str, int]:
    places: dict[str, int] = {}
    for index, node in enumerate(nodes):
        at = Place(FILE).at(f"/nodes/{index}")
        if recipes.node_id(node) != node["id"]:
            findings.fail("id.node", at.at("/id"))
        if node["id"] in places:
            findings.fail("plan.duplicate-node", at.at("/id"))
        if node["step"]["kind"] != node["kind"]:
            findings.fail("schema.plan", at.at("/step/kind"), f"The node is of kind {node['kind']}.")
        places.setdefault(node["id"], index)
    return places


def _order(plan: dict[str, Value], places: dict[str, int], findings: Findings) -> list[set[int]]:
    """Return the predecessors of each node, by dependencies and by the plan's edges."""
    before = [
        set(_known(node["dependencies"], f"/nodes/{index}/dependencies", places, findings))
        for index, node in enumerate(plan["nodes"])
    ]
    for index, edge in enumerate(plan["edges"]):
        ends = list(_known(edge, f"/edges/{index}", places, findings))
        if len(ends) == 2:
            before[ends[1]].add(ends[0])
    return before


def _known(ids: list[str], pointer: str, places: dict[str, int], findings: Findings) -> Iterator[int]:
    for index, each in enumerate(ids):
        if each in places:
            yield places[each]
        else:
            findings.fail("plan.unknown-node", Place(FILE).at(f"{pointer}/{index}"), shown(each))


def _requests(node: dict[str, Value]) -> bytes:
    asked = node["step"]["tool_requests"]
    return b"".join(request_digest(each["tool_name"], each["arguments"]) for each in asked)


def _has_cycle(before: list[set[int]]) -> bool:
    """Remove nodes without open predecessors until none is left or none is removable."""
    waiting = [len(each) for each in before]
    after: list[list[int]] = [[] for _ in before]
    for index, each in enumerate(before):
        for earlier in each:
            after[earlier].append(index)
    free = deque(index for index, count in enumerate(waiting) if not count)
    taken = 0
    while free:
        taken += 1
        for later in after[free.popleft()]:
            waiting[later] -= 1
            if not waiting[later]:
                free.append(later)
    return taken != len(before)
