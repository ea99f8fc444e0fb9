"""The oracle itself: a world that did not remember rightly would prove nothing."""

from __future__ import annotations

import pytest

from readback.domain.kind import Kind
from readback.domain.verification.reading import Presence, Reading
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.world import Place, World
from readback.testing.world_effects import OTHER_TENANT, Landing, Moments, Operation, land, perform
from readback.testing.world_views import FaultyReader, View

S = 1_000_000
HERE = Place("acme", "o-1")
MOMENTS = Moments(5 * S, 60 * S, 9 * S)


@pytest.fixture
def runtime() -> VirtualRuntime:
    return VirtualRuntime()


@pytest.fixture
def world(runtime: VirtualRuntime) -> World:
    made = World(runtime.now_us)
    made.put(HERE, {"status": "open"})
    runtime.advance(60)
    return made


def _operation(kind: Kind = Kind.SET) -> Operation:
    return Operation(kind, HERE, {"status": "shipped"}, "stamp", "key", "agent:ops", (), {"status": "lost"})


def test_it_remembers_how_everything_was(world: World, runtime: VirtualRuntime) -> None:
    before = runtime.now_us() - 1
    world.put(HERE, {"status": "shipped"}, stamp="s", author="me")
    old, new = world.record(HERE, before), world.record(HERE)
    assert old is not None
    assert new is not None
    assert (old.fields["status"], old.version) == ("open", 1)
    assert (new.fields["status"], new.version, new.stamp, new.author) == ("shipped", 2, "s", "me")
    assert world.record(HERE, 0) is None
    world.remove(HERE)
    assert world.record(HERE) is None
    assert world.remove(HERE) is None


def test_what_is_planned_happens_at_its_moment_and_not_before(world: World, runtime: VirtualRuntime) -> None:
    land(world, Landing.LATE, _operation(), MOMENTS)
    assert (world.effects("stamp"), world.coming("stamp")) == ([], 1)
    runtime.advance(4.9)
    assert world.effects("stamp") == []
    runtime.advance(60)
    effects = world.effects("stamp")
    assert len(effects) == 1
    assert world.coming("stamp") == 0
    assert effects[0].at_us == runtime.now_us() - round(59.9 * S)


@pytest.mark.parametrize(
    ("landing", "status", "effects"),
    [
        (Landing.NONE, "open", 0),
        (Landing.ONCE, "shipped", 1),
        (Landing.TWICE, "shipped", 2),
        (Landing.WRONG_VALUE, "lost", 1),
        (Landing.WRONG_TARGET, "open", 1),
        (Landing.WRONG_TENANT, "open", 1),
        (Landing.BY_OTHER, "shipped", 0),
        (Landing.OVERWRITTEN, "lost", 1),
        (Landing.STRAYED, "shipped", 2),
    ],
)
def test_each_landing_does_what_it_says(world: World, landing: Landing, status: str, effects: int) -> None:
    land(world, landing, _operation(), MOMENTS)
    record = world.record(HERE)
    assert record is not None
    assert record.fields["status"] == status
    assert len(world.effects("stamp")) == len(world.find("stamp")) == effects


def test_a_stray_is_found_where_it_is(world: World) -> None:
    land(world, Landing.WRONG_TENANT, _operation(), MOMENTS)
    (found,) = world.find("stamp")
    assert isinstance(found.value, dict)
    assert (found.value["tenant"], found.stamp) == (OTHER_TENANT, "stamp")


@pytest.mark.parametrize("kind", [k for k in Kind if k is not Kind.READ], ids=lambda k: k.value)
def test_every_kind_leaves_an_effect_that_bears_its_marks(world: World, kind: Kind) -> None:
    wanted = {"amount": 3} if kind is Kind.ADJUST else {"status": "shipped"}
    operation = Operation(kind, HERE, wanted, "stamp", "key", "agent:ops")
    perform(world, operation)
    (effect,) = world.effects("stamp")
    assert (effect.key, effect.author, effect.removed) == ("key", "agent:ops", kind is Kind.DELETE)
    assert world.lookup("key").status == "landed"
    assert world.lookup("other").status == "unknown_key"
    assert world.lookup("other", final=True).status == "failed"


def test_the_views_lie_as_they_say(world: World, runtime: VirtualRuntime) -> None:
    eyes = FaultyReader(world, _operation(), runtime.now_us() - 1)
    eyes.acted = True
    perform(world, _operation())

    def shown(view: View) -> Reading:
        found = eyes.look(view)
        assert isinstance(found, Reading)
        return found

    def status(view: View) -> object:
        value = shown(view).value
        return value["status"] if isinstance(value, dict) else None

    assert (status(View.TRUE), status(View.DENYING), status(View.OWN_REPLICA)) == ("shipped", "open", "open")
    world.remove(HERE)
    assert status(View.CONFIRMING) == "shipped"
    assert shown(View.CONFIRMING).version == 1
    assert shown(View.TRUE).presence is Presence.ABSENT
    assert shown(View.NOT_VISIBLE).presence is Presence.NOT_VISIBLE
    assert not shown(View.INCOMPLETE).complete
    assert [shown(View.FLAPPING).presence for _ in range(3)] == [
        Presence.UNAVAILABLE,
        Presence.UNAVAILABLE,
        Presence.ABSENT,
    ]
