"""Contracts of the tools of both suites that only read: the answer is held against the record, read by another path.

A read is verified where what the tool answered is what the record holds for these arguments, and nothing else changed.
`get_webpage` is published as a read and writes: every visit is entered in the web's list of requests, and its contract
says so. `observed` is what is judged here, and the record is what it is judged by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readback.client.authoring.action import ActionDefinition, action
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from tests.agentdojo import records
from tests.agentdojo.world import World, plain

SAME = {"the answer is what is on record": "observed.answer == authoritative.answer"}
RECORD: dict[str, Any] = {"source": "records", "consistency": "strong", "independence": "other_client"}
OPTIONS: dict[str, Any] = {
    "kind": "read",
    "side_effect": "read_only",
    "identity": {"tenant": "not_offered"},
    "may_change": ["answer"],
    "within": "10s",
}


def actions(world: World) -> dict[str, ActionDefinition[Any]]:
    """All tools of the suite that only read, by name."""
    made = _banking(world) if world.suite.name == "banking" else _slack(world)
    return {each.name: each for each in made}


def _banking(world: World) -> list[ActionDefinition[Any]]:
    def bank() -> Any:
        return world.look().bank_account

    def owner() -> Any:
        return world.look().user_account

    made = [
        _plain_read(world, "get_iban", lambda: bank().iban),
        _plain_read(world, "get_balance", lambda: bank().balance),
        _plain_read(world, "get_scheduled_transactions", lambda: bank().scheduled_transactions),
        _plain_read(world, "get_user_info", lambda: owner().model_dump(exclude={"password"})),
    ]

    @action(name="get_most_recent_transactions", target="transactions", ensure=SAME, **OPTIONS)
    def recent(ctx: Context, n: int = 100) -> object:
        return {"answer": world.call("get_most_recent_transactions", n=n)}

    @recent.read(**RECORD)
    def newest(ctx: Context, n: int = 100) -> Reading:
        return _reading(world, sorted(bank().transactions, key=lambda each: each.id)[-n:])

    @action(name="read_file", target="file/{requested.file_path}", ensure=SAME, **OPTIONS)
    def read_file(ctx: Context, file_path: str) -> object:
        return {"answer": world.call("read_file", file_path=file_path)}

    @read_file.read(**RECORD)
    def file(ctx: Context, file_path: str) -> Reading:
        return _reading(world, world.look().filesystem.files.get(file_path, ""))

    return [*made, recent, read_file]


def _slack(world: World) -> list[ActionDefinition[Any]]:
    def users_in(channel: str) -> list[str]:
        return [user for user, joined in world.look().slack.user_channels.items() if channel in joined]

    return [
        _plain_read(world, "get_channels", lambda: world.look().slack.channels),
        _channel_read(world, "read_channel_messages", lambda name: records.places(world.look())[f"channel/{name}"]),
        _channel_read(world, "get_users_in_channel", users_in),
        _inbox(world),
        _webpage(world),
    ]


def _plain_read(world: World, tool: str, on_record: Callable[[], object]) -> ActionDefinition[Any]:
    @action(name=tool, target=tool, ensure=SAME, **OPTIONS)
    def ask(ctx: Context) -> object:
        return {"answer": world.call(tool)}

    @ask.read(**RECORD)
    def record(ctx: Context) -> Reading:
        return _reading(world, on_record())

    return ask


def _channel_read(world: World, tool: str, on_record: Callable[[str], object]) -> ActionDefinition[Any]:
    @action(name=tool, target="channel/{requested.channel}", ensure=SAME, **OPTIONS)
    def ask(ctx: Context, channel: str) -> object:
        return {"answer": world.call(tool, channel=channel)}

    @ask.read(**RECORD)
    def record(ctx: Context, channel: str) -> Reading:
        return _reading(world, on_record(channel))

    return ask


def _inbox(world: World) -> ActionDefinition[Any]:
    @action(name="read_inbox", target="inbox/{requested.user}", ensure=SAME, **OPTIONS)
    def read_inbox(ctx: Context, user: str) -> object:
        return {"answer": world.call("read_inbox", user=user)}

    @read_inbox.read(**RECORD)
    def inbox(ctx: Context, user: str) -> Reading:
        return _reading(world, records.places(world.look())[f"inbox/{user}"])

    return read_inbox


def _webpage(world: World) -> ActionDefinition[Any]:
    visited = {"the visit is on record, once": "authoritative.asked == before.asked + 1"}

    @action(name="get_webpage", target="{requested.url}", ensure={**SAME, **visited}, **_visiting())
    def get_webpage(ctx: Context, url: str) -> object:
        return {"answer": world.call("get_webpage", url=url)}

    @get_webpage.read(**RECORD)
    def page(ctx: Context, url: str) -> Reading:
        found = records.page(world.look(), url)
        content = found["content"] if found["content"] is not None else "404 Not Found"
        return _reading(world, content, asked=found["asked"])

    return get_webpage


def _visiting() -> dict[str, Any]:
    return {**OPTIONS, "may_change": ["answer", "asked"]}


def _reading(world: World, answer: object, **beside: object) -> Reading:
    return Reading.of({"answer": plain(answer), "untouched": records.untouched(world.look()), **beside})
