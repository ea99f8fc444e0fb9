"""The tools of an agent: the governed tool of a call, and one warning for each tool without a contract.

An adapter says how its framework describes a tool. The framework's own tool is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from readback.kit import Kit, Tool

Definition = tuple[Any, str | None]
"""The JSON Schema of a tool's arguments, or a pydantic model of them, and the tool's description."""


class AgentTools:
    """The governed tools behind a framework's own tools, by name.

    Args:
        kit: The open kit.
        framework: The framework's name for people.
        define: Returns the schema and the description of a foreign tool.
        own: The adapter's class for actions of the kit, with the tool as `governed`.
    """

    def __init__(
        self, kit: Kit, framework: str, define: Callable[[Any], Definition], own: type | tuple[()] = ()
    ) -> None:
        self._kit, self._framework, self._own, self._define = kit, framework, own, define
        self._known: dict[str, tuple[object, Definition | None, Tool | None]] = {}

    def governed(self, name: str, tool: Any) -> Tool | None:
        """Return the governed tool of a call. A foreign tool is governed at the first call, with the tool's own schema.

        None for a tool without a contract, with a warning, and for no tool.
        """
        if isinstance(tool, self._own):
            found: Tool = tool.governed  # type: ignore[attr-defined] # every class of an adapter has it
            return found
        if tool is None or not self._kit.governs(name):
            self.warn([] if tool is None else [name])
            return None
        known, definition, governed = self._known.get(name, (None, None, self._kit.tools.get(name)))
        if known is tool and governed is not None:
            return governed
        defined = self._define(tool)
        # A host may have governed the tool before, by a definition that makes the contract stricter.
        if governed is None or definition not in (None, defined):
            schema, description = defined
            as_schema = getattr(schema, "model_json_schema", lambda: schema)
            governed = self._kit.govern(name, as_schema(), description=description or "")
        self._known[name] = (tool, defined, governed)
        return governed

    def warn(self, tools: Iterable[Any]) -> None:
        """Warn once of each tool without a contract. `tools`: names, or tools with a name."""
        self._kit.warn_ungoverned(self._framework, [name_of(each) for each in tools])


def name_of(tool: Any) -> str:
    """Return a tool's name. A hosted tool often has a type alone.

    Example:
        >>> name_of({"type": "web_search"}), name_of("enter")
        ('web_search', 'enter')
    """
    if isinstance(tool, str):
        return tool
    found = tool.get("name") or tool.get("type") if isinstance(tool, Mapping) else getattr(tool, "name", None)
    return str(found or type(tool).__name__)
