"""Texts of messages through the SDK's models: beside a value going in, in place of it coming out.

The SDK reads and writes the messages of the handshake era over HTTP itself, and its models keep no text. So what
carries its text (`verbatim`) gets a member with a name that this process alone knows, before the SDK reads; and where
the SDK writes, a text that begins with that name stands for the part, until the bytes are sent.
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
"""The name. Nobody outside can say it, so that nothing that is sent is taken for it."""
_MARK: Final = MARK.encode("ascii")
_MARKED: Final = re.compile(rb'"' + _MARK + rb'((?:[^"\\]|\\.)*)"')
NESTED_MAX: Final = 100
"""What may be nested deeper is not shown to the SDK's reader, which refuses a message with such a part."""
CALL: Final = "tools/call"
ARGUMENTS: Final = "arguments"


class HttpStreams(NamedTuple):
    """The SDK's streams to a server over HTTP, whose messages are marked."""

    read: Any
    write: Any


def marked(body: bytes, *, from_client: bool) -> bytes:
    """An answer, or a request, with the texts of its parts beside them; any other message as it is.

    Of a client's requests that is the arguments of a call: what else it asks is the gateway's to read.
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
    """The parts with their texts again, once the SDK has read the message."""
    return {name: _with_text(part) for name, part in params.items()}


def _with_text(part: Any) -> Any:
    if not isinstance(part, dict) or type(part.get(MARK)) is not str:
        return part
    return carried(part[MARK].encode())


def written_out(result: Mapping[str, Any]) -> dict[str, Any]:
    """The parts in the form that goes through the SDK's models: a text for what they would write otherwise."""
    return {name: _in_place(part) for name, part in result.items()}


def _in_place(part: Any) -> Any:
    if isinstance(part, VERBATIM):
        return MARK + part.raw.decode()
    return MARK + json_text(part, compact=True) if holds_exact(part) else part


def over_http(context: object) -> bool:
    """Whether a client's request came over HTTP, by the SDK's own session: what is answered to it is marked."""
    return getattr(context, "request", None) is not None


def sent(body: bytes) -> bytes:
    """What the SDK wrote, with the texts in their places."""
    return _MARKED.sub(lambda found: json.loads(b'"' + found[1] + b'"').encode(), body) if _MARK in body else body
