"""The part of the audit that looks at what was asked for: key and request hash, made again of what was kept.

Called by audit, with one action, its contract and its request as its evidence holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.idempotency import asked_hash, key_hash, request_hash
from readback.domain.kind import Kind
from readback.domain.normal_form import NormalForm, form_of, in_normal_form
from readback.engine.run import REDACTED


def request_faults(action: Action, contract: Mapping[str, Json], request: Mapping[str, Json]) -> Iterator[str]:
    """Key and request hash against the contract and the request that were kept, as far as nothing was redacted."""
    requested, named = request.get("requested"), contract.get("key_fields")
    given = requested if isinstance(requested, dict) else {}
    keys = {key_hash(action.tenant, action.contract, action.operation)}
    if isinstance(named, list) and named:
        # The key is made of these, where the caller named no operation; one that was redacted cannot be made again.
        fields = {str(name): given.get(str(name)) for name in named}
        unknown = not request or _redacted(fields)
        normal = in_normal_form(str(contract.get("target", "")), _form(contract), fields)
        keys.add(action.key_hash if unknown else key_hash(action.tenant, action.contract, normal))
    if contract and action.key_hash not in keys:
        yield f"Action {action.id} has another key than its tenant, contract and operation make."
    if not isinstance(requested, dict) or _redacted(requested):
        return
    if not action.contract_ref:  # asked for by name, and nobody who knows its contract has looked at it
        if asked_hash(action.contract, given) != action.request_hash:
            yield f"Action {action.id} has another request than it was asked for by."
        return
    if action.kind not in _KINDS:
        yield f"Action {action.id} is of the kind {action.kind!r}, which there is not."
        return
    if request_hash(_KINDS[action.kind], action.target, given) != action.request_hash:
        yield f"Action {action.id} has another request than its request hash says."


def _form(contract: Mapping[str, Json]) -> NormalForm:
    """By which rule its target is compared."""
    said = contract.get("identity_as")
    word = said.get("target") if isinstance(said, dict) else None
    return form_of(word) or NormalForm.EXACT


_KINDS: Final = {kind.value: kind for kind in Kind}


def _redacted(value: Json) -> bool:
    if isinstance(value, dict):
        return REDACTED in value or _redacted([*value.values()])
    return isinstance(value, list) and any(_redacted(below) for below in value if isinstance(below, dict | list))
