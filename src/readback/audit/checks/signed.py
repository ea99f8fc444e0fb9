"""Audit of people's signed statements: review decisions, lifted freezes, statements about claims.

Called by the audit with the entries of one action or saga. The signed text is always built again from the entry and
compared. Signatures are checked only against a given list of present and former approvers. An old entry, from before
signatures were stored, names a signer without a signature: such entries are counted, neither valid nor invalid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from readback.audit.checks.prefetch import EvidenceCache
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.action.claim import ClaimKind, Reason, claim_bytes, claim_id
from readback.domain.events import Event, EventKind, ParsedEnvelope
from readback.domain.people.review import lifts, resolution_bytes
from readback.domain.people.signed_statement import TOKEN, SignedStatement, signed_statement_of, why_not_signed
from readback.engine.entries.side_records import texts
from readback.engine.stages.approve import Approvals
from readback.errors import StoreCorruptError, StoreError

_SIGNED_BY: Final = "signed_by"
_STATUS: Final = {
    EventKind.CLAIM_CONTESTED: "retracted",  # the step before a retraction
    EventKind.CLAIM_RETRACTED: "retracted",
    EventKind.CLAIM_REINSTATED: "reinstated",
}
"""A person's statement about a claim, by the kind of its entries."""
_ATTESTED: Final = frozenset(
    {
        ("attest_not_done", "retracted", "happened"),
        ("attest_done", "reinstated", "happened"),
        ("attest_done", "reinstated", "holds"),
    }
)
"""Effect of a review decision on claims: decision, status, claim."""
_DECIDES: Final = frozenset({EventKind.RESOLVED, EventKind.LIFTED})
"""Kinds of entries made only by a person."""
_APPROVALS: Final = frozenset({EventKind.APPROVED, EventKind.DENIED})
"""Kinds with a token of their own, checked by audit.approvals."""


@dataclass(slots=True)
class Signatures:
    """The signatures in the entries up to some sequence number. `approvals` None: no list of approvers."""

    approvals: Approvals | None = None
    kept: int = 0
    """Entries with a stored signature."""
    not_kept: int = 0
    """Entries that name a signer without a stored signature."""

    def read(self, shelf: EvidenceCache, opened: list[ParsedEnvelope], *, critical: bool) -> Iterator[str]:
        """Check one action or saga. `critical`: a decision counts only with a signature."""
        for one in opened:
            if "lift" in one.event.data and one.event.kind is not EventKind.LIFTED:
                yield f"Version {one.version} of action {one.action_id} lifts a freeze, but is no lift entry."
        told = [one for one in opened if _is_signed(one.event) or _is_a_persons(one.event)]
        if not told:
            return  # the usual case
        said = _Said(opened)
        for one in told:
            event, digest = one.event, one.event.refs.get(TOKEN)
            what = f"Version {one.version} of action {one.action_id}"
            if digest is not None:
                self.kept += 1
                said.goes_on(one)
                why = self._why_not(one, _kept(shelf, one), said)
                if why:
                    yield f"{what} {why}"
            elif event.data.get(_SIGNED_BY):
                self.not_kept += 1
            elif critical and _is_a_persons(event):
                yield f"{what} decides about a critical mutation without a signature."
            elif _SIGNED_BY not in event.data:
                yield f"{what} is a person's decision, and the field with its signer is missing."

    def _why_not(self, one: ParsedEnvelope, word: SignedStatement | None, said: _Said) -> str:
        """Return why the signature of an entry does not count, to follow the entry's name. "" for a valid signature."""
        data = one.event.data
        if word is None:
            return f"stores a malformed signature of {data.get(_SIGNED_BY)!r}."
        if not data.get(_SIGNED_BY) == data.get("who") == word.signer or not said.by(one, word.statement):
            return "stores a signature over other content."
        if self.approvals is None:
            return ""
        why = why_not_signed(word, self.approvals.policy, self.approvals.verify)
        return f"keeps a signature of {word.signer!r} that does not count: {why}." if why else ""


@dataclass(slots=True)
class _Said:
    """The entries of one action or saga, and the first entry under the current signature."""

    opened: list[ParsedEnvelope]
    first: ParsedEnvelope | None = None
    last: ParsedEnvelope | None = None

    def goes_on(self, one: ParsedEnvelope) -> None:
        """Add the next entry with a stored signature, in order."""
        last, self.last = self.last, one
        if last is None or last.version != one.version - 1 or last.event.refs[TOKEN] != one.event.refs[TOKEN]:
            self.first = one

    def by(self, one: ParsedEnvelope, statement: bytes) -> bool:
        """Return whether the statement matches the content of the entry."""
        first = self.first or one
        looked_at = first.version - 1
        match one.event.kind:
            case EventKind.RESOLVED:
                return _resolution(one, looked_at) == statement
            case EventKind.LIFTED:
                return self._lifts(one, statement)
            case kind if kind not in _STATUS:
                return False
            case kind if first.event.kind is EventKind.RESOLVED:
                said = (str(first.event.data.get("decision")), _STATUS[kind], str(one.event.data.get("claim")))
                same = said in _ATTESTED and _reason(one.event) == _reason(first.event)
                return same and _resolution(first, looked_at) == statement
            case _:
                return _claim(one, looked_at) == statement

    def _lifts(self, one: ParsedEnvelope, statement: bytes) -> bool:
        lifted = texts(one.event.data.get("lift"))
        since = self._frozen_since(lifted[0], one.version) if len(lifted) == 1 else None
        if since is None:
            return False
        who, reason = str(one.event.data.get("who")), _reason(one.event)
        return lifts(statement, one.tenant, lifted[0], (one.action_id, since), who, reason)

    def _frozen_since(self, subject: str, version: int) -> int | None:
        """Return the time of the freeze lifted in this version."""
        since: int | None = None
        for one in self.opened[: version - 1]:
            data = one.event.data
            if subject in texts(data.get("lift")):
                since = None
            if since is None and subject in texts(data.get("freeze")):
                since = one.event.at_us
        return since


def _is_signed(event: Event) -> bool:
    """Return whether an entry mentions a signature. Approvals have a check of their own."""
    return (_SIGNED_BY in event.data or TOKEN in event.refs) and event.kind not in _APPROVALS


def _is_a_persons(event: Event) -> bool:
    """Return whether only a person can have made an entry, by kind and reason. A field could be omitted."""
    if event.kind in _STATUS:
        return bool(event.data.get("who")) or event.data.get("reason") == Reason.PERSON
    return event.kind in _DECIDES


def _reason(event: Event) -> str:
    """Return the person's own reason."""
    return str(event.data.get("note" if event.kind in _STATUS else "reason"))


def _resolution(one: ParsedEnvelope, version: int) -> bytes:
    data = one.event.data
    decision, who = str(data.get("decision")), str(data.get("who"))
    return resolution_bytes(one.action_id, one.tenant, version, decision, who, _reason(one.event))


def _claim(one: ParsedEnvelope, version: int) -> bytes:
    data = one.event.data
    claim, who = claim_id(one.action_id, ClaimKind(str(data["claim"]))), str(data.get("who"))
    return claim_bytes(claim, one.tenant, version, _STATUS[one.event.kind], who, _reason(one.event))


def _kept(shelf: EvidenceCache, one: ParsedEnvelope) -> SignedStatement | None:
    try:
        found = shelf.evidence(one.tenant, one.action_id, one.event.refs[TOKEN])
        return None if found is None else signed_statement_of(found.body)
    except ReadbackError as error:
        if isinstance(error, StoreError) and not isinstance(error, StoreCorruptError):
            raise
        return None  # damaged evidence is reported by its digest
