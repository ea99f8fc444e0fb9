"""The history checker: what clients saw, against what the system of record contains and what the log says.

It asks nobody of Readback's: an operation has at most one effect; nobody is told of a success before there is one, nor
of a failure where there is one; what was asked for is not lost; and the log that anybody saw is a beginning of the log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from tests.fleet.history import Line, What


class Kind(StrEnum):
    """What can be wrong."""

    LOST = "lost"
    DOUBLED = "doubled"
    FALSE_SUCCESS = "false success"
    FALSE_FAILURE = "false failure"
    CONTRADICTED = "contradicted"
    UNRECORDED = "unrecorded"
    FORKED = "forked"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of the system of record. `stamp`: which attempt made it."""

    op: str
    stamp: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log in its place."""

    seq: int
    action_id: str
    version: int
    leaf: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """An action as the ledger has it in the end. `over`: it has ended, is a person's, or is unknown and looked at."""

    id: str
    op: str
    stamp: str
    state: str
    over: bool


@dataclass(frozen=True, slots=True)
class Head:
    """A checkpoint that somebody saw: so many entries, this root."""

    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """All there is to judge by."""

    lines: Sequence[Line]
    effects: Sequence[Effect]
    entries: Sequence[Entry]
    actions: Sequence[Ended]
    heads: Sequence[Head] = field(default=())


SUCCESS = "reconciled_success"
WITHOUT_EFFECT = frozenset({"failed", "rolled_back"})
"""States which say that nothing of it stands."""


def check(found: Evidence) -> list[Fault]:
    """Everything that is wrong; nothing where all is well."""
    questions = (_lost, _doubled, _false, _contradicted, _unrecorded, _forked)
    return [fault for question in questions for fault in question(found)]


def _lost(found: Evidence) -> Iterator[Fault]:
    """What was accepted or answered is on record, and has come to an end; what was asked for last was answered."""
    by_id = {action.id: action for action in found.actions}
    by_op = {action.op for action in found.actions}
    for id_, op in sorted({(line.id, line.op) for line in found.lines if line.id}):
        if id_ not in by_id:
            yield Fault(Kind.LOST, f"{op}: a client has the id {id_}, which no ledger knows")
        elif by_id[id_].op != op:
            yield Fault(Kind.LOST, f"{op}: a client has the id {id_}, which is that of {by_id[id_].op}")
    settled = {line.op for line in found.lines if line.what is What.ANSWERED and line.settled}
    for op in sorted({line.op for line in found.lines} - settled):
        yield Fault(Kind.LOST, f"{op}: nobody was told what became of it")
    for op in sorted(settled - by_op):
        yield Fault(Kind.LOST, f"{op}: was answered, and is in no ledger")
    for action in found.actions:
        if not action.over:
            yield Fault(Kind.LOST, f"{action.op}: {action.id} is {action.state}, and nobody goes on with it")


def _doubled(found: Evidence) -> Iterator[Fault]:
    for op, times in sorted(Counter(effect.op for effect in found.effects).items()):
        if times > 1:
            yield Fault(Kind.DOUBLED, f"{op}: has {times} effects")


def _false(found: Evidence) -> Iterator[Fault]:
    """Each word that was told, against the effects that there were then, and are now.

    A failure is told of one action. Who asks anew for what failed, as a client does that was killed before it heard of
    that, begins another, whose effect comes later and contradicts nothing.
    """
    first: dict[str, int] = {}
    by_op: defaultdict[str, list[Effect]] = defaultdict(list)
    for effect in found.effects:
        first[effect.op] = min(effect.at_ns, first.get(effect.op, effect.at_ns))
        by_op[effect.op].append(effect)
    stamps = {action.id: action.stamp for action in found.actions}
    for line in found.lines:
        if line.what is not What.ANSWERED:
            continue
        there = first.get(line.op)
        if (line.verified or line.state == SUCCESS) and (there is None or there > line.at_ns):
            yield Fault(Kind.FALSE_SUCCESS, f"{line.op}: {line.client} was told {line.state} without an effect")
        own = stamps.get(line.id)
        contradicted = any(effect.at_ns <= line.at_ns or effect.stamp == own for effect in by_op[line.op])
        if line.settled and contradicted and (line.may_repeat or line.state in WITHOUT_EFFECT):
            yield Fault(Kind.FALSE_FAILURE, f"{line.op}: {line.client} was told {line.state}, and there is an effect")
    for action in found.actions:
        if action.state == SUCCESS and action.op not in first:
            yield Fault(Kind.FALSE_SUCCESS, f"{action.op}: {action.id} ended as {action.state} without an effect")
        if action.state in WITHOUT_EFFECT and any(effect.stamp == action.stamp for effect in found.effects):
            yield Fault(Kind.FALSE_FAILURE, f"{action.op}: {action.id} ended as {action.state}, and has an effect")


def _contradicted(found: Evidence) -> Iterator[Fault]:
    """A success is not taken back, and an operation that had an effect is one action."""
    verified: dict[str, Line] = {}
    for line in found.lines:
        if line.what is not What.ANSWERED:
            continue
        before = verified.get(line.op)
        if before is not None and line.settled and not line.verified:
            yield Fault(Kind.CONTRADICTED, f"{line.op}: was told {before.state}, and later {line.state}")
        if before is not None and line.verified and before.id != line.id:
            yield Fault(Kind.CONTRADICTED, f"{line.op}: succeeded as {before.id} and as {line.id}")
        if line.verified:
            verified.setdefault(line.op, line)


def _unrecorded(found: Evidence) -> Iterator[Fault]:
    known = {action.stamp for action in found.actions}
    for effect in found.effects:
        if effect.stamp not in known:
            yield Fault(Kind.UNRECORDED, f"{effect.op}: an effect of {effect.stamp}, which no ledger knows")


def _forked(found: Evidence) -> Iterator[Fault]:
    """Places are dense, an action's entries stand in its order, and each head that was seen is of this log."""
    places = [entry.seq for entry in found.entries]
    if places != list(range(1, len(places) + 1)):
        yield Fault(Kind.FORKED, f"the places of {len(places)} entries are not 1, 2, 3 and so on")
    versions: defaultdict[str, int] = defaultdict(int)
    for entry in sorted(found.entries, key=lambda each: each.seq):
        versions[entry.action_id] += 1
        if entry.version != versions[entry.action_id]:
            yield Fault(
                Kind.FORKED, f"place {entry.seq}: version {entry.version} of {entry.action_id}, its entry number "
                f"{versions[entry.action_id]}",
            )  # fmt: skip
            versions[entry.action_id] = entry.version
    yield from _heads(found.heads, [entry.leaf for entry in found.entries])


def _heads(heads: Iterable[Head], leaves: Sequence[bytes]) -> Iterator[Fault]:
    roots: dict[int, bytes] = {}
    for head in heads:
        if head.size > len(leaves):
            yield Fault(Kind.FORKED, f"a checkpoint of {head.size} entries was seen, and there are {len(leaves)}")
        elif roots.setdefault(head.size, root_of(leaves[: head.size])) != head.root:
            yield Fault(Kind.FORKED, f"a checkpoint of {head.size} entries was seen, which is of another log")


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The Merkle tree's root as RFC 6962 says it, by a way of its own: what is checked must not check itself."""
    level = list(leaves) or [sha256().digest()]
    while len(level) > 1:
        pairs = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]
