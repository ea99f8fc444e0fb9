"""The foreign tool as an MCP server over stdio: `python book.py HOME`. Without an SDK, each version can attach it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.frameworks import shop

TOOL = {"name": "enter", "description": "Enter an amount under a name.", "inputSchema": shop.ENTER_SCHEMA}


def answer(method: str, params: dict[str, object]) -> dict[str, object] | None:
    match method:
        case "initialize":
            version = params.get("protocolVersion", "2025-06-18")
            about = {"name": "book", "version": "1.0.0"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            text = shop.enter(**params["arguments"])  # type: ignore[arg-type]
            return {"content": [{"type": "text", "text": text}]}
        case "ping":
            return {}
    return None


def main() -> None:
    shop.use(Path(sys.argv[1]))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        unknown = {"code": -32601, "message": "unknown method"}
        body = {"result": result} if result is not None else {"error": unknown}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
