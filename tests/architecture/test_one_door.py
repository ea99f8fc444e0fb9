"""One door for side effects: only a driver lets a hand act or look.

A hand (`readback.ports.handlers.Handler`) is any callable of a contract, and `call` is its only handle. Code outside a
driver that reads an attribute of that name is a second door. Where `call` is something else's, as a tool server's,
it is said of whom; or of a room that nobody in it can come by a hand.
"""

from __future__ import annotations

import ast
import dataclasses

import pytest

from readback.ports.handlers import Handler
from tests.architecture.tree import Module, modules

HANDLE = "call"
DRIVERS = (
    "readback.drivers.driver",
    "readback.drivers.live_span",
    "readback.drivers.interpreter",
    "readback.testing.driver",
)
# They stand for other people's systems, and know nothing of hands.
STRANGERS = "readback.demo.systems"

OTHERS = {
    "readback.contracts.files.tool_handlers": {"fitting", "self.fitting"},  # a server's tool, within the hand it makes
    "readback.ports.handlers": {"self"},  # a hand that answers more, made of one; calling it is still the driver's
}
"""What else has a `call`, by the module that reads it."""

NO_HANDS = ("readback.gateway.", "readback.hooks.")
"""Rooms in which a call is a message: whatever is called there is no hand, as none can be come by."""

READS_BY_NAME = {"getattr", "attrgetter", "methodcaller", "__getattribute__"}


def _comes_by_hands(module: Module) -> list[str]:
    return [
        f"{module.path}:{node.lineno}"
        for node in module.nodes()
        if (isinstance(node, ast.ImportFrom) and node.module in ("readback.ports", "readback.ports.handlers"))
        or (isinstance(node, ast.Import) and any(name.name == "readback.ports.handlers" for name in node.names))
        or (isinstance(node, ast.Attribute) and node.attr == "hands")
        or (isinstance(node, ast.Call) and _called(node) in READS_BY_NAME and _names(node, "hands"))
    ]


def _touches(module: Module, handle: str) -> list[str]:
    others = OTHERS.get(module.name, set())
    return [
        f"{module.path}:{node.lineno}"
        for node in module.nodes()
        if (
            isinstance(node, ast.Attribute)
            and node.attr == handle
            and isinstance(node.ctx, ast.Load)
            and ast.unparse(node.value) not in others
        )
        or (isinstance(node, ast.Call) and _called(node) in READS_BY_NAME and _names(node, handle))
        or (isinstance(node, ast.MatchClass) and handle in node.kwd_attrs)
        or (isinstance(node, ast.MatchClass) and node.patterns and ast.unparse(node.cls).split(".")[-1] == "Hand")
    ]


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _names(call: ast.Call, handle: str) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == handle for each in call.args)


def test_a_hand_has_one_handle() -> None:
    assert [field.name for field in dataclasses.fields(Handler) if "Callable" in str(field.type)] == [HANDLE]


@pytest.mark.requirement("PRINCIPLE-act-through-contracts")
@pytest.mark.slow
def test_only_drivers_let_a_hand_act() -> None:
    outside = [m for m in modules() if not m.name.startswith((*DRIVERS, STRANGERS, *NO_HANDS))]
    assert [touch for m in outside for touch in _touches(m, HANDLE)] == []


@pytest.mark.slow
def test_where_a_call_is_a_message_nobody_comes_by_a_hand() -> None:
    assert [place for m in modules() if m.name.startswith(NO_HANDS) for place in _comes_by_hands(m)] == []
    assert [m for m in modules() if m.name.startswith(DRIVERS) and _comes_by_hands(m)], "it looks for the wrong names"


@pytest.mark.slow
def test_whatever_else_has_a_call_still_has_it() -> None:
    """An exemption that nothing needs any more is a door that somebody may use."""
    for name, owners in OTHERS.items():
        (module,) = [m for m in modules() if m.name == name]
        read = [node for node in module.nodes() if isinstance(node, ast.Attribute) and node.attr == HANDLE]
        assert {ast.unparse(node.value) for node in read} == owners


@pytest.mark.parametrize(
    "code",
    [
        "hand.call(ctx, {})",
        "act = plan.hands.execute.call",
        "getattr(hand, 'call')(ctx, {})",
        "operator.attrgetter('call')(hand)",
        "operator.methodcaller('call', ctx, {})(hand)",
        "object.__getattribute__(hand, 'call')",
        "match hand:\n    case Hand(call=act): act(ctx, {})",
        "match hand:\n    case Hand(_, act): act(ctx, {})",
    ],
)
def test_a_second_door_is_recognised(code: str) -> None:
    assert _touches(Module("m", "m.py", code, ast.parse(code)), HANDLE)


@pytest.mark.slow
def test_the_drivers_are_where_the_door_is() -> None:
    inside = [touch for m in modules() if m.name.startswith(DRIVERS) for touch in _touches(m, HANDLE)]
    if not any(m.name.startswith(DRIVERS) for m in modules()):
        pytest.skip("no driver yet")
    assert inside, "no driver calls a hand: the rule above looks for the wrong handle"


def _makes(module: Module, name: str) -> list[str]:
    return [
        module.name
        for node in module.nodes()
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
        for node in m.nodes()
        if isinstance(node, ast.ImportFrom) and any(name.name == "Dispatch" for name in node.names)
    }
    assert len(asking) <= 1, asking
    assert all(name.startswith((*DRIVERS, "readback.engine")) for name in knowing | set(asking)), knowing
    assert not [name for name in knowing if name.startswith("readback.engine.stages.verify")]
    if any(m.name == "readback.engine.engine" for m in modules()):
        assert asking, "the engine asks for no dispatch: this rule looks for the wrong name"
