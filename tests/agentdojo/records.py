"""The other path: what the environments' own models hold, read directly and never through a tool.

Called by the contracts' readers. Each function gives one picture of a part of the state as plain JSON: the part that a
call is about, and beside it the parts that it must not touch. It judges nothing.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from readback.canon import Json

Record = dict[str, Any]


def digest(value: object) -> str:
    """SHA-256 of plain data: enough to see a change, without keeping the data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# --- the bank ----------------------------------------------------------------------------------------


def book(environment: Any) -> Record:
    """What this account sent and ordered. Incoming payments are other people's doing, and not in it.

    `last_id` is the bank's own sequence: a payment with a higher id is newer.
    """
    account = environment.bank_account
    everything = [*account.transactions, *account.scheduled_transactions]
    return {
        "account": account.iban,
        "last_id": max((each.id for each in everything), default=0),
        "payments": [each.model_dump() for each in account.transactions if each.sender == account.iban],
        "orders": [each.model_dump() for each in account.scheduled_transactions],
        "owner": digest(environment.user_account.model_dump(exclude={"password"})),
    }


def newest(entries: list[Record], before: Json) -> tuple[Record | None, bool]:
    """The entry with the highest id, and whether the bank gave it that id after the reading `before`."""
    entry = max(entries, key=lambda each: each["id"], default=None)
    if entry is None or not isinstance(before, dict):
        return entry, False
    return entry, entry["id"] > int(str(before["last_id"]))


def order(environment: Any, order_id: int) -> Record | None:
    """One standing order, with all that must stay as it is. None where there is none with this id."""
    whole = book(environment)
    found = [each for each in whole["orders"] if each["id"] == order_id]
    if len(found) != 1:
        return None
    others = [each for each in whole["orders"] if each["id"] != order_id]
    return {
        "account": whole["account"],
        "id": order_id,
        "order": found[0],
        "other_orders": others,
        "payments": whole["payments"],
        "owner": whole["owner"],
    }


def profile(environment: Any) -> Record:
    """The account's owner, without the password."""
    owner, whole = environment.user_account, book(environment)
    return {
        "account": whole["account"],
        **{name: getattr(owner, name) for name in ("first_name", "last_name", "street", "city")},
        "payments": whole["payments"],
        "orders": whole["orders"],
    }


def profile_with_password(environment: Any) -> Record:
    """The same, with the password's digest: for the one contract that is about it, and keeps it out of the ledger."""
    password = environment.user_account.password
    return {**profile(environment), "password_sha256": hashlib.sha256(password.encode()).hexdigest()}


# --- the workspace -----------------------------------------------------------------------------------


def places(environment: Any) -> dict[str, list[Any]]:
    """Every inbox and channel with its messages. A user has an inbox as soon as somebody writes to it."""
    slack = environment.slack
    inboxes = {f"inbox/{user}": slack.user_inbox.get(user, []) for user in [*slack.users, *slack.user_inbox]}
    channels = {f"channel/{name}": slack.channel_inbox.get(name, []) for name in slack.channels}
    return inboxes | channels


def mail(environment: Any, place: str, author: str) -> Record | None:
    """What one author wrote in one place, and how much elsewhere. None where there is no such place.

    Messages of others are not in it: they come and go whatever we do.
    """
    written = {
        name: [each.model_dump() for each in messages if each.sender == author]
        for name, messages in places(environment).items()
    }
    if place not in written:
        return None
    here = written.pop(place)
    return {
        "place": place,
        "messages": here,
        "author": here[-1]["sender"] if here else None,
        "elsewhere": {name: len(messages) for name, messages in written.items()},
        "directory": digest([members(environment)[name] for name in ("users", "channels")]),
    }


def members(environment: Any) -> Record:
    """Who is in the workspace, who has an inbox, and who is in which channels."""
    slack = environment.slack
    return {
        "users": list(slack.users),
        "inboxes": sorted(slack.user_inbox),
        "channels": {user: list(joined) for user, joined in slack.user_channels.items()},
    }


def person(environment: Any, user: str) -> Record:
    """One user of the workspace (or somebody who is none), beside everybody else."""
    everybody = members(environment)
    return {
        "user": user,
        "listed": everybody["users"].count(user),
        "inbox": user in everybody["inboxes"],
        "channels": everybody["channels"].get(user),
        "others": {
            "users": [each for each in everybody["users"] if each != user],
            "inboxes": [each for each in everybody["inboxes"] if each != user],
            "channels": {each: joined for each, joined in everybody["channels"].items() if each != user},
        },
    }


def membership(environment: Any, user: str, channel: str) -> Record | None:
    """How often a user is in a channel, beside all other memberships. None where either does not exist."""
    everybody = members(environment)
    if user not in everybody["channels"] or channel not in environment.slack.channels:
        return None
    joined = everybody["channels"][user]
    return {
        "membership": f"{user} in {channel}",
        "times": joined.count(channel),
        "others": everybody["channels"] | {user: [each for each in joined if each != channel]},
        "users": everybody["users"],
    }


# --- the web -----------------------------------------------------------------------------------------


def address(url: str) -> str:
    """The web keeps pages by their address without its scheme."""
    return url.removeprefix("https://").removeprefix("http://")


def page(environment: Any, url: str) -> Record:
    """One page, how often it was asked for, and the digest of every other page."""
    web, here = environment.web, address(url)
    return {
        "url": url,
        "content": web.web_content.get(here),
        "asked": web.web_requests.count(here),
        "others": digest({each: content for each, content in web.web_content.items() if each != here}),
    }


def untouched(environment: Any) -> str:
    """The digest of everything but the web's list of requests, which every visit is entered in."""
    state = environment.model_dump()
    state.get("web", {}).pop("web_requests", None)
    return digest(state)
