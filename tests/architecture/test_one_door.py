"""One door for side effects: only a driver lets a hand act or look.

A hand (`readback.ports.acting.Hand`) is any callable of a contract, and `call` is its only handle. So whoever
reads an attribute of that name outside a driver has made a second door.
"""

from __future__ import annotations

import ast
import dataclasses

import pytest

from readback.ports.acting import Hand
from tests.architecture.tree import Module, modules

HANDLE = "call"
DRIVERS = ("readback.sdk.driver", "readback.testing.driver")
# They stand for other people's systems, and know nothing of hands.
STRANGERS = "readback.commands.demo.systems"


def _touches(module: Module, handle: str) -> list[str]:
    return [
        f"{module.path}:{node.lineno}"
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and node.attr == handle and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and _names(node, handle))
    ]


def _names(call: ast.Call, handle: str) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == handle for each in call.args)


def test_a_hand_has_one_handle() -> None:
    assert [field.name for field in dataclasses.fields(Hand) if "Callable" in str(field.type)] == [HANDLE]


@pytest.mark.requirement("PRINCIPLE-act-through-contracts")
@pytest.mark.slow
def test_only_drivers_let_a_hand_act() -> None:
    rooms = [m for m in modules() if not m.name.startswith((*DRIVERS, STRANGERS))]
    outside = [touch for m in rooms for touch in _touches(m, HANDLE)]
    assert outside == []


@pytest.mark.slow
def test_the_drivers_are_where_the_door_is() -> None:
    inside = [touch for m in modules() if m.name.startswith(DRIVERS) for touch in _touches(m, HANDLE)]
    if not any(m.name.startswith(DRIVERS) for m in modules()):
        pytest.skip("no driver yet")
    assert inside, "no driver calls a hand: the rule above looks for the wrong handle"


def _makes(module: Module, name: str) -> list[str]:
    return [
        module.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and name in {getattr(node.func, "id", ""), getattr(node.func, "attr", "")}
    ]


@pytest.mark.requirement("PRINCIPLE-act-through-contracts")
@pytest.mark.slow
def test_a_dispatch_is_asked_for_in_one_place_and_done_by_drivers() -> None:
    """The engine asks for it once, right behind the durable attempt; verification can only take looks."""
    asking = [place for m in modules() for place in _makes(m, "Dispatch")]
    knowing = {
        m.name
        for m in modules()
        for node in ast.walk(m.tree)
        if isinstance(node, ast.ImportFrom) and any(name.name == "Dispatch" for name in node.names)
    }
    assert len(asking) <= 1, asking
    assert all(name.startswith((*DRIVERS, "readback.lifecycle")) for name in knowing | set(asking)), knowing
    assert not [name for name in knowing if name.startswith("readback.lifecycle.verify")]
    if any(m.name == "readback.lifecycle.engine" for m in modules()):
        assert asking, "the engine asks for no dispatch: this rule looks for the wrong name"
