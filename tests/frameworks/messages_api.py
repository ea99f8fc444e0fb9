"""A Messages API on loopback that plays a script: the model behind the bundled command line of the Claude Agent SDK."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.frameworks.driver import Seen, Turn, played

USAGE = {"input_tokens": 1, "output_tokens": 1}


class MessagesApi:
    """Serve `turns` to requests with tools. Other requests, such as for a title, get a fixed text."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns, self._lock = list(turns), threading.Lock()
        self.asked = 0
        self.messages: list[dict[str, Any]] = []
        """The messages of the last request: what the model was shown."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_POST(handler) -> None:  # noqa: N805 - `self` is the API
                length = int(handler.headers.get("content-length") or 0)
                self._answer(handler, json.loads(handler.rfile.read(length) or b"{}"))

            def do_GET(handler) -> None:  # noqa: N805
                _send(handler, {})

            do_HEAD = do_GET  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if not handler.path.startswith("/v1/messages") or "count_tokens" in handler.path:
            return _send(handler, {"input_tokens": 1})
        with self._lock:
            self.asked += 1
            number, blocks = self.asked, self._blocks(body)
        ended = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model", "m")}
        message |= {"content": blocks, "stop_reason": ended, "stop_sequence": None, "usage": USAGE}
        return _stream(handler, message, blocks) if body.get("stream") else _send(handler, message)

    def _blocks(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        if not body.get("tools"):
            return [{"type": "text", "text": "A title"}]
        self.messages = body["messages"]
        turn = played(self._turns.pop(0) if self._turns[1:] else self._turns[0], seen(body["messages"]))
        if isinstance(turn, str):
            return [{"type": "text", "text": turn}]
        return [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in turn]


def blocks_of(messages: Sequence[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """All content blocks of one kind, oldest first."""
    contents = [message["content"] for message in messages if isinstance(message["content"], list)]
    return [block for content in contents for block in content if block.get("type") == kind]


def results_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The results of tools. The command line's own words for an interrupted call are no result."""
    found = blocks_of(messages, "tool_result")
    return [block for block in found if "interrupted" not in text_of(block.get("content"))]


def seen(messages: Sequence[Mapping[str, Any]]) -> Seen:
    return Seen(tuple(text_of(block.get("content")) for block in results_of(messages)), json.dumps(messages))


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())


def _send(handler: BaseHTTPRequestHandler, body: object) -> None:
    data = json.dumps(body).encode()
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def _stream(handler: BaseHTTPRequestHandler, message: Mapping[str, Any], blocks: Sequence[dict[str, Any]]) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("connection", "close")
    handler.end_headers()

    def event(kind: str, **data: object) -> None:
        handler.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode())

    event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            given = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": given}
        event("content_block_start", index=index, content_block=start)
        event("content_block_delta", index=index, delta=delta)
        event("content_block_stop", index=index)
    event("message_delta", delta={"stop_reason": message["stop_reason"], "stop_sequence": None}, usage=USAGE)
    event("message_stop")
    handler.close_connection = True
