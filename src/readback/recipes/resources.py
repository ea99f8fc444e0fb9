"""Verified resource: create or update over an HTTP API, and query through another client.

Authors pass an API for acting and the same API for reading. A create carries the idempotency key and the stamp, and is
found by the stamp. An update is conditional on the version read before (If-Match).

Source: "The Verification Ledger Pattern", adapting it to API mutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.client.authoring.action import ActionDefinition
from readback.contracts.functions.conditions import postcondition
from readback.domain.context import Context
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ContractFieldError, NotDispatchedError, ReaderTypeError
from readback.recipes.choices import Choices, quoted

if TYPE_CHECKING:
    from readback.client.proposal import Proposal
    from readback.systems import HttpExecutor, HttpSource


class ResourceAction(ActionDefinition[[str, dict[str, Any]]]):
    """Propose one resource: `update(key=..., fields={...})`.

    Example:
        >>> def propose(update: ResourceAction):
        ...     return update(key="7", fields={"title": "Minutes"})
    """

    if TYPE_CHECKING:

        def __call__(self, key: str, fields: dict[str, Any]) -> Proposal: ...


@dataclass(frozen=True, slots=True)
class Resource:
    """How an API shows a resource. Fields are members of the JSON object.

    Some servers make the id and accept no reference from the caller. Then `id_from` names the member with that id, and
    `mark_in` a member for the stamp, such as "external_reference". A create is found by the mark alone, `key` is
    the caller's own name of the intent, and the outcome's value has the new id under "id".

    Attributes:
        one: Path of a resource, with `{key}`.
        every: Path of the collection, searchable by stamp.
        key: Member with the key. Where the API assigns ids, the caller's own reference.
        stamp: Member with the last writer's stamp.
        tenant: Member with the tenant, or "".
        find_by: Query name of the search by stamp.
        items: Member of the collection's answer with the list.
        id_from: Member with an id made by the server.
        mark_in: Member for the stamp where the server makes the id.

    Example:
        >>> from readback.recipes import Resource
        >>> Resource("/notes/{key}", "/notes", id_from="id", mark_in="reference", find_by="reference").mark
        'reference'
    """

    one: str
    every: str
    key: str = "id"
    stamp: str = "stamp"
    tenant: str = ""
    find_by: str = "stamp"
    items: str = "items"
    id_from: str = ""
    mark_in: str = ""

    @property
    def mark(self) -> str:
        """The member with the stamp."""
        return self.mark_in or self.stamp

    @property
    def identified_by(self) -> str:
        """The member that identifies the resource."""
        return self.id_from or self.key

    def __post_init__(self) -> None:
        if self.id_from and self.id_from == self.mark:
            raise ContractFieldError(
                f"`id_from` and `mark_in` name one member, {self.id_from!r}.",
                remedy="Name a member that takes any text for the mark, such as mark_in='reference'.",
            )
        if "{key}" not in self.one or not self.every.startswith("/"):
            raise ContractFieldError("`one` must contain `{key}`, and `every` must begin with /.")


def verified_create(
    api: HttpExecutor, records: HttpSource, resource: Resource, **choices: Unpack[Choices]
) -> ResourceAction:
    """Return an action that creates one resource with POST.

    The action is verified when the collection shows the resource under its stamp.

    Args:
        api: The API for acting.
        records: The API for reading.
        resource: How the API shows the resource.
        choices: Contract keys to change.

    Example:
        >>> from readback.systems import HttpExecutor, HttpSource
        >>> api = HttpExecutor("https://notes.example", sole=True)
        >>> records = HttpSource("notes", "https://notes.example")
        >>> create = verified_create(api, records, Resource("/notes/{key}", "/notes"))
    """

    def create(ctx: Context, key: str, fields: dict[str, Any]) -> object:
        own = {} if resource.id_from else {resource.key: key}
        return api.post(ctx, resource.every, json={**fields, **own, resource.mark: ctx.stamp})

    def by_stamp(ctx: Context, key: str, fields: dict[str, Any]) -> Reading:
        found = records.get(ctx, resource.every, query={resource.find_by: ctx.stamp})
        return _made_by_server(_first(found, resource), resource)

    action = _made(create, records, resource, "create", choices)
    action.read(source=records.name, consistency="strong", independence="other_client")(by_stamp)
    return action


def verified_update(
    api: HttpExecutor,
    records: HttpSource,
    resource: Resource,
    *,
    method: Literal["PATCH", "PUT"] = "PATCH",
    **choices: Unpack[Choices],
) -> ResourceAction:
    """Return an action that changes one resource.

    The action is verified when a read shows the fields and the stamp. The request is conditional on the ETag of the
    read before, so foreign changes are not overwritten.

    Args:
        api: The API for acting.
        records: The API for reading.
        resource: How the API shows the resource.
        method: PATCH or PUT.
        choices: Contract keys to change.

    Example:
        >>> from readback.systems import HttpExecutor, HttpSource
        >>> api = HttpExecutor("https://notes.example", sole=True)
        >>> records = HttpSource("notes", "https://notes.example", canary="/health")
        >>> update = verified_update(api, records, Resource("/notes/{key}", "/notes"))
    """

    def update(ctx: Context, key: str, fields: dict[str, Any]) -> object:
        etag = ctx.before.get("etag") if isinstance(ctx.before, dict) else None
        if not isinstance(etag, str) or not etag:
            raise NotDispatchedError("The resource has no ETag, so the request cannot be conditional.")
        body = {**fields, resource.mark: ctx.stamp}
        headers = {"If-Match": f'"{etag}"'}
        return api.request(ctx, method, resource.one, params={"key": key}, json=body, headers=headers)

    def by_key(ctx: Context, key: str, fields: dict[str, Any]) -> Reading:
        return _with_etag(records.get(ctx, resource.one, params={"key": key}), resource)

    action = _made(update, records, resource, "set", choices)
    action.read(source=records.name, consistency="strong", independence="other_client")(by_key)
    return action


def _made(act: Any, records: HttpSource, resource: Resource, kind: str, choices: Choices) -> ResourceAction:
    def everywhere(ctx: Context, key: str, fields: dict[str, Any]) -> Sequence[Reading]:
        return _stamped(records, resource, ctx)

    action = ResourceAction(act, {**_contract(resource, kind), **choices})
    action.find(everywhere)
    return action


def _stamped(records: HttpSource, resource: Resource, ctx: Context) -> list[Reading]:
    """Return all resources with the stamp, by the collection's own search."""
    listed = records.all(ctx, resource.every, query={resource.find_by: ctx.stamp}, items=f"/{resource.items}")
    return [_with_etag(each, resource) for each in listed]


