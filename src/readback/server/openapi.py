"""The OpenAPI 3.1 description of the API, made from the route table and the types of requests and answers.

Served as `/openapi.json`, and checked in as `docs/reference/openapi.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from readback.server.api import shapes
from readback.server.routing import Answer, Call, NoQuery, Reply, Route, RouteTable

VERSION: Final = "1"
TITLE: Final = "Readback"
REFS: Final = "#/components/schemas/{name}"
PROBLEM: Final = "application/problem+json"
ALWAYS: Final = (400, 421, 500, 503)
AUTHENTICATED: Final = (401, 403, 429)
MEANINGS: Final = {
    400: "The request is malformed.",
    401: "The token, or the signature, is missing or wrong.",
    403: "The token lacks the right, or the caller may not do this.",
    404: "The tenant has no such thing.",
    409: "The state does not allow this now.",
    410: "The evidence was erased.",
    412: "The thing has another version.",
    413: "The request is too large.",
    415: "The body is not JSON.",
    421: "The request names another host.",
    422: "The request cannot be executed as given.",
    428: "The version is missing.",
    429: "Too many requests, or a limit of the tenant is reached.",
    500: "An unexpected error before anything was recorded.",
    503: "The server or its ledger is not available. Nothing was recorded.",
}
HEADERS: Final = {
    "Prefer": ("How long to wait for a settled outcome: `wait=SECONDS`, or `respond-async`.", {"type": "string"}),
    "traceparent": ("The caller's trace (W3C Trace Context), for the record.", {"type": "string"}),
    "Last-Event-ID": (
        "The ledger position of the last received event.",
        {"type": "string", "pattern": "^[0-9]{1,18}$"},
    ),
    "webhook-id": ("The message's id.", {"type": "string"}),
    "webhook-timestamp": ("Seconds since 1970.", {"type": "string"}),
    "webhook-signature": ("`v1,` and the signature in Base64.", {"type": "string"}),
}
ANSWER_HEADERS: Final = {
    "Location": "Where to look at the action.",
    "ETag": "The version of the action, for If-Match.",
    "Retry-After": "Seconds until the next look is useful.",
}
TAGS: Final = {
    "actions": "Run actions, and read their outcomes.",
    "attempts": "Calls made by the caller, recorded before and read back after.",
    "sagas": "Several actions as one.",
    "reviews": "Actions awaiting a person's decision.",
    "approvals": "Actions waiting for a signature.",
    "claims": "Claims about actions, and their standing.",
    "incidents": "Incidents in need of a person.",
    "freezes": "Subjects closed to new actions.",
    "contracts": "The contracts of the server.",
    "runs": "Beliefs and final reports of a run.",
    "events": "The tenant's ledger entries as a stream.",
    "server": "The server itself.",
    "delivery": "Messages to subscribers.",
    "webhooks": "Wake-ups by providers.",
}
LINKED: Final = (
    "getAction",
    "listActionEvents",
    "getActionProof",
    "getActionBundle",
    "explainAction",
    "cancelAction",
    "signalAction",
)
"""The operations that take the id of an answered action."""
ID_OF_BODY: Final = "$response.body#/id"
KEY_HEADER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "The name of the intent (the operation). The same name never executes twice.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 256},
}
VERSION_HEADER: Final = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The ETag of the case that the decision is about.",
    "schema": {"type": "string", "pattern": '^"[0-9]{1,12}"$'},
}


def document(table: RouteTable) -> dict[str, Any]:
    """Return the description of every route of the table."""
    types = _types(table.routes)
    _, components = msgspec.json.schema_components(types, ref_template=REFS)
    paths: dict[str, dict[str, Any]] = {}
    for route in table.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": VERSION,
            "description": "Run actions of agents, and read what became of them. Every statement about an action rests "
            "on a reading of the system of record.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that serves this document."}],
        "security": [{"token": []}],
        "tags": [{"name": each, "description": TAGS[each]} for each in dict.fromkeys(r.tag for r in table.routes)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `readback token create`, or of an identity provider of the server.",
                }
            },
        },
    }


def _types(routes: Iterable[Route]) -> list[Any]:
    found: list[Any] = [shapes.Problem]
    for route in routes:
        found += [each.body for each in route.answers if each.body not in (None, str)]
        found += [route.body] if route.body not in (None, bytes) else []
    return list(dict.fromkeys(each for each in found if isinstance(each, type) and issubclass(each, msgspec.Struct)))


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": _responses(route),
    }
    if route.right is None:
        found["security"] = []
    else:
        found["description"] = f"Requires the right `{route.right}`."
    parameters = [*_path(route), *_query(route), *_headers(route)]
    if parameters:
        found["parameters"] = parameters
    if route.body is bytes:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    elif route.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema(route.body)}}}
    return found


def _path(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _query(route: Route) -> list[dict[str, Any]]:
    if route.query is NoQuery:
        return []
    _, components = msgspec.json.schema_components([route.query], ref_template=REFS)
    schema = components[route.query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]


def _headers(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if route.key:
        found.append(dict(KEY_HEADER))
    if route.version:
        found.append(dict(VERSION_HEADER))
    for name in route.headers:
        meaning, schema = HEADERS[name]
        found.append({"name": name, "in": "header", "required": False, "description": meaning, "schema": schema})
    return found


def _responses(route: Route) -> dict[str, Any]:
    found = {str(each.status): _answer(each) for each in route.answers}
    statuses = {*ALWAYS, *route.faults, *(AUTHENTICATED if route.right is not None else ())}
    if route.body is not None:
        statuses |= {413} | ({415} if route.body is not bytes else set())
    if route.version:
        statuses.add(428)
    for status in sorted(statuses):
        found[str(status)] = {
            "description": MEANINGS[status],
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return dict(sorted(found.items()))


def _answer(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {"description": answer.meaning}
    if answer.body is not None:
        found["content"] = {answer.media: {"schema": _schema(answer.body)}}
    if answer.headers:
        found["headers"] = {
            name: {"description": ANSWER_HEADERS[name], "schema": {"type": "string"}} for name in answer.headers
        }
    if answer.body is shapes.ActionView:
        found["links"] = {name: {"operationId": name, "parameters": {"id": ID_OF_BODY}} for name in LINKED}
    return found


def _schema(kind: Any) -> dict[str, Any]:
    schemas, _ = msgspec.json.schema_components([kind], ref_template=REFS)
    return dict(schemas[0])


def described(table: RouteTable) -> Route:
    """Return the route that serves the description of a table. The description lists the route itself, too."""
    text: list[bytes] = []

    async def serve(_call: Call) -> Reply:
        if not text:
            text.append(document_bytes(RouteTable([*table.routes, route])))
        return Reply(200, text[0])

    route = Route(
        "GET",
        "/openapi.json",
        "getDescription",
        "Return this description.",
        serve,
        None,
        (Answer(200, "The OpenAPI document.", dict[str, Any]),),
        tag="server",
    )
    return route


def document_bytes(table: RouteTable) -> bytes:
    """Return the description as JSON text, as checked in."""
    return msgspec.json.format(msgspec.json.encode(document(table)), indent=1) + b"\n"
