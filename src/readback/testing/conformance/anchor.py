"""The promises of every anchor. Subclass the suite, and provide an anchor, a second anchor over the same place, and a
dead anchor.
"""

from __future__ import annotations

from readback.errors import AnchorError
from readback.ports.anchor import Anchor
from readback.testing.conformance.store_work import raised_by


class AnchorConformance:
    """`notes`: checkpoints of one log, of growing sizes. `proof` proves each as an extension of the earlier ones."""

    notes: list[tuple[int, bytes]]

    def anchor(self) -> Anchor:
        """Return an anchor over a place of its own for each test."""
        raise NotImplementedError

    def again(self) -> Anchor:
        """Return another anchor over the same place, as another process would open it."""
        raise NotImplementedError

    def dead(self) -> Anchor:
        """Return an anchor with an unreachable place."""
        raise NotImplementedError

    def proof(self, size: int, old: int) -> list[bytes]:
        raise NotImplementedError

    def _take(self, anchor: Anchor, number: int) -> bytes:
        size, note = self.notes[number]
        return anchor.take(note, size, lambda old: self.proof(size, old))

    def test_it_has_one_name(self) -> None:
        anchor = self.anchor()
        assert anchor.name == self.again().name != ""

    def test_it_keeps_nothing_at_first(self) -> None:
        assert self.anchor().last() is None

    def test_it_keeps_the_last_that_it_took_and_so_does_who_opens_it_anew(self) -> None:
        anchor = self.anchor()
        for number in range(len(self.notes)):
            self._take(anchor, number)
            for one in (anchor, self.again()):
                assert one.last() == (self.notes[number][1] if one.shows else None)

    def test_the_same_one_may_be_taken_twice_and_several_may_be_left_out(self) -> None:
        anchor, more = self.anchor(), b""
        for number in (0, 0, len(self.notes) - 1):
            more = self._take(anchor, number)
            assert more == b"" or more.endswith(b"\n")
        assert self._take(self.again(), len(self.notes) - 1) == more

    def test_a_place_that_is_not_to_be_had_is_an_anchor_error(self) -> None:
        dead = self.dead()
        failed = raised_by(lambda: self._take(dead, 0))
        assert isinstance(failed, AnchorError)
        assert failed.code.startswith("anchor.")
        if dead.shows:
            assert isinstance(raised_by(dead.last), AnchorError)
