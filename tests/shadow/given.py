"""The operator's settings, and a lamp whose switch may lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from readback import action, reader
from readback.client.authoring.action import ActionDefinition
from readback.config import USER_FILE


def allow(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """The operator's own settings file."""
    home = folder / "settings" / "readback"
    home.mkdir(parents=True, exist_ok=True)
    (home / USER_FILE).write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent))


@dataclass(slots=True)
class Lamp:
    """A system of record, and what reached its tool."""

    state: dict[str, Any] = field(default_factory=lambda: {"on": False, "id": "lamp", "tenant": "default"})
    calls: list[bool] = field(default_factory=list)
    undone: int = 0
    readable: bool = True
    beside: dict[str, Any] = field(default_factory=dict)
    """What else a call changes."""

    def switch(self, works: bool) -> str:
        self.calls.append(works)
        if works:
            self.state["on"] = True
            self.state |= self.beside
        return "switched"

    def look(self) -> Mapping[str, Any]:
        if not self.readable:
            raise ConnectionError("the wall is down")
        return dict(self.state)


def switch_of(lamp: Lamp, **keys: Any) -> ActionDefinition[Any]:
    """An action that switches the lamp on; `works=False` says so only."""

    @reader(source="wall", consistency="strong", independence="other_client")
    def wall(works: bool) -> Mapping[str, Any]:
        return lamp.look()

    @action(
        "lamp",
        ensure=keys.pop("ensure", {"on": "authoritative.on == true"}),
        side_effect=keys.pop("side_effect", "low_risk_internal"),
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        readers=[wall],
        within="20ms",
        polls=["0s"],
        late_window="0s",
        **keys,
    )
    def switch(works: bool) -> str:
        return lamp.switch(works)

    return switch
