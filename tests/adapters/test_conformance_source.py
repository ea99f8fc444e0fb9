"""The rules of sources bite: an honest source keeps them all, and each lie breaks the rule that is against it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from readback.canon.frozen import settle
from readback.domain.verification.reading import Reading
from readback.errors import ReaderFailedError
from readback.ports.handlers import Source
from readback.testing.conformance import source as rules
from readback.testing.conformance.source import SOURCE_RULES, Rule


class Honest:
    """A world in memory with its source; each lie below overrides one thing."""

    name = "memory"

    def __init__(self) -> None:
        self.text: str | None = None
        self.reachable = True
        self.visible = True
        self.looks = 0

    @property
    def source(self) -> Source:
        return self

    def put(self, text: str) -> None:
        self.text = text

    def remove(self) -> None:
        self.text = None

    def cut(self) -> None:
        self.reachable = False

    def mend(self) -> None:
        self.reachable = True

    def hide(self) -> bool:
        self.visible = False
        return True

    def ping(self) -> None:
        if not self.reachable:
            raise ReaderFailedError("nobody is there")

    def read(self) -> Reading:
        self.looks += 1
        if not self.reachable:
            return Reading.unavailable("nobody is there")
        if not self.visible:
            return Reading.not_visible("hidden")
        return Reading.absent() if self.text is None else self.show(self.text)

    def show(self, text: str) -> Reading:
        return Reading.of({"text": text}, version=text)


class Nameless(Honest):
    name = ""


class Blind(Honest):
    def read(self) -> Reading:
        return Reading.not_visible() if self.reachable else Reading.unavailable()


class Bare(Honest):
    def show(self, text: str) -> Reading:
        return Reading.of(None)


class Rich(Honest):
    def show(self, text: str) -> Reading:
        found = Reading.of({"text": text})
        settle(found, "value", {"text": (text,)})
        return found


class Cached(Honest):
    kept: Reading | None = None

    def show(self, text: str) -> Reading:
        self.kept = self.kept or Reading.of({"text": text})
        return self.kept


class Counting(Honest):
    def show(self, text: str) -> Reading:
        return Reading.of({"text": text, "looks": self.looks})


class Moving(Honest):
    def show(self, text: str) -> Reading:
        return Reading.of({"text": text}, version=self.looks)


class Remembering(Honest):
    last = Reading.absent()

    def read(self) -> Reading:
        found = super().read()
        self.last = found if self.text is not None else self.last
        return self.last


class Forgetful(Honest):
    seen_absent = False

    def read(self) -> Reading:
        self.seen_absent = self.seen_absent or self.text is None
        return Reading.absent() if self.seen_absent else super().read()


class Optimist(Honest):
    def read(self) -> Reading:
        return super().read() if self.reachable else Reading.absent()


class Sulking(Honest):
    hurt = False

    def read(self) -> Reading:
        self.hurt = self.hurt or not self.reachable
        return Reading.unavailable() if self.hurt else super().read()


class Believing(Honest):
    def read(self) -> Reading:
        return super().read() if self.visible else Reading.absent()


class Writing(Honest):
    def ping(self) -> None:
        super().ping()
        self.text = "pinged"


class Cheerful(Honest):
    def ping(self) -> None:
        return


class OfOneThread(Honest):
    def __init__(self) -> None:
        super().__init__()
        self.home = threading.get_ident()

    def show(self, text: str) -> Reading:
        return super().show(text if threading.get_ident() == self.home else "another")


LIES: list[tuple[Callable[[], Honest], Rule]] = [
    (Nameless, rules.the_name_is_a_short_text),
    (Blind, rules.an_object_that_is_there_is_present),
    (Bare, rules.an_object_that_is_there_is_present),
    (Rich, rules.a_value_is_plain_json),
    (Cached, rules.a_change_is_seen_by_the_next_reading),
    (Counting, rules.nothing_changed_reads_the_same),
    (Moving, rules.nothing_changed_reads_the_same),
    (Remembering, rules.what_is_gone_is_no_longer_present),
    (Forgetful, rules.what_comes_back_is_present_again),
    (Optimist, rules.an_unreachable_system_says_nothing),
    (Sulking, rules.a_reading_after_an_outage_is_good),
    (Believing, rules.what_is_hidden_is_not_taken_for_absent),
    (Writing, rules.ping_answers_and_changes_nothing),
    (Cheerful, rules.ping_raises_when_the_system_is_unreachable),
    (OfOneThread, rules.threads_do_not_disturb_each_other),
]


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_an_honest_source_keeps_every_rule(rule: Rule) -> None:
    rule(Honest())


@pytest.mark.parametrize(("lie", "rule"), LIES, ids=lambda each: each.__name__)
def test_a_lie_breaks_its_rule(lie: Callable[[], Honest], rule: Rule) -> None:
    with pytest.raises(AssertionError):
        rule(lie())


def test_every_rule_has_a_lie_that_it_catches() -> None:
    assert {rule for _, rule in LIES} == set(SOURCE_RULES)
