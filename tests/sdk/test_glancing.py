"""When a reader is asked on the event loop itself: after it was quick in a thread, and not while it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from readback import Context, Reading
from readback.drivers.inline_reads import MOMENT_US, TRIES_MAX, InlineReadPolicy
from readback.errors import ReaderFailedError
from readback.ports.handlers import Handler
from readback.testing.runtime_virtual import VirtualRuntime

pytestmark = pytest.mark.requirement("FILE-glance")

CTX = Context("a", "t", "p", "op", "x/1", "k", "s")


class Eye:
    """A reader whose looks take what they are told to, on a clock that nothing else moves."""

    def __init__(self) -> None:
        self.runtime = VirtualRuntime()
        self.takes_us = 0
        self.shows: Reading | None = Reading.of({"id": 1})
        self.fails = False
        self.hand = Handler("eye", lambda ctx, arguments: None, glance=self._look)
        self.glances = InlineReadPolicy(self.runtime)

    def _look(self, ctx: Context, arguments: Mapping[str, object]) -> Reading | None:
        self.runtime.advance(self.takes_us / 1_000_000)
        if self.fails:
            raise ReaderFailedError("No.")
        return self.shows

    def glance(self) -> Reading | None:
        return self.glances.of(self.hand, CTX, {})

    def tries(self) -> int:
        """How many quick looks by a thread it takes until the loop asks again."""
        for n in range(2 * TRIES_MAX):
            if self.glance() is not None:
                return n
            self.glances.took(self.hand, 1)
        raise AssertionError("never again")


def test_nobody_is_asked_on_the_loop_before_a_thread_found_it_quick() -> None:
    eye = Eye()
    assert eye.glance() is None
    eye.glances.took(eye.hand, MOMENT_US + 1)
    assert eye.glance() is None
    eye.glances.took(eye.hand, MOMENT_US)
    assert eye.glance() == eye.shows
    assert eye.glance() == eye.shows


def test_a_hand_that_cannot_be_asked_so_never_is() -> None:
    eye = Eye()
    hand = replace(eye.hand, glance=None)
    eye.glances.took(hand, 1)
    assert eye.glances.of(hand, CTX, {}) is None


@pytest.mark.parametrize("how", ["slow", "nothing", "failed"])
def test_one_that_was_none_on_the_loop_goes_to_threads_each_time_twice_as_often(how: str) -> None:
    eye = Eye()
    found = []
    for _ in range(8):
        found.append(eye.tries())
        eye.takes_us = MOMENT_US + 1 if how == "slow" else 0
        shown, eye.shows = eye.shows, None if how == "nothing" else eye.shows
        eye.fails = how == "failed"
        if eye.fails:
            with pytest.raises(ReaderFailedError):
                eye.glance()
        else:
            assert (eye.glance() is None) is (how == "nothing"), "what it saw slowly counts all the same"
        eye.takes_us, eye.shows, eye.fails = 0, shown, False
        assert eye.glance() is None
    assert found == [1, 2, 4, 8, 16, 32, 64, 64]


def test_a_long_run_of_quick_looks_is_trusted_as_the_first_was() -> None:
    eye = Eye()
    for _ in range(4):
        eye.tries()
        eye.shows, shown = None, eye.shows
        eye.glance()
        eye.shows = shown
    assert eye.tries() == 16
    for _ in range(TRIES_MAX):
        assert eye.glance() is not None
    eye.shows, shown = None, eye.shows
    eye.glance()
    eye.shows = shown
    assert eye.tries() == 2


def test_a_slow_look_in_a_thread_counts_too() -> None:
    eye = Eye()
    eye.tries()
    eye.glances.took(eye.hand, MOMENT_US + 1)
    assert eye.glance() is None
