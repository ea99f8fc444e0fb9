"""A forger with the whole ledger in hand: rewrites an action's entries and evidence, and hashes everything anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from readback.canon import parse_json, sha256_hex, stored_bytes
from readback.domain.contract.approval import bound_from
from readback.domain.events import Event, EventKind, open_envelope, seal
from readback.domain.idempotency import request_hash
from readback.domain.kind import Kind
from readback.ports.storage.store import Evidence
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.house import TENANT, House


def rewritten(house: House, action_id: str, what: str) -> None:
    """Puts something else in place of what was approved; only signatures stay as they were."""
    altered(house.store, action_id, lambda event: _other(house, event, what))


def altered(store: MemoryStore, action_id: str, change: Callable[[Event], Event]) -> None:
    """Puts another entry in place of each, and links them anew."""
    content = store._content
    changed = [change(open_envelope(stored.envelope).event) for stored in content.events[action_id]]
    previous, stored = "", []
    for old, event in zip(content.events[action_id], changed, strict=True):
        envelope, leaf = seal(event, action_id, TENANT, old.version, previous)
        previous = leaf.hex()
        stored.append(replace(old, envelope=envelope, leaf=leaf))
    content.events[action_id] = stored
    for old in stored:
        content.log[old.seq - 1] = old


def _other(house: House, event: Event, what: str) -> Event:
    data: dict[str, Any] = {**event.data}
    refs = dict(event.refs)
    if event.kind is EventKind.PROPOSED and what in ("requested", "target"):
        kept = _load(house, refs["request"])
        if what == "requested":
            kept["requested"] = {**kept["requested"], "item": "o-2"}
        kept["target"] = data["target"] = "item/o-2"
        refs["request"] = _keep(house, stored_bytes(kept))
        data["request_hash"] = request_hash(Kind(data["operation_kind"]), data["target"], kept["requested"])
    if event.kind is EventKind.PROPOSED and what == "glass":
        data["break_glass"] = "the site is down"
    if event.kind is EventKind.APPROVAL_REQUESTED and what != "glass":
        bound = bound_from(parse_json(_body(house, refs["approval"])))
        if what in ("requested", "target"):
            requested = {**_object(bound.requested), **({"item": "o-2"} if what == "requested" else {})}
            hashed = request_hash(Kind(bound.kind), "item/o-2", requested)
            bound = replace(bound, requested=requested, target="item/o-2", request_hash=hashed)
        elif what == "people":
            bound = replace(bound, people=0)
            data["people"] = 0
        else:
            bound = replace(bound, expires_us=bound.expires_us + 1)
            data["expires"] = data["due"] = bound.expires_us
        refs["approval"] = data["payload"] = _keep(house, bound.bytes())
    return replace(event, data=data, refs=refs)


def _body(house: House, digest: str) -> bytes:
    found = house.store.evidence(TENANT, house.store.keeper(TENANT, digest) or "", digest)
    assert found is not None
    return found.body


def _load(house: House, digest: str) -> dict[str, Any]:
    return _object(parse_json(_body(house, digest)))


def _object(value: Any) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value


def _keep(house: House, body: bytes) -> str:
    digest = sha256_hex(body)
    house.store._content.evidence[TENANT, "", digest] = Evidence(digest, "application/json", body)
    return digest
