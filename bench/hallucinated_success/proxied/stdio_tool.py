"""The tool of a task as an MCP server on stdio: `python -m ...stdio_tool PORT`. Standard library alone.

An exception of the tool is a result with `isError`. Everything else is a result without.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

TOOL = {
    "name": "change_order",
    "description": "Changes the order.",
    "inputSchema": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
}


def answer(message: dict[str, Any], port: str) -> dict[str, Any] | None:
    """Return the answer to a request; None for a notification."""
    if "id" not in message:
        return None
    method, result = message.get("method"), dict[str, Any]()
    if method == "initialize":
        info = {"name": "bench", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        result = call(port)
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def call(port: str) -> dict[str, Any]:
    """Call the tool of the task."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=b"{}") as said:
        found = json.load(said)
    if "error" in found:
        return {"isError": True, "content": [{"type": "text", "text": found["error"]}]}
    value = found["answer"]
    text = value if isinstance(value, str) else json.dumps(value)
    result: dict[str, Any] = {"isError": False, "content": [{"type": "text", "text": text}]}
    return {**result, "structuredContent": value} if isinstance(value, dict) else result


if __name__ == "__main__":
    for line in sys.stdin:
        said = answer(json.loads(line), sys.argv[1])
        if said is not None:
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()
