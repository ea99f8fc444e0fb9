"""The recorded actions of a ledger, in full: request, readings, answer, verdict and times.

Called by the mutation test (bundles), by drift and by drafts from watched calls (values). A read-only ledger suffices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from readback.audit.record.action import is_action
from readback.audit.record.bundle import Bundle, make_bundle, open_bundle
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.ports.storage.store import LedgerStore

CALLS_MAX: Final = 5_000
"""Recorded actions of a contract in a look at a ledger."""


@dataclass(frozen=True, slots=True)
class Look:
    """A recorded reading. `presence`: present, absent, not_visible or unavailable."""

    reader: str
    source: str
    presence: str
    value: Json
    took_us: int
    started_us: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class WatchedCall:
    """A recorded action as plain values.

    Attributes:
        before: The first reading before the call; None without any.
        after: The readings after the call, in the order of the record.
        verdict: The last verdict, such as `verified`; "" for an undecided action.
        answer: The tool's answer as stored; None without any.
        answered: The answer's status, such as `success` or `error`; "" for none.
        called_us: The start of the attempt on the ledger's clock, in microseconds; 0 for no attempt.
        took_us: The time to the tool's answer, in microseconds.
    """

    action_id: str
    contract: str
    contract_version: str
    contract_hash: str
    tenant: str
    target: str
    requested: Mapping[str, Json]
    before: Look | None
    after: tuple[Look, ...]
    verdict: str
    answer: Json
    answered: str
    code: str
    called_us: int
    took_us: int
    settled_us: int
    stamp: str = ""

    @property
    def shown(self) -> Look | None:
        """The last reading after the call with the target or a visible absence."""
        return next((each for each in reversed(self.after) if each.presence in ("present", "absent")), None)


def bundles(
    store: LedgerStore, contracts: Iterable[str], tables: Sequence[RecoveryTable] = (DEFAULT_TABLE,)
) -> Iterator[tuple[str, Bundle]]:
    """Yield the recorded actions of the named contracts with the contract's name, by id; all actions for no names.

    An action with damaged or missing entries is left out, since a replay would prove nothing.
    """
    wanted, seen = frozenset(contracts), dict[str, int]()
    for held, events in store.histories():
        name, tenant = held.projection.contract, held.projection.tenant
        if not is_action(events) or (wanted and name not in wanted) or seen.get(name, 0) >= CALLS_MAX:
            continue
        seen[name] = seen.get(name, 0) + 1

        def load(digest: str, tenant: str = tenant, action_id: str = events[0].action_id) -> bytes | None:
            found = store.evidence(tenant, action_id, digest)
            return None if found is None else found.body

        try:
            yield name, open_bundle(make_bundle(events, load, tables))
        except ReadbackError:
            continue


def calls(store: LedgerStore, contracts: Iterable[str] = ()) -> Iterator[WatchedCall]:
    """Yield the recorded actions of the named contracts as values, by id; all actions for no names."""
    for name, bundle in bundles(store, contracts):
        yield call_of(name, bundle)


def call_of(name: str, bundle: Bundle) -> WatchedCall:
    """Return a recorded action as values."""
    proposal = bundle.entries[0].event
    request = bundle.json_of(proposal.refs.get("request", ""))
    requested = request.get("requested") if isinstance(request, dict) else None
    seen = _Seen()
    for entry in bundle.entries:
        event = entry.event
        match event.kind:
            case EventKind.READ:
                seen.read(event.data, bundle.json_of(event.refs.get("reading", "")))
            case EventKind.ATTEMPTED:
                seen.called_us = event.at_us
            case EventKind.OBSERVED:
                seen.answered(event.data, bundle.json_of(event.refs.get("observation", "")))
            case EventKind.JUDGED:
                seen.verdict, seen.settled_us = str(event.data.get("verdict", "")), event.at_us
            case _:
                pass
    return WatchedCall(
        bundle.action_id,
        name,
        str(proposal.data.get("contract_version", "")),
        proposal.refs.get("contract", ""),
        bundle.tenant,
        str(proposal.data.get("target", "")),
        requested if isinstance(requested, dict) else {},
        seen.before,
        tuple(seen.after),
        seen.verdict,
        seen.answer,
        seen.status,
        seen.code,
        seen.called_us,
        seen.took_us,
        seen.settled_us,
        str(proposal.data.get("stamp", "")),
    )


class _Seen:
    """The parts of one action so far."""

    def __init__(self) -> None:
        self.before: Look | None = None
        self.after: list[Look] = []
        self.verdict = self.status = self.code = ""
        self.answer: Json = None
        self.called_us = self.took_us = self.settled_us = 0

    def read(self, data: Mapping[str, Json], value: Json) -> None:
        if data.get("withheld") is True or data.get("role") not in ("before", "check"):
            return
        started = data.get("started")
        look = Look(
            str(data.get("reader", "")),
            str(data.get("source", "")),
            str(data.get("presence", "")),
            value,
            _between(started, data.get("finished")),
            started if isinstance(started, int) else 0,
            str(data.get("error", "")),
        )
        if data.get("role") == "before":
            self.before = look
        else:
            self.after.append(look)

    def answered(self, data: Mapping[str, Json], answer: Json) -> None:
        self.answer = answer
        self.status, self.code = str(data.get("status", "")), str(data.get("code", ""))
        self.took_us = _between(data.get("started"), data.get("ended"))


def _between(start: Json, end: Json) -> int:
    return max(0, end - start) if isinstance(start, int) and isinstance(end, int) else 0
