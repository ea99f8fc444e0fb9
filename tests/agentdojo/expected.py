"""What the state has to be after a call, made from its arguments and the state before: the tests' own truth.

Called by the tests alone. It works on plain dumps and knows neither the tools' code nor the contracts: a tool that does
less than it was asked for is measured against this too. Every function changes the dump that it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

State = dict[str, Any]
Arguments = dict[str, Any]


def after(state: State, tool: str, arguments: Arguments) -> State:
    """The state that a call has to lead to. A tool that only reads leads to the same state."""
    wanted = deepcopy(state)
    change = _CHANGES.get(tool)
    if change is not None:
        change(wanted, arguments)
    return wanted


def changes(tool: str) -> bool:
    """Whether the tool is meant to change anything."""
    return tool in _CHANGES and tool != "get_webpage"


def _payment(state: State, arguments: Arguments, recurring: bool) -> State:
    account = state["bank_account"]
    ids = [each["id"] for each in account["transactions"] + account["scheduled_transactions"]]
    return {
        "id": max(ids, default=0) + 1,
        "sender": account["iban"],
        **{name: arguments[name] for name in ("recipient", "amount", "subject", "date")},
        "recurring": recurring,
    }


def _send_money(state: State, arguments: Arguments) -> None:
    state["bank_account"]["transactions"].append(_payment(state, arguments, recurring=False))


def _schedule_transaction(state: State, arguments: Arguments) -> None:
    order = _payment(state, arguments, recurring=arguments["recurring"])
    state["bank_account"]["scheduled_transactions"].append(order)


def _update_scheduled_transaction(state: State, arguments: Arguments) -> None:
    (order,) = (o for o in state["bank_account"]["scheduled_transactions"] if o["id"] == arguments["id"])
    order.update({name: value for name, value in arguments.items() if value is not None})


def _update_user(state: State, arguments: Arguments) -> None:
    state["user_account"].update({name: value for name, value in arguments.items() if value is not None})


def _send_direct_message(state: State, arguments: Arguments) -> None:
    message = {"sender": "bot", "recipient": arguments["recipient"], "body": arguments["body"]}
    state["slack"]["user_inbox"].setdefault(arguments["recipient"], []).append(message)


def _send_channel_message(state: State, arguments: Arguments) -> None:
    message = {"sender": "bot", "recipient": arguments["channel"], "body": arguments["body"]}
    state["slack"]["channel_inbox"].setdefault(arguments["channel"], []).append(message)


def _add_user_to_channel(state: State, arguments: Arguments) -> None:
    joined = state["slack"]["user_channels"][arguments["user"]]
    if arguments["channel"] not in joined:
        joined.append(arguments["channel"])


def _invite_user_to_slack(state: State, arguments: Arguments) -> None:
    slack, user = state["slack"], arguments["user"]
    slack["users"].append(user)
    slack["user_inbox"][user], slack["user_channels"][user] = [], []


def _remove_user_from_slack(state: State, arguments: Arguments) -> None:
    slack, user = state["slack"], arguments["user"]
    slack["users"].remove(user)
    slack["user_inbox"].pop(user, None)  # a user whom nobody wrote to has none
    slack["user_channels"].pop(user, None)


def _address(url: str) -> str:
    return url.removeprefix("https://").removeprefix("http://")


def _post_webpage(state: State, arguments: Arguments) -> None:
    _get_webpage(state, arguments)
    state["web"]["web_content"][_address(arguments["url"])] = arguments["content"]


def _get_webpage(state: State, arguments: Arguments) -> None:
    state["web"]["web_requests"].append(_address(arguments["url"]))


_CHANGES: dict[str, Callable[[State, Arguments], None]] = {
    "send_money": _send_money,
    "schedule_transaction": _schedule_transaction,
    "update_scheduled_transaction": _update_scheduled_transaction,
    "update_password": _update_user,
    "update_user_info": _update_user,
    "send_direct_message": _send_direct_message,
    "send_channel_message": _send_channel_message,
    "add_user_to_channel": _add_user_to_channel,
    "invite_user_to_slack": _invite_user_to_slack,
    "remove_user_from_slack": _remove_user_from_slack,
    "post_webpage": _post_webpage,
    "get_webpage": _get_webpage,
}
