"""A gate that lets everything through, and the gateway around it as a process of its own: what the wire alone does."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from readback.gateway.call import Call, Toolserver
from readback.gateway.serving.serve import serve_http, serve_stdio
from readback.gateway.serving.stdio import PATIENCE_S
from readback.gateway.upstream.upstream import Upstream
from tests.gateway.loops import LOOPS


class Passing:
    """Lets everything through. `own`: a tool of its own, where it is given a name."""

    def __init__(self, own: str = "", timeout_s: float | None = None) -> None:
        self.own, self.timeout_s = own, timeout_s
        self.listeners: set[Callable[[], None]] = set()

    async def listed(self, server: str, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [dict(tool) for tool in tools]

    def tools_changed(self, server: str) -> None:
        """It remembers none."""

    def answer_held(self) -> None:
        """It holds none: they wait for their server."""

    def own_tools(self) -> list[dict[str, Any]]:
        return [{"name": self.own, "inputSchema": {"type": "object"}}] if self.own else []

    async def call(self, call: Call, server: Toolserver) -> dict[str, Any]:
        return await server.call(call.params, timeout_s=self.timeout_s, link=call.link)

    def of_task(self, result: Mapping[str, Any]) -> dict[str, Any]:
        return dict(result)

    async def own_call(self, call: Call) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"own {call.tool}"}]}


def upstream(told: Mapping[str, Any]) -> Upstream:
    """As a test says it: `command` or `url`, with `key` and `env`."""
    if "url" in told:
        return Upstream.url(told["url"], key=told.get("key", ""))
    return Upstream.command(told["command"], key=told.get("key", ""), env=told.get("env"))


def _say(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


async def main(told: Mapping[str, Any]) -> None:
    """Serves until stdin ends, or a signal says so."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    upstreams = [upstream(each) for each in told["upstreams"]]
    gate = Passing(told.get("own", ""), told.get("timeout_s"))
    try:
        if told.get("serve") == "http":
            await serve_http(gate, upstreams, port=0, stop=stop, on_listening=_say)
        else:
            await serve_stdio(gate, upstreams, stop=stop, patience_s=told.get("patience_s", PATIENCE_S))
    finally:
        await asyncio.gather(*(each.aclose() for each in upstreams))


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    with asyncio.Runner(loop_factory=LOOPS[asked.get("loop", "asyncio")]) as runner:
        runner.run(main(asked))
