"""JSON-RPC messages as lines: read, check and write. Used by both ends of pipes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from mcp_types.jsonrpc import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from readback.canon.frozen import dataclass
from readback.gateway.wire.verbatim import VERBATIM, fragment, message_of, slowly

MESSAGE_MAX_BYTES: Final = 64 * 1024 * 1024
"""A longer message is not read. A waiting request gets an error, and the connection stays open."""
HEAD_BYTES: Final = 4096

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
"""A transport's streams: incoming and outgoing messages."""

ANSWERING: Final = frozenset({"jsonrpc", "result", "error"})
"""Keys distinguishing an unreadable answer from other messages with an id."""
BATCH: Final = "Batches are not supported. Send each message separately."
NO_JSON: Final = "holds a number that JSON has not (NaN, or one beyond every bound)"

_STRICT: Final = json.JSONEncoder(allow_nan=False)
_ID = re.compile(rb'"id"\s*:\s*(-?\d{1,18}(?![\d.eE])|"[^"\\]{1,256}")')
_METHOD = re.compile(rb'"method"\s*:')
_AS_IT_CAME: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_SUBCLASS


class NotJsonError(ValueError):
    """The message has no exact JSON form. No part of a message may change on the way."""


class _Refusal(JSONRPCError):
    """An error answer with an id of any type."""

    id: Any


@dataclass(frozen=True, slots=True)
class TooLong:
    """Head and tail of a line longer than the limit."""

    head: bytes
    tail: bytes

    @property
    def request_id(self) -> int | str | None:
        """The id, if visible in head or tail."""
        return _identity(self.head) if _ID.search(self.head) else _identity(self.tail)

    @property
    def said(self) -> str:
        return f"The message is larger than {MESSAGE_MAX_BYTES} bytes."


def from_server(line: bytes | TooLong) -> SessionMessage | Exception | None:
    """Return the message of a line, or None for an empty line.

    An invalid line with the id of a request becomes an error answer: the request's outcome is unknown.
    """
    if isinstance(line, TooLong):
        answers = None if _METHOD.search(line.head) else line.request_id
        return ValueError(line.said) if answers is None else _error(answers, CONNECTION_CLOSED, line.said)
    message = from_client(line)
    if isinstance(message, SessionMessage) and unfit(message):
        whose = message.message
        said = f"The answer {NO_JSON}."
        return _error(whose.id, CONNECTION_CLOSED, said) if isinstance(whose, JSONRPCResponse) else NotJsonError(said)
    return message


def from_client(line: bytes) -> SessionMessage | Exception | None:
    """Return the message of a line, None for an empty line, or an error for an invalid line.

    For an unreadable answer, the asking server receives an error.
    """
    message = _read(line)
    return message if not isinstance(message, Exception) else _unread_answer(line) or message


def _read(line: bytes) -> SessionMessage | Exception | None:
    if not line.strip():
        return None
    try:
        plain = plain_json(line)
        if plain is None:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        else:
            message = jsonrpc_message_adapter.validate_python(plain, by_name=False)
    except ValueError as error:
        return error
    if isinstance(message, JSONRPCNotification) and b'"id"' in line and _wants_answer(_seen(line)):
        return ValueError("The id is none, so that the model takes the request for a notification.")
    return SessionMessage(message)


def unfit(message: SessionMessage) -> bool:
    """Return whether a message accepted by the slow reader cannot be written back unchanged."""
    match message.message:
        case JSONRPCRequest(params=inside) | JSONRPCNotification(params=inside) | JSONRPCResponse(result=inside):
            return not is_json(inside)
        case _:
            return False


def unfit_request(message: SessionMessage) -> SessionMessage | None:
    """Return the error answer to a request impossible to forward unchanged, else None."""
    if not isinstance(message.message, JSONRPCRequest) or not unfit(message):
        return None
    return _error(message.message.id, INVALID_PARAMS, f"The request {NO_JSON}.")


def is_json(value: object) -> bool:
    """Return whether every number is a JSON number."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, VERBATIM):
            continue  # written with its original JSON text
        if isinstance(each, float):
            if not math.isfinite(each):
                return False
        elif isinstance(each, Mapping):
            rest.extend(each.values())
        elif isinstance(each, list | tuple):
            rest.extend(each)
    return True


def unread(line: bytes) -> SessionMessage | None:
    """Return the error answer to an unreadable request, else None.

    Examples: an unpaired surrogate, unlimited nesting, a mistyped field, an invalid id. Without an answer the client
    would wait forever.
    """
    seen = _seen(line)
    if not _wants_answer(seen):
        return None
    error = ErrorData(code=INVALID_REQUEST, message="The request is none that can be handed on.")
    return SessionMessage(_Refusal(jsonrpc="2.0", id=_echoed(seen["id"]), error=error))


def refusals(line: bytes, message: SessionMessage | Exception) -> list[SessionMessage]:
    """Return error answers to the requests of an unusable line; none for a usable line or a notification.

    Each request of a batch gets an answer. Only revision 2025-03-26 has batches.
    """
    if not isinstance(message, Exception):
        refused = unfit_request(message)
    elif line.lstrip().startswith(b"["):
        return [_error(each, INVALID_REQUEST, BATCH) for each in _batched(line)]
    else:
        refused = unread(line)
    return [] if refused is None else [refused]


def _batched(line: bytes) -> list[int | str]:
    """Return the ids of a batch's requests."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return []
    asked = [each.get("id") for each in found if isinstance(each, dict) and _wants_answer(each)]
    return [each for each in map(_sound, asked) if each is not None]


