"""A server without the SDK that answers each call with the very text of its arguments, over stdio or HTTP.

Only the standard library. `--http`: on a free port of loopback, whose address it prints; `--events`: as events.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENVELOPE = {"capabilities": {"tools": {}}, "serverInfo": {"name": "verbatim", "version": "1"}}
STATELESS = "2026-07-28"


def end_of(text: str, at: int) -> int:
    """Where the value ends that begins there."""
    depth, inside, escaped = 0, False, False
    for place in range(at, len(text)):
        one = text[place]
        if inside:
            escaped, inside = one == "\\" and not escaped, not (one == '"' and not escaped)
            if not inside and not depth:
                return place + 1
        elif one == '"':
            inside = True
        elif one in "{[":
            depth += 1
        elif one in "}]":
            if depth <= 1:
                return place + (1 if depth else 0)
            depth -= 1
        elif one == "," and not depth:
            return place
    return len(text)


def shallow(text: str) -> str:
    """The text without what is deep or strange in it, for the standard library."""
    at = text.find('"arguments"')
    if at < 0:
        return text
    begins = text.index(":", at) + 1
    return text[:begins] + "{}" + text[end_of(text, begins + len(text[begins:]) - len(text[begins:].lstrip())) :]


def answer(line: str) -> str | None:
    message = json.loads(shallow(line))
    request_id, method = message.get("id"), message.get("method")
    if request_id is None or method is None:
        return None
    if method == "initialize":
        result = json.dumps({"protocolVersion": message["params"]["protocolVersion"], **ENVELOPE})
    elif method == "server/discover" and "--stateless" in sys.argv:
        about = {"supportedVersions": [STATELESS], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        result = json.dumps({**about, **ENVELOPE})
    elif method == "tools/list":
        result = json.dumps({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "resultType": "complete"})
    elif method == "tools/call":
        begins = line.index(":", line.index('"arguments"')) + 1
        begins += len(line[begins:]) - len(line[begins:].lstrip())
        result = (
            f'{{"content": [], "resultType": "complete", "structuredContent": {line[begins : end_of(line, begins)]}}}'
        )
    else:
        error = json.dumps({"code": -32601, "message": "Method not found"})
        return f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "error": {error}}}'
    return f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "result": {result}}}'


class Posts(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        said = answer(self.rfile.read(int(self.headers["Content-Length"])).decode())
        body = b"" if said is None else said.encode()
        kind = "application/json"
        if "--events" in sys.argv and body:
            body, kind = b"event: message\r\ndata: " + body + b"\r\n\r\n", "text/event-stream"
        self.send_response(202 if said is None else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    if "--http" in sys.argv:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Posts)
        sys.stdout.write(f"http://127.0.0.1:{server.server_port}/mcp\n")
        sys.stdout.flush()
        server.serve_forever()
    for line in sys.stdin:
        said = answer(line)
        if said is not None:
            sys.stdout.write(said + "\n")
            sys.stdout.flush()


main()
