"""Whatever happens in whatever order: nothing is lost, nothing is reordered, and what comes twice has the same id."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from readback.background.delivery import Delivery
from readback.domain.records.message import Message
from readback.engine.outbox import log_of, messages_at
from readback.errors import SinkError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.telling import Died, ListSink, delivery_of, run_some

NAME = "bus"
ATTEMPTS = 3


class Outbox(RuleBasedStateMachine):
    """Processes that come and go over one ledger and one receiver, which is in a mood of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.clock = VirtualRuntime()
        self.told: list[str] = []
        """Every message that the receiver took, in order."""
        self.operator = ListSink()
        self.mood = "takes"
        self.left = -1
        self.again: set[str] = set()
        self.actions = self.processes = 0
        self.process()

    def process(self) -> None:
        """Another process; the one before may be dead or merely slow."""
        self.processes += 1
        self.runtime = self.clock.sibling(f"virtual/{self.processes + 1}")
        sink = ListSink(instead=self.receive)
        self.delivery: Delivery = delivery_of(
            self.store, self.runtime, sink, self.operator, name=NAME, attempts=ATTEMPTS, give_up_s=10
        )

    def receive(self, message: Message) -> None:
        if self.mood == "refuses":
            raise SinkError("Not now.")
        if self.mood == "never":
            raise SinkError("Never.", details={"final": True})
        if self.mood == "breaks":
            raise ValueError("odd")
        self.told.append(message.id)
        if self.mood == "dies":
            self.left -= 1
            if self.left < 0:
                raise Died

    # --- what happens ---------------------------------------------------------------------------------

    @rule(how=st.sampled_from(["ok", "lie"]), tenant=st.sampled_from(["acme", "globex"]))
    def act(self, how: str, tenant: str) -> None:
        self.actions += 1
        run_some(self.store, self.clock, f"op-{self.actions}", how=how, tenant=tenant)

    @rule(mood=st.sampled_from(["takes", "refuses", "never", "breaks"]))
    def change(self, mood: str) -> None:
        self.mood = mood

    @rule()
    def deliver(self) -> None:
        self.delivery.look()

    @rule(left=st.integers(0, 4))
    def die(self, left: int) -> None:
        """It is killed while it delivers, after so many messages; or in between, where there are none."""
        before, self.mood, self.left = self.mood, "dies", left
        with suppress(Died):
            self.delivery.look()
        self.mood = before
        self.clock.declare_gone(self.runtime.owner())
        self.process()

    @rule()
    def hang_and_come_back(self) -> None:
        """Another process is there as well; the old one's lease runs out, or it never had one."""
        self.process()

    @rule(seconds=st.sampled_from([1, 5, 60, 700]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.store.letters())
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        letter = data.draw(st.sampled_from(self.store.letters()))
        self.store.put_letter(replace(letter, again=True))
        self.again.add(self.id_of(letter.seq, letter.number))

    # --- what is true ---------------------------------------------------------------------------------

    def expected(self) -> list[str]:
        log = log_of(self.store)
        return [message.id for entry in self.store.scan() for message in messages_at(self.store, log, entry)]

    def id_of(self, seq: int, number: int) -> str:
        entry = next(iter(self.store.scan(seq - 1)))
        return messages_at(self.store, log_of(self.store), entry)[number].id

    def dead(self) -> set[str]:
        return {self.id_of(one.seq, one.number) for one in self.store.letters()}

    @invariant()
    def what_lies_before_the_position_was_taken_or_died(self) -> None:
        [cursor] = self.store.cursors()
        log = log_of(self.store)
        for entry in self.store.scan():
            if entry.seq > cursor.after_seq + 1:
                break
            for message in messages_at(self.store, log, entry):
                if entry.seq <= cursor.after_seq or message.number < cursor.done:
                    assert message.id in self.told or message.id in self.dead()

    @invariant()
    def nothing_else_was_told_and_nothing_out_of_order(self) -> None:
        expected = self.expected()
        assert set(self.told) <= set(expected)
        first = [each for each in dict.fromkeys(self.told) if each not in self.again]
        assert first == [each for each in expected if each in set(first)]

    @invariant()
    def the_operator_was_told_of_all_that_died(self) -> None:
        assert self.dead() <= set(self.operator.ids)

    def teardown(self) -> None:
        """Once the receiver takes everything again, everything arrives that did not die."""
        self.mood = "takes"
        for _ in range(4):
            self.clock.advance(7_200)
            while (again_us := self.delivery.look()) is not None and again_us <= self.clock.now_us():
                continue
        assert set(self.expected()) == set(self.told) | self.dead()
        assert self.store.cursors()[0].after_seq == self.store.last_seq() or not self.expected()


TestOutbox = Outbox.TestCase
TestOutbox.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
