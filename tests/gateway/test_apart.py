"""Clients of the stateless era share a server: what it asks and tells for one of them is never for another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest
from mcp import Client

from readback.gateway.session.listening import Listening
from readback.gateway.upstream.attachment import Attachment
from tests.gateway.desk import until_asleep
from tests.gateway.rogue import ANY, ENTER, Den, Json, in_a_den

pytestmark = pytest.mark.requirement("WIRE-apart")

QUESTION: Json = {"message": "whose?", "requestedSchema": {"type": "object", "properties": {}}}


class Asking:
    """An old server that asks and logs as soon as `any` is called, and answers that with what it was told. Only then it
    answers `enter`.
    """

    def __init__(self) -> None:
        self.caller: Any = None
        self.waiting: list[Any] = []
        self.begun = asyncio.Event()

    def answers(self, message: Json) -> list[Json]:
        number, method = message.get("id"), message.get("method")
        if number == "q":
            said = "answered" if "result" in message else message["error"]["message"]
            done = [{"id": each, "result": {"content": []}} for each in self.waiting]
            return [{"id": self.caller, "result": {"content": [{"type": "text", "text": said}]}}, *done]
        if number is None:
            return []
        match method:
            case "initialize":
                about = {"serverInfo": {"name": "old", "version": "1"}, "capabilities": {"tools": {}, "logging": {}}}
                return [{"id": number, "result": {"protocolVersion": "2025-11-25", **about}}]
            case "tools/list":
                return [{"id": number, "result": {"tools": [ANY, ENTER]}}]
            case "tools/call" if message["params"]["name"] == "any":
                self.caller = number
                log = {"method": "notifications/message", "params": {"level": "error", "data": "of whom?"}}
                return [log, {"id": "q", "method": "elicitation/create", "params": QUESTION}]
            case "tools/call":
                self.waiting.append(number)
                self.begun.set()
                return []
            case "logging/setLevel":
                return [{"id": number, "result": {}}]
        return [{"id": number, "error": {"code": -32601, "message": "Method not found"}}]


@pytest.mark.parametrize("other", ["nobody", "gone", "pending"])
def test_what_is_asked_and_logged_reaches_a_client_only_while_no_other_s_call_is_under_way(
    tmp_path: Path, other: str
) -> None:
    heard: list[str] = []
    server = Asking()

    async def elicit(context: Any, params: Any) -> t.ElicitResult:
        heard.append(params.message)
        return t.ElicitResult(action="accept", content={})

    async def log(params: t.LoggingMessageNotificationParams) -> None:
        heard.append(str(params.data))

    async def work(den: Den) -> None:
        if other != "nobody":
            asked = asyncio.create_task(den.call("enter", name="rent", amount=3))
            await server.begun.wait()
            if other == "gone":
                asked.cancel()
            else:
                assert (await asked).outcome["pending"] is True
            await until_asleep()
        async with Client(
            den.gateway.server, elicitation_callback=elicit, logging_callback=log, log_level="debug"
        ) as second:
            told = await second.call_tool("any", {})
        alone = other == "nobody"
        assert heard == (["of whom?", "whose?"] if alone else [])
        assert told.content[0].type == "text"
        assert (told.content[0].text == "answered") is alone
        den.runtime.advance(60)

    in_a_den(tmp_path, work, rogue={"answers": server.answers}, ungoverned="pass", hold=0 if other == "pending" else 45)


class _Ear:
    """What `Listening` has to know of a client's request, and what it was told."""

    def __init__(self, number: int) -> None:
        self.context = self
        self.request_id = number
        self.told: list[Any] = []

    async def tell(self, method: str, params: Any) -> None:
        self.told.append(params.get("uri"))


@pytest.mark.parametrize(
    ("private", "heard"),
    [(False, ["file:///a", "file:///a/part"]), (True, ["file:///a", "file:///a/part", "file:///ab", "file:///b"])],
)
def test_a_resource_that_another_client_follows_is_told_to_that_one(private: bool, heard: list[str]) -> None:
    async def nobody(uri: str) -> list[Attachment]:
        return []

    async def work() -> list[list[Any]]:
        listening, ears = Listening([], private=private), [_Ear(1), _Ear(2)]
        streams = [
            asyncio.create_task(listening.stream(ear, {"notifications": {"resourceSubscriptions": [uri]}}, nobody))  # type: ignore[arg-type]
            for ear, uri in zip(ears, ("file:///a", "file:///b"), strict=True)
        ]
        await until_asleep()
        for uri in ("file:///a", "file:///a/part", "file:///ab", "file:///b"):
            listening.take("notifications/resources/updated", {"uri": uri})
        await until_asleep()
        listening.close()
        await asyncio.gather(*streams)
        return [ear.told[1:] for ear in ears]

    assert asyncio.run(work())[0] == heard
