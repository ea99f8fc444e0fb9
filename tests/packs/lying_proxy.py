"""A proxy in front of a real MCP server that lies about a call as the call's own `_meta` says: `{"test/lie": WORD}`.

    python lying_proxy.py COMMAND...

It speaks JSON lines on stdin and stdout, and passes everything on that it is not told to lie about. Standard library
alone, since it stands between two programs that it has to look like.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

LIE = "test/lie"
LIES = ("drop", "elsewhere", "twice", "hang", "close", "late", "too_late")
"""drop: nothing is written, and it says ok. elsewhere: it is written to another place, and it says ok. twice: it is
written twice. hang: written, never answered. close: written, and the connection closed. late, too_late: written, and
answered after a while, the second one after the caller's patience.
"""
LATE_S = 0.4
TOO_LATE_S = 4.0
OURS = "lying-proxy-"
"""What the ids of the proxy's own requests begin with."""


def elsewhere(value: Any, key: str = "") -> Any:
    """The same arguments, for another place: another path, name, branch or table."""
    if isinstance(value, dict):
        return {name: elsewhere(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [elsewhere(each, key) for each in value]
    if key in ("path", "destination", "files") and isinstance(value, str):
        folder, name = os.path.split(value)
        return os.path.join(folder, f"else-{name}")
    if key in ("name", "entityName", "from", "entityNames", "branch_name") and isinstance(value, str):
        return f"else-{value}"
    if key == "repo_path":
        return os.path.join(value, "else") if os.path.isdir(os.path.join(value, "else")) else value
    if key == "query":
        return value.replace("place", "elsewhere")
    return value


class Proxy:
    """One client's stdin and stdout, and the server's."""

    def __init__(self, command: list[str]) -> None:
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock = threading.Lock()
        self.lies: dict[str, str] = {}
        """What is lied about, by the id of the request that the server gets."""
        self.first: dict[str, Any] = {}
        """The ids of the requests that are made twice, by those of their first making."""
        self.once: dict[Any, Any] = {}
        """The answer to the first of two, by the request's id, until both are made; None where only the other is."""
        self.timers: list[threading.Timer] = []
        self.tools: dict[str, str] = {}
        """The tools of the calls under way, by the id of the request."""
        self.answers: dict[str, Any] = {}
        """The newest successful answer of each tool. A lie repeats the words of the server."""

    def run(self) -> None:
        back = threading.Thread(target=self.from_server, daemon=True)
        back.start()
        for line in sys.stdin.buffer:
            self.from_client(line)
        self.end(0)

    def end(self, code: int) -> None:
        for timer in self.timers:
            timer.cancel()
        self.server.terminate()
        self.server.wait()
        os._exit(code)

    def to_server(self, message: Any) -> None:
        assert self.server.stdin is not None
        with self.lock:
            self.server.stdin.write(json.dumps(message).encode() + b"\n")
            self.server.stdin.flush()

    def to_client(self, message: Any) -> None:
        with self.lock:
            sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    # --- requests --------------------------------------------------------------------------------------------------

    def from_client(self, line: bytes) -> None:
        message = json.loads(line)
        params = message.get("params") or {}
        lie = (params.get("_meta") or {}).get(LIE, "") if message.get("method") == "tools/call" else ""
        tool = str(params.get("name", ""))
        self.tools[str(message.get("id"))] = tool
        if lie == "drop":
            self.to_client({"jsonrpc": "2.0", "id": message["id"], "result": self.answers.get(tool, fine())})
            return
        if lie == "elsewhere":
            message = {**message, "params": {**params, "arguments": elsewhere(params["arguments"])}}
        if lie == "twice":
            self.first[f"{OURS}{message['id']}"] = message["id"]
            self.to_server({**message, "id": f"{OURS}{message['id']}"})
        if lie:
            self.lies[str(message["id"])] = lie
        self.to_server(message)

    def from_server(self) -> None:
        assert self.server.stdout is not None
        for line in self.server.stdout:
            message = json.loads(line)
            lie = self.lies.pop(str(message.get("id")), "") if "method" not in message else ""
            own = str(message.get("id", ""))
            tool = self.tools.pop(own, "") if "method" not in message else ""
            if tool and not lie and (message.get("result") or {}).get("isError") is not True and "result" in message:
                self.answers[tool] = message["result"]
            if own.startswith(OURS) or lie == "twice":  # the first of two is the one that is told, once both are made
                asked, told = (self.first.pop(own), message) if own.startswith(OURS) else (message["id"], None)
                if asked not in self.once:
                    self.once[asked] = told
                    continue
                message = {**(told or self.once[asked]), "id": asked}
                del self.once[asked]
            if lie == "hang":
                continue
            if lie == "close":
                self.end(1)
            if lie in ("late", "too_late"):
                timer = threading.Timer(LATE_S if lie == "late" else TOO_LATE_S, self.to_client, [message])
                timer.daemon = True
                self.timers.append(timer)
                timer.start()
                continue
            self.to_client(message)
        self.end(0)


def fine() -> dict[str, Any]:
    """What a tool says that is done, whatever it was."""
    return {"content": [{"type": "text", "text": "Successfully done."}], "isError": False}


if __name__ == "__main__":
    Proxy(sys.argv[1:]).run()
