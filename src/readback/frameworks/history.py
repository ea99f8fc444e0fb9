"""A conversation as adapters read it: tool calls, their results, and the place of each call.

`kit.operation` names a call by the results shown to the model so far, and by the position among equal calls of a
message. Each framework stores its conversation in types of its own. An adapter passes the calls and results to
`History` in their order, or begins the calls of a `Turn` as the framework makes them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from threading import Lock
from typing import Any, Final

from readback.kit import Kit, ShownCall, Tool

CALLS_MAX: Final = 4_096
"""Calls with a remembered place or action."""
Place = dict[str, Any]
"""The arguments of `kit.operation` for the place of a call in a conversation."""


class History:
    """Calls and results of a conversation, oldest first.

    Example:
        >>> history = History()
        >>> history.begin_message()
        >>> history.add_call("c1", "ship_order", {"order_id": "o-17"})
        >>> history.add_result("c1", "[action outcome] ...")
        >>> [(each.tool, each.arguments) for each in history.shown]
        [('ship_order', {'order_id': 'o-17'})]
        >>> history.place("c1")
        {'call_id': 'c1', 'shown': [], 'ordinal': 0}
    """

    def __init__(self) -> None:
        self.shown: list[ShownCall] = []
        self.shown_ids: list[str] = []
        self._calls: dict[str, ShownCall] = {}
        self._message: dict[str, ShownCall] = {}
        self._messages: dict[str, tuple[int, dict[str, ShownCall]]] = {}
        self._since: dict[str, str] = {}
        self.actions: list[str] = []
        """The actions of results since the person's last message."""

    def begin_message(self, *, by_person: bool = False) -> None:
        """Begin a message. Equal calls of one message have positions."""
        self._message = {}
        if by_person:
            self._since, self.actions = {}, []

    def add_call(self, call_id: str, name: str, arguments: Any) -> None:
        """Add a call of the model. `arguments` is a mapping or its JSON text."""
        self._calls[call_id] = call = ShownCall(name, arguments)
        self._message.setdefault(call_id, call)
        self._messages[call_id] = (len(self.shown), self._message)
        self._since[call_id] = name

    def add_result(self, call_id: str, text: str, action: str = "") -> None:
        """Add a result shown to the model, with the action behind it. A result without a call was not shown."""
        if action:
            self.actions.append(action)
        if call_id in self._calls:
            self.shown.append(self._calls[call_id]._replace(text=text))
            self.shown_ids.append(call_id)

    def made(self, call_id: str) -> ShownCall | None:
        """Return the tool and the arguments of a call."""
        return self._calls.get(call_id)

    def place(self, call_id: str) -> Place:
        """Return the place of a call: the results shown to the model, and the position among equal calls.

        The latest message with the call counts. A call outside the history is named by the call's id.
        """
        if call_id not in self._messages:
            return {"call_id": call_id}
        count, message = self._messages[call_id]
        equal = [each for each, call in message.items() if _same(call, message[call_id])]
        return {"call_id": call_id, "shown": self.shown[:count], "ordinal": equal.index(call_id)}

    @property
    def last_calls(self) -> list[str]:
        """The ids of the calls in the last message."""
        return [*self._message]

    def beside(self, call_id: str) -> list[str]:
        """Return the tools of the calls in the call's message, with the call itself; empty for an unknown call."""
        _, message = self._messages.get(call_id, (0, {}))
        return [each.tool for each in message.values()]

    def since_person(self, tools: Collection[str]) -> list[str]:
        """Return the ids of the calls of these tools since the person's last message."""
        return [call_id for call_id, name in self._since.items() if name in tools]


class Turn:
    """The results shown to the model before a turn, and the calls begun since then. Threads share a turn.

    For a framework without a view of the message behind a call. Where call ids are unique, a repeated call does not
    count its own earlier result.

    Example:
        >>> turn = Turn()
        >>> turn.begin("ship", {})["ordinal"], turn.begin("ship", {})["ordinal"]
        (0, 1)
    """

    def __init__(self, history: History | None = None, *, ids_are_unique: bool = False) -> None:
        known, self._ids_are_unique = history or History(), ids_are_unique
        self._shown = [*zip(known.shown_ids, known.shown, strict=True)]
        self._begun: list[tuple[str, ShownCall]] = []
        self._lock = Lock()

    def begin(self, name: str, arguments: Any, call_id: str = "") -> Place:
        """Begin a call, and return the place. A call with the id of a begun call is the same call."""
        call = ShownCall(name, arguments)
        with self._lock:
            ids = [each for each, begun in self._begun if _same(begun, call)]
            if not call_id or call_id not in ids:
                ids.append(call_id)
                self._begun.append((call_id, call))
            shown = [each for known, each in self._shown if not self._ids_are_unique or known != call_id]
            return {"shown": shown, "ordinal": ids.index(call_id) if call_id else len(ids) - 1}

    def end(self, call_id: str, text: str | None = None) -> None:
        """End a call with the text for the model; without a text the call was not made."""
        with self._lock:
            ended = [each for each in self._begun if each[0] == call_id]
            self._begun = [each for each in self._begun if each[0] != call_id]
            if text is not None:
                self._shown += [(call_id, call._replace(text=text)) for _, call in ended]


class RecentCalls:
    """The places of recent calls and the actions behind the calls. A final check reads the actions of a turn here.

    For a framework with the history at the model's turn only, and not at each call.

    Args:
        kit: The open kit. The kit's current run counts where a method names no run.

    Example:
        >>> from readback.kit import Kit
        >>> history = History()
        >>> history.add_call("c1", "readback_status", {})
        >>> with Kit.open("memory:", run="thread-1") as kit:
        ...     recent = RecentCalls(kit)
        ...     recent.remember("c1", "01ACTION")
        ...     recent.about(history), recent.about(history, run="thread-2")
        (['01ACTION'], None)
    """

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._places: dict[tuple[str, str], Place] = {}
        self._actions: dict[tuple[str, str], str] = {}

    def note(self, history: History, run: str = "") -> None:
        """Remember the places of the calls in the last message. The oldest calls are forgotten."""
        for call_id in history.last_calls:
            self._places[run or self._kit.current_run, call_id] = history.place(call_id)
        _forget(self._places)

    async def operation(self, tool: Tool, arguments: Any, call_id: str) -> str | None:
        """Return the name of a call's operation. An unknown call is named by the call's id."""
        place = self._places.get((self._kit.current_run, call_id), {"call_id": call_id})
        return await self._kit.aoperation(tool, arguments, **place)

    def remember(self, call_id: str, action: str, run: str = "") -> None:
        """Remember the action of a call. The oldest calls are forgotten."""
        self._actions[run or self._kit.current_run, call_id] = action
        _forget(self._actions)

    def about(self, history: History, run: str = "") -> list[str] | None:
        """Return the actions of the kit's tools since the person's last message.

        None where a call is unknown here: then the whole run counts.
        """
        known = run or self._kit.current_run
        found = [self._actions.get((known, each)) for each in history.since_person(self._kit.tools)]
        return None if None in found else [each for each in found if each]


def _same(one: ShownCall, other: ShownCall) -> bool:
    return one.tool == other.tool and _read(one.arguments) == _read(other.arguments)


def _read(arguments: Any) -> Any:
    """Return the arguments in a JSON text. An unreadable text stays unchanged."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _forget(known: dict[tuple[str, str], Any]) -> None:
    while len(known) > CALLS_MAX:
        del known[next(iter(known))]
