"""A server without the SDK that answers as its tools are named: in pieces, twice, with garbage, or not at all.

Only the standard library, and little of it, so that it starts at once.
"""

import json
import os
import sys

PROPERTIES = {"name": {"type": "string"}, "text": {"type": "string"}}
TOOLS = [{"name": "write", "inputSchema": {"type": "object", "properties": PROPERTIES, "required": [*PROPERTIES]}}]


def say(message: object) -> None:
    sys.stdout.write(message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message}))  # type: ignore[dict-item]
    sys.stdout.write("\n")
    sys.stdout.flush()


def text(request_id: object, said: str) -> dict:  # type: ignore[type-arg]
    return {"id": request_id, "result": {"content": [{"type": "text", "text": said}]}}


def listed(mode: str, params: dict) -> dict:  # type: ignore[type-arg]
    """`empty cursor`: the second page is behind an empty one; `same cursor`: each page names itself."""
    if mode == "empty cursor":
        return (
            {"tools": TOOLS, "nextCursor": ""} if "cursor" not in params else {"tools": [{**TOOLS[0], "name": "two"}]}
        )
    return {"tools": TOOLS, "nextCursor": mode.removeprefix("same ")} if mode.startswith("same") else {"tools": TOOLS}


def call(request_id: object, name: str, arguments: dict) -> None:  # type: ignore[type-arg]
    if name == "garbage":
        say("this is a debugging line {")
        say(f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "result": no}}')
    elif name == "chatty":
        say("this is a debugging line {")
        say(text(request_id, "said"))
    elif name == "twice":
        say(text(request_id, "first"))
        say(text(request_id, "second"))
    elif name == "deep":
        levels = arguments["levels"]
        nested = "[" * levels + "]" * levels
        say(f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "result": {{"content": [], "deep": {nested}}}}}')
    elif name == "deaf":
        import signal

        signal.pause()
    elif name == "waits":
        with open(arguments["for"]) as pipe:
            pipe.read()
        say(text(request_id, "done"))
    elif name == "exit":
        sys.exit(3)
    elif name == "large":
        sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "result": {{"content": "')
        for _ in range(arguments["mebibytes"]):
            sys.stdout.write("x" * 1024 * 1024)
        say('"}}')
    elif name == "number":
        say(f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "result": {{"content": [], "n": {arguments["n"]}}}}}')
    elif name == "echo":
        say({"id": request_id, "result": {"content": [], "arguments": arguments}})
    elif name == "closed":
        say({"id": request_id, "error": {"code": -32000, "message": "Connection closed"}})
    elif name == "timeout":
        say({"id": request_id, "error": {"code": -32001, "message": "Request timed out"}})
    elif name == "refuse":
        say({"id": request_id, "error": {"code": -32050, "message": "no", "data": {"why": 1}}})
    elif name == "write":
        with open(arguments["name"], "w") as file:
            file.write(arguments["text"])
        say(text(request_id, "written"))
    elif name == "who":
        say(text(request_id, str(os.getpid())))
    elif name == "asks badly":
        say('{"jsonrpc": "2.0", "id": "q", "method": "roots/list", "params": ["\\ud83d"]}')
        say(text(request_id, str(json.loads(sys.stdin.readline())["error"]["code"])))
    elif name == "asks":
        meta = {"progressToken": 7, "example/x": 1}
        say({"id": "q", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1, "_meta": meta}})
        told = json.loads(sys.stdin.readline())
        json.loads(sys.stdin.readline())
        say(text(request_id, json.dumps(told["params"])))
    elif name == "asks for a task":
        say({"id": "q", "method": arguments["method"], "params": {"message": None, "task": {"ttl": 60}}})
        told = json.loads(sys.stdin.readline())
        say(text(request_id, json.dumps({key: told.get(key) for key in ("result", "error")})))
    elif name != "silent":
        say(text(request_id, name))


def tasked(request_id: object, method: str, params: dict, name: str) -> None:  # type: ignore[type-arg]
    """A server of this name that has one task, which bears its name."""
    task = {"taskId": f"of {name}", "status": "working"}
    if method == "tools/call":
        say({"id": request_id, "result": {"content": [], "task": task}})  # the SDK's client wants content
    elif method == "tasks/list":
        say({"id": request_id, "result": {"tasks": [task]}})
    elif params.get("taskId") != task["taskId"]:
        say({"id": request_id, "error": {"code": -32602, "message": f"{name} has no such task"}})
    else:
        say({"id": request_id, "result": {**task, "asked": method, "of": name}})


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "gone":
        sys.exit(1)
    hung = False
    for line in sys.stdin:
        message = json.loads(line)
        request_id, method = message.get("id"), message.get("method")
        if hung or method is None or (request_id is None and mode != "lax"):
            continue
        if method == "initialize":
            about = {"name": "rough", "version": "1"}
            version = message["params"]["protocolVersion"]
            able = {} if mode == "toolless" else {"tools": {}, "tasks": {}} if mode == "tasks" else {"tools": {}}
            say({"id": request_id, "result": {"protocolVersion": version, "capabilities": able, "serverInfo": about}})
        elif mode == "tasks" and (method == "tools/call" or method.startswith("tasks/")):
            tasked(request_id, method, message.get("params") or {}, sys.argv[2])
        elif method == "tools/call":
            params = message["params"]
            hung = params["name"] == "hang"
            if not hung:
                call(request_id, params["name"], params.get("arguments") or {})
        elif method == "tools/list" and mode not in ("unlisted", "toolless"):
            say({"id": request_id, "result": listed(mode, message.get("params") or {})})
        elif method == "ping":
            say({"id": request_id, "result": {}})
        else:
            error = {"code": -32601, "message": "Method not found", "data": message.get("params")}
            say({"id": request_id, "error": error})
    if mode == "stubborn":
        while True:
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.pause()


main()
