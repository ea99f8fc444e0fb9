"""Ask another contract version about a recorded verdict, on exactly the verdict's evidence.

Called by the follower, after the verdict is durable. Replay makes the decision again from the ledger's own bytes: no
reader and no tool is called. Both versions are judged the same way, so the times compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from readback.assurance.canary.tally import COMPARED, CanaryVerdict
from readback.assurance.canary.tally import Comparison as Compared
from readback.audit.record.bundle import Bundle
from readback.audit.replay.action import replay
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.records.replayed import Comparison, ReplayedJudgement
from readback.domain.recovery.table import RecoveryTable
from readback.domain.state import TERMINAL, State
from readback.engine.compiled_contract import CompiledContract
from readback.ports.storage.store import LedgerStore, StoredEvent

SETTLED: Final = TERMINAL | {State.UNKNOWN}
ERROR_MAX_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """A judged entry, and the two versions of the contract. `by_candidate`: the candidate decided the entry."""

    stored: StoredEvent
    tenant: str
    incumbent: CompiledContract
    candidate: CompiledContract
    by_candidate: bool


def is_verdict(one: ParsedEnvelope) -> bool:
    """Return whether an entry settles its action by a judgement."""
    return one.event.kind is EventKind.JUDGED and bool(one.event.path) and one.event.path[-1] in SETTLED


def ask(store: LedgerStore, asked: Asked, tables: Sequence[RecoveryTable], now_us: Callable[[], int]) -> CanaryVerdict:
    """Return both verdicts about one entry. An error of a version is a result, never raised.

    Raises StoreError where the ledger cannot be read.
    """
    bundle = _bundle(store, asked, tables)
    recorded = {name: bundle.entries[-1].event.data.get(name, "") for name in COMPARED}
    decider, other = (asked.candidate, asked.incumbent) if asked.by_candidate else (asked.incumbent, asked.candidate)
    first_other = int(asked.stored.leaf[0]) % 2 == 0  # in turn, so that no version always finds warm caches
    order = (other, decider) if first_other else (decider, other)
    took: dict[int, int] = {}
    results: dict[int, ReplayedJudgement | str] = {}
    for plan in order:
        began_us = now_us()
        results[id(plan)] = _judged(bundle, plan, asked.stored.version)
        took[id(plan)] = now_us() - began_us
    said = results[id(other)]
    compared, verdict, error = _compared(recorded, said)
    incumbent, candidate = (verdict, recorded) if asked.by_candidate else (recorded, verdict)
    return CanaryVerdict(
        asked.stored.action_id,
        asked.tenant,
        asked.candidate.contract.name,
        asked.stored.version,
        asked.stored.leaf.hex(),
        "candidate" if asked.by_candidate else "incumbent",
        compared,
        incumbent,
        candidate,
        took[id(asked.candidate)],
        took[id(asked.incumbent)],
        error,
    )


def _compared(recorded: Mapping[str, Json], said: ReplayedJudgement | str) -> tuple[Compared, dict[str, Json], str]:
    if isinstance(said, str):
        return Compared.ERROR, {}, said
    if said.comparison is Comparison.NOT_EVALUATED:
        return Compared.NOT_EVALUATED, {}, "; ".join(said.missing)[:ERROR_MAX_CHARACTERS]
    changed = {each.field: each.replayed for each in said.differences if each.field in COMPARED}
    verdict = {**recorded, **changed}
    return (Compared.DIFFERS if verdict != recorded else Compared.SAME), verdict, ""


def _judged(bundle: Bundle, plan: CompiledContract, version: int) -> ReplayedJudgement | str:
    try:
        found = replay(bundle, plan)
    except ReadbackError as error:
        return error.message[:ERROR_MAX_CHARACTERS]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # tidy: boundary -- the terms of a version are its author's code
        return f"{type(error).__name__}: {error}"[:ERROR_MAX_CHARACTERS]
    return next((each for each in found.judgements if each.version == version), "The entry holds no judgement.")


def _bundle(store: LedgerStore, asked: Asked, tables: Sequence[RecoveryTable]) -> Bundle:
    """Return the action's record up to the judged entry, straight from the ledger."""
    stored = [each for each in store.events(asked.stored.action_id) if each.version <= asked.stored.version]
    opened = [open_envelope(each.envelope) for each in stored]
    digests = {digest for one in opened if one.event.kind is not EventKind.ERASED for digest in one.event.refs.values()}
    evidence: dict[str, bytes] = {}
    for digest in sorted(digests):
        held = store.evidence(asked.tenant, asked.stored.action_id, digest)
        if held is not None:
            evidence[digest] = held.body
    return Bundle(
        "",
        asked.stored.action_id,
        asked.tenant,
        tuple(opened),
        tuple(each.leaf.hex() for each in stored),
        evidence,
        frozenset(digests - evidence.keys()),
        {table.version: table.content for table in tables},
    )
