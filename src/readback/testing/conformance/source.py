"""The promises of every source of record: rules for a real system behind your own source.

For authors of sources. Write a `SourceWorld` around the real system, and run each of `SOURCE_RULES` over a fresh world,
as with `pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)`. A broken rule raises
AssertionError with the reason. The rules use the port alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeAlias

from readback.canon import json_value, payload_bytes
from readback.canon.limits import ID_MAX_BYTES
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ReaderFailedError
from readback.ports.handlers import Source

THREADS: Final = 4
READINGS_A_THREAD: Final = 5


class SourceWorld(Protocol):
    """A real system with at most one object, and a source for it.

    The world changes behind the source's back: `put` and `remove` bypass the source.
    """

    @property
    def source(self) -> Source:
        """The source, the same during the whole life of the world."""
        ...

    def put(self, text: str) -> None:
        """Create the object with `text`, or change it."""
        ...

    def remove(self) -> None:
        """Delete the object from the system."""
        ...

    def read(self) -> Reading:
        """Take one reading, as a reader would."""
        ...

    def cut(self) -> None:
        """Make the system unreachable."""
        ...

    def mend(self) -> None:
        """Make the system reachable again."""
        ...

    def hide(self) -> bool:
        """Revoke the right to see the object. Return False if the system has no such right."""
        ...


Rule: TypeAlias = Callable[[SourceWorld], None]


def the_name_is_a_short_text(world: SourceWorld) -> None:
    name = world.source.name
    assert isinstance(name, str), f"the name is {name!r}"
    assert 0 < len(name.encode()) <= ID_MAX_BYTES, f"the name has {len(name.encode())} bytes"


def an_object_that_is_there_is_present(world: SourceWorld) -> None:
    world.put("one")
    found = world.read()
    assert found.presence is Presence.PRESENT, f"it is there, and the source says {found.presence}: {found.detail}"
    assert found.value is not None, "the object is shown without its state"


def a_value_is_plain_json(world: SourceWorld) -> None:
    world.put("one")
    value = world.read().value
    assert json_value(value) == value, "the value is not the plain JSON that it is stored as"
    assert payload_bytes(value), "the value cannot be written down"


def a_change_is_seen_by_the_next_reading(world: SourceWorld) -> None:
    world.put("one")
    before = world.read()
    world.put("two")
    after = world.read()
    assert after.presence is Presence.PRESENT
    assert after.value != before.value, "the second reading shows the state of the first"


def nothing_changed_reads_the_same(world: SourceWorld) -> None:
    world.put("one")
    first, second = world.read(), world.read()
    assert first.value == second.value, "reading changed what was read, or the value holds the time of reading"
    assert first.version == second.version, "the version moves without a change"


def what_is_gone_is_no_longer_present(world: SourceWorld) -> None:
    world.put("one")
    world.read()
    world.remove()
    found = world.read()
    assert found.presence in (Presence.ABSENT, Presence.NOT_VISIBLE), f"it is gone; the source says {found.presence}"
    assert found.value is None, "a value is shown of what is not there"


def what_comes_back_is_present_again(world: SourceWorld) -> None:
    world.remove()
    world.read()
    world.put("one")
    assert world.read().presence is Presence.PRESENT, "the source remembers that the object was not there"


def an_unreachable_system_says_nothing(world: SourceWorld) -> None:
    for text in ("one", None):
        world.mend()
        if text is None:
            world.remove()
        else:
            world.put(text)
        world.cut()
        found = _look(world)
        assert found is None or found.presence is Presence.UNAVAILABLE, (
            f"the system was unreachable, and the source returned {found.presence}"
        )


def a_reading_after_an_outage_is_good(world: SourceWorld) -> None:
    world.put("one")
    world.cut()
    _look(world)
    world.mend()
    found = world.read()
    assert found.presence is Presence.PRESENT, f"the system is back, and the source says {found.presence}"


def what_is_hidden_is_not_taken_for_absent(world: SourceWorld) -> None:
    world.put("one")
    if world.hide():
        found = _look(world)
        assert found is None or found.presence in (Presence.NOT_VISIBLE, Presence.UNAVAILABLE), (
            f"it is there and hidden, and the source says {found.presence}"
        )


def ping_answers_and_changes_nothing(world: SourceWorld) -> None:
    world.put("one")
    before = world.read()
    world.source.ping()
    assert world.read().value == before.value, "ping changed something"


def ping_raises_when_the_system_is_unreachable(world: SourceWorld) -> None:
    world.cut()
    try:
        world.source.ping()
    except (ReaderFailedError, OSError):
        return
    raise AssertionError("ping returned, and the system was unreachable")


def threads_do_not_disturb_each_other(world: SourceWorld) -> None:
    world.put("one")
    expected = world.read().value
    with ThreadPoolExecutor(THREADS) as threads:
        looks = [threads.submit(world.read) for _ in range(THREADS * READINGS_A_THREAD)]
    for look in looks:
        assert look.result().value == expected, "a reading in another thread shows something else"


def _look(world: SourceWorld) -> Reading | None:
    """Return a reading, or None after a permitted error. An error never counts as absence."""
    try:
        return world.read()
    except (ReaderFailedError, OSError):
        return None


SOURCE_RULES: Final[tuple[Rule, ...]] = (
    the_name_is_a_short_text,
    an_object_that_is_there_is_present,
    a_value_is_plain_json,
    a_change_is_seen_by_the_next_reading,
    nothing_changed_reads_the_same,
    what_is_gone_is_no_longer_present,
    what_comes_back_is_present_again,
    an_unreachable_system_says_nothing,
    a_reading_after_an_outage_is_good,
    what_is_hidden_is_not_taken_for_absent,
    ping_answers_and_changes_nothing,
    ping_raises_when_the_system_is_unreachable,
    threads_do_not_disturb_each_other,
)
