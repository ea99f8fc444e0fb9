"""A conversation as adapters read it: tool calls, their results, and the position of a call among equal ones.

`kit.operation` names a call by the results that the model had been shown. Each framework stores its conversation in
types of its own. An adapter passes the calls and results to `History` in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from readback.kit import ShownCall

CALLS_MAX: Final = 4_096
"""Calls with a remembered action."""


class History:
    """Calls and results of a conversation, oldest first.

    Example:
        >>> history = History()
        >>> history.add_call("c1", "ship_order", {"order_id": "o-17"})
        >>> history.add_result("c1", "[action outcome] ...")
        >>> [(each.tool, each.arguments) for each in history.shown]
        [('ship_order', {'order_id': 'o-17'})]
    """

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, Any]] = {}
        self.shown: list[ShownCall] = []

    def add_call(self, call_id: str, name: str, arguments: Any) -> None:
        """Add a call of the model. `arguments` is a mapping or its JSON text."""
        self._calls[call_id] = (name, arguments)

    def add_result(self, call_id: str, text: str) -> None:
        """Add the result that the model was shown. A result without a call is left out."""
        if call_id in self._calls:
            name, arguments = self._calls[call_id]
            self.shown.append(ShownCall(name, arguments, text))


def ordinal(turn: Iterable[tuple[str, str, Any]], call_id: str) -> int:
    """Return the position of a call among the equal calls of one model message, 0 for the first.

    Args:
        turn: Each call of the message: id, tool and arguments.
        call_id: The call's id.

    Example:
        >>> ordinal([("a", "ship", {}), ("b", "ship", {})], "b")
        1
    """
    calls = list(turn)
    wanted = next(((name, arguments) for each, name, arguments in calls if each == call_id), None)
    equal = [each for each, name, arguments in calls if (name, arguments) == wanted]
    return equal.index(call_id) if call_id in equal else 0


class TurnActions:
    """The actions behind recent calls, so that a final check knows the actions of its turn.

    Example:
        >>> actions = TurnActions()
        >>> actions.remember("thread-1", "c1", "01ACTION")
        >>> actions.of("thread-1", ["c1"]), actions.of("thread-1", ["c2"])
        (['01ACTION'], None)
    """

    def __init__(self) -> None:
        self._actions: dict[tuple[str, str], str] = {}

    def remember(self, run: str, call_id: str, action: str) -> None:
        """Remember the action of a call. The oldest calls are forgotten."""
        self._actions[run, call_id] = action
        while len(self._actions) > CALLS_MAX:
            del self._actions[next(iter(self._actions))]

    def of(self, run: str, call_ids: Iterable[str]) -> list[str] | None:
        """Return the actions of calls. None where a call is not known here: then the whole run counts."""
        found = [self._actions.get((run, each)) for each in call_ids]
        return None if None in found else [each for each in found if each]
