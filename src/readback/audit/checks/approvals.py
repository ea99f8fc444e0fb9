"""Audit of approvals: every attempt that required an approval had a valid one at its commit.

Called by the audit with one action and its entries. Hashes and bindings are always checked. Signatures are checked only
against a given list of present and former approvers. A former approver stays in the list, for no tenant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readback.canon import Json, ReadbackError
from readback.domain.action.action import Action
from readback.domain.action.approval_record import RequestedApproval, asked, signed
from readback.domain.contract.approval import ApprovalToken, Approved, check_approvals, token_of
from readback.domain.events import Event, EventKind, ParsedEnvelope
from readback.domain.side_effect import SideEffect
from readback.engine.stages.approve import Approvals, bound_of
from readback.ports.storage.store import LedgerStore

_TOLD_BY: Final = frozenset({EventKind.APPROVAL_REQUESTED, EventKind.APPROVED, EventKind.DENIED, EventKind.ATTEMPTED})
"""Kinds of entries about approvals. Most entries are of other kinds and are skipped."""
_ATTEMPTED: Final = EventKind.ATTEMPTED
_CRITICAL: Final = SideEffect.CRITICAL_MUTATION
"""Looked up once: each access to an enum member costs a lookup, noticeable at every entry."""


def approval_faults(
    store: LedgerStore,
    action: Action,
    opened: list[ParsedEnvelope],
    contract: Mapping[str, Json],
    request: Mapping[str, Json],
    approvals: Approvals | None,
) -> Iterator[str]:
    """Return the faults in the approvals of one action. `approvals` None: no list of approvers."""
    if action.approval is None and not _always(action, contract):  # no approval was required or recorded
        attempts = [one.event.data.get("approval") for one in opened if one.event.kind is _ATTEMPTED]
        if not any(attempts):
            return
    asking: RequestedApproval | None = None
    glass = str(opened[0].event.data.get("break_glass", ""))
    for one in opened:
        event = one.event
        if event.kind not in _TOLD_BY:
            continue
        match event.kind:
            case EventKind.APPROVAL_REQUESTED:
                asking = asked(event)
                yield from _request_faults(action, asking, event, request)
            case EventKind.APPROVED | EventKind.DENIED if asking is not None:
                asking.signed.append(signed(event))
                yield from _token_faults(store, action, asking, event)
            case EventKind.ATTEMPTED:
                glass = glass or str(event.data.get("break_glass", ""))
                yield from _attempt_faults(store, action, asking, event, (contract, request, approvals, glass))
            case _:
                pass


def _request_faults(
    action: Action, asking: RequestedApproval, event: Event, request: Mapping[str, Json]
) -> Iterator[str]:
    if event.refs.get("approval") != asking.payload:
        yield f"Action {action.id} requests an approval for other bytes than the stored ones."
    if request and bound_of(action, asking, request).payload() != asking.payload:
        yield f"Action {action.id} requests an approval for something other than its request."


def _token(store: LedgerStore, action: Action, digest: str) -> ApprovalToken | None:
    try:
        found = store.evidence(action.tenant, action.id, digest)
        return None if found is None else token_of(found.body)
    except ReadbackError:
        return None  # damaged evidence is reported by its digest


def _token_faults(store: LedgerStore, action: Action, asking: RequestedApproval, event: Event) -> Iterator[str]:
    data, token = event.data, _token(store, action, event.refs.get("token", ""))
    if token is None:
        yield f"Action {action.id} stores a malformed token of {data.get('approver')!r}."
        return
    told = (data.get("approval"), data.get("approver"), data.get("key"), data.get("payload"))
    if told != (token.approval, token.approver, token.key_id, token.payload):
        yield f"Action {action.id} stores a token in contradiction to its entry."


def _always(action: Action, contract: Mapping[str, Json]) -> bool:
    """Return whether every attempt of the action requires an approval."""
    terms = contract.get("approval")
    return action.side_effect == _CRITICAL or (isinstance(terms, dict) and not terms.get("when"))


Known = tuple[Mapping[str, Json], Mapping[str, Json], Approvals | None, str]


def _attempt_faults(
    store: LedgerStore, action: Action, asking: RequestedApproval | None, event: Event, known: Known
) -> Iterator[str]:
    contract, request, approvals, glass = known
    stands_on = event.data.get("approval")
    if not stands_on:
        if (asking is not None or _always(action, contract)) and not glass and not action.context.get("reverses"):
            yield f"Action {action.id} was attempted without the required approval."
        return
    if asking is None or stands_on != [asking.id]:
        yield f"Action {action.id} was attempted on an approval that was never requested."
        return
    if not asking.complete or event.at_us >= asking.expires_us:
        yield f"Action {action.id} was attempted on an incomplete or expired approval."
    elif approvals is not None and request:
        yield from _signature_faults(store, action, asking, event, (request, approvals))


def _signature_faults(
    store: LedgerStore,
    action: Action,
    asking: RequestedApproval,
    event: Event,
    known: tuple[Mapping[str, Json], Approvals],
) -> Iterator[str]:
    request, approvals = known
    found = [_token(store, action, one.ref) for one in asking.signed]
    tokens = [token for token in found if token is not None]
    listed = approvals.policy.past(asking.policy)
    said = check_approvals(bound_of(action, asking, request), listed, tokens, event.at_us, approvals.verify)
    if not isinstance(said, Approved):
        yield f"Action {action.id} was attempted on an invalid approval ({said.code.value})."
