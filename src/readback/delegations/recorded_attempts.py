"""The attempts of a delegation that are on record: found by their operations, with the words in which each was sent.

Used by `sdk.delegating` when an operation is run again. What is read of a refuted attempt later, by a worker or for a
person, is read of the state that the attempts after it left: it says nothing of whether they were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from readback.canon import Json, parse_json
from readback.canon.frozen import dataclass
from readback.client.async_client import AsyncReadback
from readback.client.authoring.action import ActionDefinition
from readback.client.client import Readback
from readback.client.taken_keys import key_of
from readback.delegations.model.words import RETRIES_MAX
from readback.domain.idempotency import KeyStatus, aged, request_hash
from readback.engine.resume import fold

Conversation = tuple[str, list[dict[str, str]]]


@dataclass(frozen=True, slots=True)
class Made:
    """One attempt: its action, what it was asked for as far as that is kept, and the hash of the whole."""

    action_id: str
    target: str
    request_hash: str
    requested: Mapping[str, Json]
    contract_hash: str

    def conversation(self, action: ActionDefinition[...], given: Mapping[str, Any]) -> Conversation | None:
        """The prompt and the history with which it was sent; None where they are not kept, or the rest is another."""
        prompt, history = self.requested.get("prompt"), self.requested.get("history")
        if not isinstance(prompt, str) or not isinstance(history, list):
            return None
        asked: dict[str, Json] = {**given, "prompt": prompt, "history": history}
        if request_hash(action.plan.contract.kind, self.target, asked) != self.request_hash:
            return None
        return prompt, [{name: str(said) for name, said in each.items()} for each in history if isinstance(each, dict)]


def attempts_made(client: Readback | AsyncReadback, contract: str, delegation: str) -> list[Made]:
    """The attempts on record, from the first on, up to one whose operation would be a new one. Raises StoreError."""
    session = client._session  # noqa: SLF001 - of the same room
    session.check_open()
    store, tenant, made = session.store, session.scope.tenant, list[Made]()
    for attempt in range(RETRIES_MAX + 1):
        record = key_of(store, tenant, contract, f"{delegation}/{attempt}")
        if record is None:
            break
        if aged(KeyStatus(record.status), record.expires_us, session.runtime.now_us()) is KeyStatus.EXPIRED:
            break
        action = fold(store.events(record.action_id))
        if action is None:
            break
        kept = store.evidence(tenant, action.id, action.request_ref) if action.request_ref else None
        asked = parse_json(kept.body) if kept is not None else None
        requested = asked.get("requested") if isinstance(asked, dict) else None
        found: Mapping[str, Json] = requested if isinstance(requested, dict) else {}
        made.append(Made(action.id, action.target, action.request_hash, found, action.contract_hash))
    return made