def _first(found: Reading, resource: Resource) -> Reading:
    """Return the first resource of a collection's answer, or absence."""
    if found.presence is not Presence.PRESENT:
        return found
    listed = found.value.get(resource.items) if isinstance(found.value, dict) else None
    if not isinstance(listed, list):
        raise ReaderTypeError(f"The collection {resource.every!r} has no list under {resource.items!r}.")
    if not listed:
        return replace(found, presence=Presence.ABSENT, value=None, version=None)
    return _with_etag(replace(found, value=listed[0], version=None), resource)


def _with_etag(found: Reading, resource: Resource) -> Reading:
    """Return the resource with its version, for conditional requests."""
    if found.presence is not Presence.PRESENT or not isinstance(found.value, dict):
        return found
    stamp = found.value.get(resource.mark)
    value: dict[str, Json] = {"resource": found.value, "etag": found.version}
    return replace(found, value=value, stamp=stamp if isinstance(stamp, str) else None)


def _made_by_server(found: Reading, resource: Resource) -> Reading:
    """Add the id made by the server. Raises ReaderTypeError for a resource without an id."""
    if not resource.id_from or found.presence is not Presence.PRESENT or not isinstance(found.value, dict):
        return found
    shown = found.value["resource"]
    made = shown.get(resource.id_from) if isinstance(shown, dict) else None
    if made is None or isinstance(made, dict | list | bool):
        raise ReaderTypeError(f"The resource has no id under {resource.id_from!r}.")
    return replace(found, value={**found.value, "id": made})


def _member(name: str) -> str:
    """Return the expression for a member of the resource."""
    return f"authoritative.resource.{name}" if name.isidentifier() else f"authoritative.resource[{quoted(name)}]"


def _contract(resource: Resource, kind: str) -> dict[str, object]:
    by_key, mark = _member(resource.identified_by), _member(resource.mark)
    by_mark = f"{mark} == scope.stamp"
    return {
        "name": f"verified_{'create' if kind == 'create' else 'update'}",
        "kind": kind,
        "side_effect": "low_risk_internal",
        "target": resource.every.strip("/").replace("/", ".") + "/{requested.key}",
        "identity": {
            "target": by_mark if resource.id_from and kind == "create" else by_key,
            "tenant": f"authoritative.resource.{resource.tenant}" if resource.tenant else "not_offered",
            "account": "not_offered",
            "actor": "not_offered",
            "stamp": mark,
        },
        "require": _required(resource, kind),
        "ensure": {"as asked for": fields_as_asked},
    }


def _required(resource: Resource, kind: str) -> dict[str, str]:
    """Refuse key, stamp and foreign tenants among the fields: a change would move the resource to another key or
    tenant.
    """
    key, stamp, tenant = (quoted(name) for name in (resource.identified_by, resource.mark, resource.tenant))
    found = {"only fields": f"[{key}, {stamp}].all(name, !(name in requested.fields))"}
    if resource.tenant:
        found["own tenant"] = f"!({tenant} in requested.fields) || requested.fields[{tenant}] == scope.tenant"
    if kind == "set":  # an update needs the resource read before
        found["there"] = "before != null"
    return found


@postcondition(version="1", name="fields as asked for")
def fields_as_asked(requested: dict[str, Json], authoritative: dict[str, Json]) -> bool | None:
    """Every requested field is present, with the same value and type."""
    fields, shown = requested["fields"], authoritative.get("resource")
    if not isinstance(fields, dict) or not isinstance(shown, dict):
        return None
    if not set(fields) <= set(shown):
        return None
    return all(type(shown[name]) is type(value) and shown[name] == value for name, value in fields.items())
