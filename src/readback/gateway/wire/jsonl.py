"""Messages as lines: told apart from what is none, and written. Used by both ends that speak over pipes."""

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
"""A longer message is not read: whoever waits for it is told so, and the connection goes on."""
HEAD_BYTES: Final = 4096

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
"""What a transport gives: messages that come, and those that go."""

ANSWERING: Final = frozenset({"jsonrpc", "result", "error"})
"""What tells an answer that cannot be read from whatever else has an id."""
BATCH: Final = "Several messages in one are not taken here; send each as one of its own."
NO_JSON: Final = "holds a number that JSON has not (NaN, or one beyond every bound)"

_STRICT: Final = json.JSONEncoder(allow_nan=False)
_ID = re.compile(rb'"id"\s*:\s*(-?\d{1,18}(?![\d.eE])|"[^"\\]{1,256}")')
_METHOD = re.compile(rb'"method"\s*:')
_AS_IT_CAME: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_SUBCLASS


class NotJsonError(ValueError):
    """Nobody could read it as it is, and nothing of it may become another value on the way."""


class _Refusal(JSONRPCError):
    """Of a request whose id may be of any kind."""

    id: Any


@dataclass(frozen=True, slots=True)
class TooLong:
    """What is kept of a line that is longer than the bound."""

    head: bytes
    tail: bytes

    @property
    def request_id(self) -> int | str | None:
        """The id as far as it is to be seen in the two ends."""
        return _identity(self.head) if _ID.search(self.head) else _identity(self.tail)

    @property
    def said(self) -> str:
        return f"The message is larger than {MESSAGE_MAX_BYTES} bytes."


def from_server(line: bytes | TooLong) -> SessionMessage | Exception | None:
    """The message of a line, None for an empty one.

    Where the line is none but names what it answers, its asker is told that no answer can be had: what was asked for
    may have been done.
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
    """The message of a line, None for an empty one; an error where it is none. Of an answer that nobody here can read
    the server that asked is told that it is none.
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
    """Whether a message that the slow reader took could not be written again as it came."""
    match message.message:
        case JSONRPCRequest(params=inside) | JSONRPCNotification(params=inside) | JSONRPCResponse(result=inside):
            return not is_json(inside)
        case _:
            return False


def unfit_request(message: SessionMessage) -> SessionMessage | None:
    """The answer to a request that could not be handed on as it came. None for what can be."""
    if not isinstance(message.message, JSONRPCRequest) or not unfit(message):
        return None
    return _error(message.message.id, INVALID_PARAMS, f"The request {NO_JSON}.")


def is_json(value: object) -> bool:
    """Whether every number in it is one of JSON."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, VERBATIM):
            continue  # it is written as the JSON that it came as
        if isinstance(each, float):
            if not math.isfinite(each):
                return False
        elif isinstance(each, Mapping):
            rest.extend(each.values())
        elif isinstance(each, list | tuple):
            rest.extend(each)
    return True


def unread(line: bytes) -> SessionMessage | None:
    """The answer to a request that nobody here can read: half a character, a nesting without an end, a field of another
    kind, an id that is none. Its asker would wait for ever. None where it is no request.
    """
    seen = _seen(line)
    if not _wants_answer(seen):
        return None
    error = ErrorData(code=INVALID_REQUEST, message="The request is none that can be handed on.")
    return SessionMessage(_Refusal(jsonrpc="2.0", id=_echoed(seen["id"]), error=error))


def refusals(line: bytes, message: SessionMessage | Exception) -> list[SessionMessage]:
    """The answers to what a client asks in a line that cannot be handed on; none for what can be, or asks for nothing.

    Of a batch, which the revision 2025-03-26 alone has, each request has its own.
    """
    if not isinstance(message, Exception):
        refused = unfit_request(message)
    elif line.lstrip().startswith(b"["):
        return [_error(each, INVALID_REQUEST, BATCH) for each in _batched(line)]
    else:
        refused = unread(line)
    return [] if refused is None else [refused]


def _batched(line: bytes) -> list[int | str]:
    """The ids of a batch's requests."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return []
    asked = [each.get("id") for each in found if isinstance(each, dict) and _wants_answer(each)]
    return [each for each in map(_sound, asked) if each is not None]


def _unread_answer(line: bytes) -> SessionMessage | None:
    """What whoever waits for an answer is told in its place, where nobody here can read it. A log in JSON is none."""
    if seen := _seen(line):
        answers = _sound(seen.get("id")) if "method" not in seen and not ANSWERING.isdisjoint(seen) else None
    else:
        answers = None if _METHOD.search(line) else _identity(line)
    return None if answers is None else _error(answers, CONNECTION_CLOSED, "The answer is no JSON-RPC message.")


def _seen(line: bytes) -> dict[str, Any]:
    """What can be seen of a line that is no message, by a reader who minds little; nothing where that is nothing."""
    try:
        found = json.loads(line.decode("utf-8-sig", "replace"))
    except RecursionError:
        only = _identity(line) if len(_ID.findall(line)) == 1 else None  # of several nobody can say which is its own
        asks = {"method": ""} if _METHOD.search(line) else {}
        return {} if only is None else {"jsonrpc": "2.0", "id": only, **asks}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _sound(request_id: object) -> int | str | None:
    """An id by which somebody can be answered."""
    if isinstance(request_id, str):
        return request_id if request_id == request_id.encode("utf-8", "replace").decode() else None
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


def _wants_answer(seen: Mapping[str, Any]) -> bool:
    """Whether it is a request, whatever its id is. Some write an id of null into what only tells."""
    method = seen.get("method")
    tells = seen.get("id") is None and isinstance(method, str) and method.startswith("notifications/")
    return "method" in seen and "id" in seen and not tells


def _echoed(request_id: object) -> object:
    """An id as it came, also one of no kind that the protocol knows; null for what cannot be written again."""
    if isinstance(request_id, bool) or (isinstance(request_id, float) and math.isfinite(request_id)):
        return request_id
    return _sound(request_id)


def refusal(line: TooLong) -> SessionMessage | None:
    """The answer to a request that is too long. None where it cannot be told which one it is."""
    found = line.request_id
    return None if found is None else _error(found, INVALID_REQUEST, line.said)


def written(message: SessionMessage) -> bytes:
    """A message as one line."""
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
    """A message as it stands in its line, its parts with their own text. None where it is none."""
    try:
        found = message_of(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else None


def json_line(message: Mapping[str, Any]) -> bytes:
    """A raw message as one line. Raises NotJsonError."""
    try:
        line = orjson.dumps(message, default=fragment, option=_AS_IT_CAME)
    except TypeError:  # a large integer, or half a character: only the slow one writes them
        if not is_json(message):
            raise NotJsonError(f"The message {NO_JSON}.") from None
        return slowly(message) + b"\n"
    # Null is what the quick one makes of numbers that JSON has not: read again, the line says something else then.
    if b"null" in line and not _reads_as(line, message) and not _has_json_numbers(message):
        raise NotJsonError(f"The message {NO_JSON}.")
    return line


def _reads_as(line: bytes, message: Mapping[str, Any]) -> bool:
    try:
        return bool(orjson.loads(line) == message)
    except ValueError:  # half a character, in a part that is written as it came
        return False


def _has_json_numbers(message: Mapping[str, Any]) -> bool:
    """As `is_json`, by an encoder in C that refuses such numbers, where it takes everything else."""
    try:
        _STRICT.encode(message)
    except (ValueError, TypeError, RecursionError):
        return is_json(message)
    return True


def answer_line(message: Mapping[str, Any]) -> bytes:
    """An answer as one line; that it cannot be written where it cannot."""
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
