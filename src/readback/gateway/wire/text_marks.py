"""Carry original texts through the SDK's models: beside the value going in, in place of the value coming out.

The SDK reads and writes handshake-era messages over HTTP, and its models keep no text. Before the SDK reads, each value
with a text (`verbatim`) gets an extra member with a secret name. When the SDK writes, a string with the secret name
stands for the part until the bytes are sent.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from readback.canon import holds_exact, json_text
from readback.gateway.wire.verbatim import VERBATIM, VerbatimObject, carried, fragment, message_of

MARK: Final = f"readback-text-{secrets.token_hex(16)}"
"""The secret name. No other process knows the name, so no received text is mistaken for a mark."""
_MARK: Final = MARK.encode("ascii")
_MARKED: Final = re.compile(rb'"' + _MARK + rb'((?:[^"\\]|\\.)*)"')
NESTED_MAX: Final = 100
"""Deeper parts are hidden from the SDK's reader. The SDK would reject the whole message."""
CALL: Final = "tools/call"
ARGUMENTS: Final = "arguments"


class HttpStreams(NamedTuple):
    """The SDK's streams to a server over HTTP, with marked messages."""

    read: Any
    write: Any


def marked(body: bytes, *, from_client: bool) -> bytes:
    """Return an answer or request with the texts of its parts beside them; any other message unchanged.

    In a client's request only a call's arguments are marked. The gateway reads the rest itself.
    """
    try:
        message = message_of(body)
    except ValueError:
        return body
    if not isinstance(message, dict):
        return body
    asks = "method" in message
    if asks and ("id" not in message or (from_client and message["method"] != CALL)):
        return body
    key = "params" if asks else "result"
    inner = message.get(key)
    if not isinstance(inner, dict):
        return body
    wanted = {ARGUMENTS} if asks and from_client else inner.keys()
    beside = {name: _beside(inner[name]) for name in inner if name in wanted}
    if all(beside[name] is inner[name] for name in beside):
        return body
    return orjson.dumps({**message, key: {**inner, **beside}}, default=fragment)


def _beside(part: Any) -> Any:
    if not isinstance(part, VerbatimObject):
        return part
    text = part.raw.decode()
    if part.raw.count(b"[") + part.raw.count(b"{") > NESTED_MAX:
        return {MARK: text}
    try:
        return orjson.loads(orjson.dumps({**part, MARK: text}, default=float))
    except (TypeError, ValueError):  # what the SDK could not read either
        return {MARK: text}


def unmarked(params: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the texts of the parts after the SDK has read the message."""
    return {name: _with_text(part) for name, part in params.items()}


def _with_text(part: Any) -> Any:
    if not isinstance(part, dict) or type(part.get(MARK)) is not str:
        return part
    return carried(part[MARK].encode())


def written_out(result: Mapping[str, Any]) -> dict[str, Any]:
    """Replace parts the SDK would write differently by their mark."""
    return {name: _in_place(part) for name, part in result.items()}


def _in_place(part: Any) -> Any:
    if isinstance(part, VERBATIM):
        return MARK + part.raw.decode()
    return MARK + json_text(part, compact=True) if holds_exact(part) else part


def over_http(context: object) -> bool:
    """Return whether a client's request came over HTTP through the SDK's session, so that its answer is marked."""
    return getattr(context, "request", None) is not None


def sent(body: bytes) -> bytes:
    """Return the bytes written by the SDK, with the texts in place of their marks."""
    return _MARKED.sub(lambda found: json.loads(b'"' + found[1] + b'"').encode(), body) if _MARK in body else body
