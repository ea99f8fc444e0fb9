"""Contracts of the slack tools. Every postcondition is made from the arguments; none believes what a tool answered.

The workspace takes no stamp, but it says who wrote a message, and everything written through these tools is written by
"bot", which is the principal: a message is ours where there was one fewer of them before and its author is ourselves.
Of an invitation the workspace keeps the user and not the address (`user_email` reaches no state), so nothing is claimed
of the address: a contract can only promise what some system of record shows.
"""

from __future__ import annotations

from typing import Any

from readback.canon import Json
from readback.client.authoring.action import ActionDefinition, action
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from tests.agentdojo import records
from tests.agentdojo.world import World

TENANT, BOT = "workspace-1", "bot"
RECORD: dict[str, Any] = {"source": "workspace-records", "consistency": "strong", "independence": "other_client"}
TIMES: dict[str, Any] = {"within": "30s", "polls": ["0s", "5s", "10s"], "late_window": "3m"}
WRITTEN = {
    "one message more": "size(authoritative.messages) == size(before.messages) + 1",
    "no message lost": "before.messages.all(m, m in authoritative.messages)",
    "body": "authoritative.messages[size(before.messages)].body == requested.body",
    "nothing elsewhere": "authoritative.elsewhere == before.elsewhere",
    "nobody moved": "authoritative.directory == before.directory",
}
BY_US = {"target": "authoritative.place", "tenant": "not_offered", "actor": "authoritative.author"}
NAMED = {"tenant": "not_offered", "actor": "not_offered"}


def actions(world: World) -> dict[str, ActionDefinition[Any]]:
    """All tools of the suite that change something, by name."""
    made = (_direct(world), _channel(world), _add(world), _invite(world), _remove(world), _post(world))
    return {each.name: each for each in made}


def _direct(world: World) -> ActionDefinition[Any]:
    @action(
        kind="send",
        side_effect="medium_risk_write",
        target="inbox/{requested.recipient}",
        identity=BY_US,
        require={"there is such an inbox": "before != null"},
        ensure=WRITTEN,
        proves="delivered",
        **TIMES,
    )
    def send_direct_message(ctx: Context, recipient: str, body: str) -> object:
        return world.call("send_direct_message", recipient=recipient, body=body)

    @send_direct_message.read(**RECORD)
    def inbox(ctx: Context, recipient: str, body: str) -> Reading:
        return _mail(world, f"inbox/{recipient}")

    @send_direct_message.find
    def messages(ctx: Context, recipient: str, body: str) -> list[Reading]:
        return _new_messages(world, ctx.before, body)

    return send_direct_message


def _channel(world: World) -> ActionDefinition[Any]:
    @action(
        kind="append",
        side_effect="medium_risk_write",
        target="channel/{requested.channel}",
        identity=BY_US,
        require={"there is such a channel": "before != null"},
        ensure=WRITTEN,
        **TIMES,
    )
    def send_channel_message(ctx: Context, channel: str, body: str) -> object:
        return world.call("send_channel_message", channel=channel, body=body)

    @send_channel_message.read(**RECORD)
    def posts(ctx: Context, channel: str, body: str) -> Reading:
        return _mail(world, f"channel/{channel}")

    @send_channel_message.find
    def messages(ctx: Context, channel: str, body: str) -> list[Reading]:
        return _new_messages(world, ctx.before, body)

    return send_channel_message


def _add(world: World) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="medium_risk_write",
        target="{requested.user} in {requested.channel}",
        identity={"target": "authoritative.membership", **NAMED},
        require={"there are such a user and such a channel": "before != null"},
        ensure={"a member, once": "authoritative.times == 1"},
        may_change=["times"],
        **TIMES,
    )
    def add_user_to_channel(ctx: Context, user: str, channel: str) -> object:
        return world.call("add_user_to_channel", user=user, channel=channel)

    @add_user_to_channel.read(**RECORD)
    def membership(ctx: Context, user: str, channel: str) -> Reading:
        found = records.membership(world.look(), user, channel)
        return Reading.absent() if found is None else Reading.of(found)

    return add_user_to_channel


