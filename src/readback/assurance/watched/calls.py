"""The recorded actions of a ledger, in full: request, readings, answer, verdict and times.

Called by the mutation test (bundles), by drift and by drafts from watched calls (values). A read-only ledger suffices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from readback.audit.record.action import is_action
from readback.audit.record.bundle import Bundle, make_bundle, open_bundle
from readback.canon import Json, ReadbackError, parse_json
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.domain.tracing.attributes import ORIGIN, TOOL_FORM
from readback.ports.storage.store import LedgerStore
from readback.shadow.watched import WATCHED

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
        verdict: The last verdict on record, such as `verified`; "" for an undecided action.
        judged: The verdict of the enforced mode: of shadow mode's judgement, else the same as `verdict`.
        answer: The tool's answer as stored; None without any.
        answered: The answer's status, such as `success` or `error`; "" for none.
        called_us: The start of the attempt on the ledger's clock, in microseconds; 0 for no attempt.
        took_us: The time to the tool's answer, in microseconds.
        tool: The form of the called tool of an MCP server, as recorded by the gateway; empty for none.
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
    judged: str = ""
    tool: Mapping[str, Json] = field(default_factory=dict)

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
    """Yield the recorded actions of the named contracts as values, by id; all actions for no names.

    A call without a contract, watched in shadow mode, bears the name of the tool.
    """
    wanted = frozenset(contracts)
    for name, bundle in bundles(store, {*wanted, WATCHED} if wanted else ()):
        call = call_of(name, bundle)
        found = tool_call(call) if name == WATCHED else call
        if not wanted or found.contract in wanted:
            yield found


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
                beside = event.data.get("shadow")
                seen.judged = str(beside.get("verdict", "")) if isinstance(beside, dict) else seen.verdict
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
        seen.judged,
        _object(_part(_part(proposal.data.get("context"), ORIGIN), TOOL_FORM)),
    )


def tool_call(call: WatchedCall) -> WatchedCall:
    """Return a call without a contract under the tool's own name, with the first reading that has an answer.

    Shadow mode records the readings of such a call as answers of reading tools, in one list before and one after.
    """
    asked = call.requested
    arguments = asked.get("arguments")
    before = call.before.value if call.before is not None else None
    shown = call.after[-1] if call.after else None
    listed = [each for each in _objects(asked.get("reads")) if each.get("tool")]
    for place, reading in enumerate(listed):
        looks = [_objects(_part(value, "looks")) for value in (before, None if shown is None else shown.value)]
        pair = [each[place].get("answer") if place < len(each) else None for each in looks]
        if shown is None or not isinstance(pair[1], dict):
            continue
        times = (shown.took_us, shown.started_us)
        name, server = str(reading["tool"]), str(asked.get("server") or "")
        looked = [_answer_look(name, server, each, times) for each in pair]
        return replace(
            call,
            contract=str(asked.get("tool", "")),
            requested=arguments if isinstance(arguments, dict) else {},
            before=looked[0],
            after=(looked[1],) if looked[1] is not None else (),
        )
    return replace(call, contract=str(asked.get("tool", "")), requested={}, before=None, after=())


def _answer_look(name: str, server: str, answer: Json, times: tuple[int, int]) -> Look | None:
    """Return the answer of a reading tool as a reading. An error shows nothing, and proves no absence."""
    if not isinstance(answer, dict):
        return None
    failed = answer.get("isError") is True
    return Look(name, server, "not_visible" if failed else "present", None if failed else _content(answer), *times)


def _content(answer: Mapping[str, Json]) -> Json:
    """Return structured content, else the text as JSON, else the text under `text`."""
    structured = answer.get("structuredContent")
    if isinstance(structured, dict):
        return structured
    text = "\n".join(str(each.get("text", "")) for each in _objects(answer.get("content")))
    try:
        parsed = parse_json(text.encode())
    except ReadbackError:
        return {"text": text}
    return parsed if isinstance(parsed, dict) else {"text": text}


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _part(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _objects(value: Json) -> list[dict[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


class _Seen:
    """The parts of one action so far."""

    def __init__(self) -> None:
        self.before: Look | None = None
        self.after: list[Look] = []
        self.verdict = self.judged = self.status = self.code = ""
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
