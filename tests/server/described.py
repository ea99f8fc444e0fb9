"""Hold every answer of a test's server to the API's own description: a documented status, and a body of the schema."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from readback.server.openapi import document
from readback.server.routing import Route
from readback.server.serving import whole_table


@cache
def description() -> dict[str, Any]:
    return document(whole_table())


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": description()["components"]})


def route_of(method: str, path: str) -> Route | None:
    found = whole_table().find(path)
    return None if found is None else found[0].get(method)


def check(response: httpx.Response) -> None:
    """Fails where the answer is not the described one. Streams are checked by their own tests."""
    path = response.request.url.raw_path.partition(b"?")[0].decode()
    route = route_of(response.request.method, path)
    if route is None or path == "/v1/events":
        return
    response.read()
    described = description()["paths"][route.path][route.method.lower()]["responses"]
    assert str(response.status_code) in described, f"{route.name} does not describe {response.status_code}"
    media = response.headers.get("content-type", "").partition(";")[0]
    content = described[str(response.status_code)].get("content", {})
    assert media in content, f"{route.name} does not describe {media} of {response.status_code}"
    name = re.search(r"schemas/(\w+)", str(content[media]["schema"]))
    if name is not None and media.endswith("json"):
        faults = [*_validator(name[1]).iter_errors(response.json())]
        assert not faults, f"{route.name}: {faults[0].json_path}: {faults[0].message[:300]}"
