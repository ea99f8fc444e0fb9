"""The promises of every sink, by any author.

A test class inherits the suite. The class makes a sink, returns the received messages, and makes the receiver refuse.
"""

from __future__ import annotations

import threading

from readback.canon import ReadbackError
from readback.domain.records.message import EventName, Message
from readback.ports.sink import Sink

LOG = "0123456789abcdef0123456789abcdef"
NOON_US = 1_767_268_800_000_000


def sample_message(seq: int = 7, number: int = 0, name: EventName = EventName.INCIDENT_OPENED) -> Message:
    """Return a message as for an entry."""
    data = {"format": 1, "event": name.value, "action": "a1", "target": "order/`id` $(id) \N{SNOWMAN}", "version": 3}
    return Message(LOG, seq, number, name, "acme", "a1", NOON_US + seq, data)


class SinkConformance:
    """The promises of every sink."""

    def make_sink(self) -> Sink:
        """Return a sink with an accepting receiver."""
        raise NotImplementedError

    def received(self) -> list[dict[str, object]]:
        """Return every accepted envelope in order."""
        raise NotImplementedError

    def refuse(self) -> None:
        """Make the receiver refuse everything from now on."""
        raise NotImplementedError

    def allow(self) -> None:
        """Make the receiver accept again."""
        raise NotImplementedError

    def test_what_was_delivered_was_taken_whole_and_in_order(self) -> None:
        sink = self.make_sink()
        sent = [sample_message(7), sample_message(7, 1, EventName.RESOURCE_FROZEN), sample_message(9)]
        for message in sent:
            sink.deliver(message)
        assert self.received() == [message.as_json() for message in sent]

    def test_the_same_message_comes_again_with_the_same_id(self) -> None:
        sink = self.make_sink()
        sink.deliver(sample_message())
        sink.deliver(sample_message())
        assert len({str(one["id"]) for one in self.received()}) == 1

    def test_it_says_where_it_was_not_taken_and_takes_it_when_the_receiver_does(self) -> None:
        sink = self.make_sink()
        self.refuse()
        assert _refuses(sink)
        assert self.received() == []
        self.allow()
        sink.deliver(sample_message())
        assert [one["id"] for one in self.received()] == [sample_message().id]

    def test_it_takes_nothing_once_it_is_stopped_by_whomever_and_however_often(self) -> None:
        sink = self.make_sink()
        stops = [threading.Thread(target=sink.stop) for _ in range(3)]
        for each in stops:
            each.start()
        for each in stops:
            each.join()
        sink.stop()
        assert _refuses(sink)
        assert self.received() == []


def _refuses(sink: Sink) -> bool:
    """Whether the call raises an error with a reason."""
    try:
        sink.deliver(sample_message())
    except (ReadbackError, RuntimeError, OSError, ValueError) as error:
        return bool(str(error))
    return False
