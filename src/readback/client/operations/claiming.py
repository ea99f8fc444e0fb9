"""Claims, for the clients and the command line: naming, looking up, and a person's statements.

Reads go through the session's store. A caller with a driver passes the orders to `readback.engine`'s claim code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from readback.client.operations.reviewing import check_words, signed_word
from readback.client.session import Session
from readback.client.validation import count, named
from readback.domain.action.claim import (
    DEPENDS_ON_MAX,
    Claim,
    ClaimKind,
    ClaimStatement,
    ClaimStatus,
    claim_bytes,
    claim_id,
    parse_claim_id,
)
from readback.domain.outcome.outcome import Outcome
from readback.engine.people.claims import ClaimOrder, claim_of, claims_of, unsigned
from readback.errors import NotFoundError, OversizeError, ReviewError, StoreCorruptError, UsageError
from readback.ports.signer import Signer
from readback.ports.storage.store import ActionFilter

Upon = Outcome | Claim | str
"""A possible dependency: an outcome, a claim, or the id of either. An action stands for the state left by it."""
PAGE_MAX: Final = 10_000


def upon_ids(session: Session, upon: Iterable[Upon] | Upon) -> tuple[str, ...]:
    """Return the claim ids of a proposal's dependencies, each once. Raises InputError; nothing was done."""
    given = list(upon) if isinstance(upon, Iterable) and not isinstance(upon, str) else [upon]
    if len(given) > DEPENDS_ON_MAX:
        raise OversizeError(f"A proposal may depend on at most {DEPENDS_ON_MAX} claims (got {len(given)}).")
    return tuple(dict.fromkeys(_id(session, each) for each in given))


def _id(session: Session, given: Upon) -> str:
    named: object = given
    if isinstance(named, Outcome | Claim):
        named = named.id
    if not isinstance(named, str):
        raise UsageError(
            f"A proposal cannot depend on a {type(given).__name__}.",
            remedy="Pass outcomes, claims, or their ids, as upon=[...].",
        )
    return claim_id(*named_claim(session, named))


def named_claim(session: Session, text: str) -> tuple[str, ClaimKind]:
    """Return the action of this tenant, and the claim named by an id; an action's own id names the claim `:holds`.

    Raises ClaimError for a malformed id, NotFoundError for an unknown one, UsageError for a saga.
    """
    name, kind = parse_claim_id(named("a claim", text))
    action_id = session.action_id(name)
    if session.is_saga(action_id):
        raise UsageError(
            f"{action_id!r} is a saga; only actions have claims.", remedy="Name its steps: outcome.steps[...].outcome."
        )
    return action_id, kind


def claim(session: Session, text: str) -> Claim:
    """Return the current claim with its supporting entries. Raises as `named_claim` does."""
    action_id, kind = named_claim(session, text)
    found = claim_of(session.store.events(action_id), kind)
    if found is None:
        raise NotFoundError(f"There is no action {action_id!r} in this tenant.")
    return found


def claims(session: Session, of: str = "", *, limit: int = 50) -> tuple[Claim, ...]:
    """Return the claims of one action; without one, of every action with claim events, newest first."""
    session.check_open()
    if named("an action", of):
        return claims_of(session.store.events(named_claim(session, of)[0]))
    if not 0 < count("limit", limit) <= PAGE_MAX:
        raise UsageError(f"limit={limit} is no number of actions from 1 to {PAGE_MAX}.")
    page = session.store.page(ActionFilter(session.scope.tenant, claim=True, limit=limit))
    found: list[Claim] = []
    for stored in page:
        try:
            found += claims_of(session.store.events(stored.projection.action_id))
        except StoreCorruptError:  # it is named by `ledger verify`; the others are told all the same
            continue
    return tuple(found)


def ordered(
    session: Session,
    text: str,
    status: ClaimStatus,
    *,
    who: str,
    reason: str,
    expect_version: int | None = None,
    signature: bytes | Signer | None = None,
) -> ClaimOrder:
    """Return a person's statement about a claim, checked as far as possible without recording. Raises InputError."""
    check_words(who, reason)
    action_id, kind = named_claim(session, text)
    stored = session.store.projection(action_id)
    assert stored is not None
    # What is signed is for one version: what is kept of it can be read, and would serve again for any other.
    version = expect_version or (stored.version if signature is not None else 0)
    order = ClaimOrder(action_id, kind, status, ClaimStatement(who, reason), version)
    if signature is None:
        return order
    message = claim_bytes(order.claim, session.scope.tenant, version, status.value, who, reason)
    try:
        signed = signed_word(session, who, message, signature, [stored.projection.contract])
    except ReviewError as refused:
        raise unsigned(refused.message) from refused
    return replace(order, word=ClaimStatement(who, reason, signed))