def _unread_answer(line: bytes) -> SessionMessage | None:
    """Return the error answer for a request with an unreadable answer. A JSON log line is not an answer."""
    if seen := _seen(line):
        answers = _sound(seen.get("id")) if "method" not in seen and not ANSWERING.isdisjoint(seen) else None
    else:
        answers = None if _METHOD.search(line) else _identity(line)
    return None if answers is None else _error(answers, CONNECTION_CLOSED, "The answer is no JSON-RPC message.")


def _seen(line: bytes) -> dict[str, Any]:
    """Return the content of an invalid line by a lenient reader; empty if unreadable."""
    try:
        found = json.loads(line.decode("utf-8-sig", "replace"))
    except RecursionError:
        only = _identity(line) if len(_ID.findall(line)) == 1 else None  # with several ids the right one is unknown
        asks = {"method": ""} if _METHOD.search(line) else {}
        return {} if only is None else {"jsonrpc": "2.0", "id": only, **asks}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _sound(request_id: object) -> int | str | None:
    """Return an id usable in an answer, else None."""
    if isinstance(request_id, str):
        return request_id if request_id == request_id.encode("utf-8", "replace").decode() else None
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


def _wants_answer(seen: Mapping[str, Any]) -> bool:
    """Return whether the message is a request, with any id. Some clients write a null id into notifications."""
    method = seen.get("method")
    tells = seen.get("id") is None and isinstance(method, str) and method.startswith("notifications/")
    return "method" in seen and "id" in seen and not tells


def _echoed(request_id: object) -> object:
    """Return the id unchanged, even of an unknown type; None if it cannot be written."""
    if isinstance(request_id, bool) or (isinstance(request_id, float) and math.isfinite(request_id)):
        return request_id
    return _sound(request_id)


def refusal(line: TooLong) -> SessionMessage | None:
    """Return the error answer to an overlong request, or None for an unknown id."""
    found = line.request_id
    return None if found is None else _error(found, INVALID_REQUEST, line.said)


def written(message: SessionMessage) -> bytes:
    """Return a message as one line."""
    match message.message:
        case JSONRPCResponse(id=answers, result=result):
            return answer_line({"jsonrpc": "2.0", "id": answers, "result": result})
        case JSONRPCRequest(id=asked, method=method, params=params) if params is not None:
            return answer_line({"jsonrpc": "2.0", "id": asked, "method": method, "params": params})
        case JSONRPCError(id=answers, error=error):
            told = error.model_dump(exclude_unset=True)
            return answer_line({"jsonrpc": "2.0", "id": answers, "error": told})
        case _:
            return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def plain_json(line: bytes) -> dict[str, Any] | None:
    """Return a line's message with the original text of its parts, or None for an invalid line."""
    try:
        found = message_of(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else None


def json_line(message: Mapping[str, Any]) -> bytes:
    """Return a raw message as one line. Raises NotJsonError."""
    try:
        line = orjson.dumps(message, default=fragment, option=_AS_IT_CAME)
    except TypeError:  # only the slow writer takes a large integer or an unpaired surrogate
        if not is_json(message):
            raise NotJsonError(f"The message {NO_JSON}.") from None
        return slowly(message) + b"\n"
    # The quick writer makes null of numbers outside JSON. Reading the line again shows the difference.
    if b"null" in line and not _reads_as(line, message) and not _has_json_numbers(message):
        raise NotJsonError(f"The message {NO_JSON}.")
    return line


def _reads_as(line: bytes, message: Mapping[str, Any]) -> bool:
    try:
        return bool(orjson.loads(line) == message)
    except ValueError:  # an unpaired surrogate in a part with its original text
        return False


def _has_json_numbers(message: Mapping[str, Any]) -> bool:
    """Do the work of `is_json` in a C encoder with strict numbers, if the encoder accepts the rest."""
    try:
        _STRICT.encode(message)
    except (ValueError, TypeError, RecursionError):
        return is_json(message)
    return True


def answer_line(message: Mapping[str, Any]) -> bytes:
    """Return an answer as one line, or an error answer if the message has no JSON form."""
    try:
        return json_line(message)
    except NotJsonError:
        error = {"code": INTERNAL_ERROR, "message": f"The answer {NO_JSON}."}
        return json_line({"jsonrpc": "2.0", "id": message.get("id"), "error": error})


def _error(request_id: int | str, code: int, said: str) -> SessionMessage:
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=said)))


def _identity(part: bytes) -> int | str | None:
    found = _ID.search(part)
    if found is None:
        return None
    text = found[1].decode("utf-8", "replace")
    return text[1:-1] if text.startswith('"') else int(text)
