"""A server of the stateless era alone, without the SDK: `HOW` in its arguments says how it answers a handshake.

An error's code, `silent`, or `exit`.
"""

import json
import sys

VERSION = "2026-07-28"


def answer(message: dict, how: str) -> "dict | None":  # type: ignore[type-arg]
    method, params = message["method"], message.get("params") or {}
    if method == "server/discover":
        return {"result": {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, "resultType": "complete"}}
    envelope = (params.get("_meta") or {}).get("io.modelcontextprotocol/protocolVersion")
    if envelope != VERSION:
        if how == "exit":
            sys.exit(3)
        return None if how == "silent" else {"error": {"code": int(how), "message": "not this way"}}
    if method == "tools/list":
        tools = [{"name": "hello", "inputSchema": {"type": "object"}}]
        return {"result": {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": "hello"}], "resultType": "complete"}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        said = answer(message, sys.argv[1]) if "id" in message else None
        if said is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