def _invite(world: World) -> ActionDefinition[Any]:
    @action(
        kind="create",
        side_effect="medium_risk_write",
        target="user/{requested.user}",
        identity={"target": "authoritative.user", **NAMED},
        ensure={
            "directory": {"listed once": "authoritative.listed == 1"},
            "inbox": {"there is one": "authoritative.inbox == true"},
            "channels": {"none yet": "authoritative.channels == []"},
        },
        may_change=["listed", "inbox", "channels"],
        **TIMES,
    )
    def invite_user_to_slack(ctx: Context, user: str, user_email: str) -> object:
        return world.call("invite_user_to_slack", user=user, user_email=user_email)

    @invite_user_to_slack.read(**RECORD, attributes=True)
    def person(ctx: Context, user: str, user_email: str) -> Reading:
        found, before = records.person(world.look(), user), ctx.before
        is_new = isinstance(before, dict) and before["listed"] == 0 and found["listed"] == 1
        return Reading.of(found, created_after_dispatch=is_new)

    @invite_user_to_slack.find
    def new_person(ctx: Context, user: str, user_email: str) -> list[Reading]:
        found, before = records.person(world.look(), user), ctx.before
        is_new = isinstance(before, dict) and before["listed"] == 0 and found["listed"] == 1
        return [Reading.of(found, created_after_dispatch=True)] if is_new else []

    return invite_user_to_slack


def _remove(world: World) -> ActionDefinition[Any]:
    @action(
        kind="delete",
        side_effect="medium_risk_write",
        target="user/{requested.user}",
        identity={"target": "authoritative.user", **NAMED},
        ensure={
            "directory": {"not listed": "authoritative.listed == 0"},
            "inbox": {"there is none": "authoritative.inbox == false"},
            "channels": {"in none": "authoritative.channels == null"},
        },
        may_change=["listed", "inbox", "channels"],
        **TIMES,
    )
    def remove_user_from_slack(ctx: Context, user: str) -> object:
        return world.call("remove_user_from_slack", user=user)

    @remove_user_from_slack.read(**RECORD)
    def person(ctx: Context, user: str) -> Reading:
        return Reading.of(records.person(world.look(), user))

    return remove_user_from_slack


def _post(world: World) -> ActionDefinition[Any]:
    @action(
        kind="set",
        side_effect="high_risk_external",
        target="{requested.url}",
        identity={"target": "authoritative.url", "tenant": "not_offered", "account": "not_offered"},
        ensure={
            "content": "authoritative.content == requested.content",
            "posted once": "authoritative.asked == before.asked + 1",
        },
        may_change=["content", "asked"],
        **TIMES,
    )
    def post_webpage(ctx: Context, url: str, content: str) -> object:
        return world.call("post_webpage", url=url, content=content)

    @post_webpage.read(**RECORD)
    def page(ctx: Context, url: str, content: str) -> Reading:
        return Reading.of(records.page(world.look(), url))

    return post_webpage


def _mail(world: World, place: str) -> Reading:
    found = records.mail(world.look(), place, BOT)
    return Reading.absent() if found is None else Reading.of(found)


def _new_messages(world: World, before: Json, body: str) -> list[Reading]:
    """Every message of ours with this body that is in any place since the reading before execution."""
    if not isinstance(before, dict) or not isinstance(before["elsewhere"], dict):
        raise LookupError("without the reading before execution nothing can be told to be new")
    assert isinstance(before["messages"], list)
    known = {**before["elsewhere"], str(before["place"]): len(before["messages"])}
    found: list[Reading] = []
    for place in records.places(world.look()):
        whole = records.mail(world.look(), place, BOT)
        assert whole is not None
        new = whole["messages"][int(str(known.get(place, 0))) :]
        found += [Reading.of(whole) for each in new if each["body"] == body]
    return found
