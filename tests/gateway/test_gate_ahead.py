"""A call that no contract governs goes out before its attempt is written, and is answered when that is durable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from readback.canon import Json
from readback.domain.events import EventKind, open_envelope
from readback.engine.run import Run
from readback.engine.stages import execute
from readback.errors import EnvelopeProfileError, StoreError
from readback.gateway.call import Call
from readback.gateway.policy import ungoverned
from readback.mcp import InProcess
from readback.ports.storage.store import Append, AppendResult, Freeze, Frozen
from readback.systems.configured.settings import Credentials
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import sample_creation
from tests.gateway.desk import Desk, at_a_desk, until_asleep

pytestmark = pytest.mark.requirement("GATEWAY-ungoverned")


class Slow(MemoryStore):
    """Writes an attempt when it is let; fails, or refuses it, when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write, self.writing = threading.Event(), threading.Event()
        self.may_write.set()
        self.fails = False
        self.only_attempts = True
        self.bars: Freeze | None = None

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if not self.only_attempts or any(event.kind == EventKind.ATTEMPTED for each in batch for event in each.events):
            self.writing.set()
            self.may_write.wait(10)
            if self.fails:
                raise StoreError("The disk is full.")
            if self.bars is not None:
                return [Frozen(self.bars) for _ in batch]
        return super().append(batch)


def counting(desk: Desk) -> list[str]:
    """A tool that says who called it."""
    called: list[str] = []

    @desk.server.tool()
    async def count(name: str) -> str:
        called.append(name)
        return name

    @desk.server.tool()
    async def sit() -> str:
        await desk.book.opened.wait()
        return ""

    return called


async def when(so: Callable[[], object]) -> None:
    """Until it is so, while everybody else goes on."""
    while not so():
        await checkpoint()


@asynccontextmanager
async def another_under_way(desk: Desk, store: Slow) -> AsyncIterator[None]:
    """With a call that waits, so that attempts are written in a thread of their own, and these when they are let."""
    beside = asyncio.create_task(desk.call("sit"))
    await until_asleep()
    store.may_write.clear()
    store.writing.clear()
    try:
        yield
    finally:
        store.may_write.set()
        desk.book.opened.set()
        await beside


def test_the_server_works_while_the_attempt_is_written_and_the_answer_waits_for_it(tmp_path: Path) -> None:
    store = Slow()

    async def work(desk: Desk) -> None:
        called = counting(desk)
        async with another_under_way(desk, store):
            asked = asyncio.create_task(desk.call("count", name="rent"))
            await when(lambda: called or asked.done())
            await until_asleep()
            assert store.writing.is_set()
            assert not asked.done()
            store.may_write.set()
            told = await asked
            assert (told.texts[0], told.outcome["verdict"]) == ("rent", "not_checked")

    at_a_desk(tmp_path, work, store=store)


def test_a_call_whose_operation_has_a_name_waits_for_its_attempt(tmp_path: Path) -> None:
    store = Slow()

    async def work(desk: Desk) -> None:
        called = counting(desk)
        async with another_under_way(desk, store):
            asked = asyncio.create_task(desk.call("count", "op-1", name="rent"))
            await when(lambda: store.writing.is_set() or asked.done())
            await until_asleep()
            assert called == []
            store.may_write.set()
            assert (await asked).texts[0] == "rent"

    at_a_desk(tmp_path, work, store=store)


def test_what_was_sent_and_cannot_be_recorded_is_told_as_unknown_and_nothing_more_is_sent(tmp_path: Path) -> None:
    store = Slow()

    async def work(desk: Desk) -> None:
        called = counting(desk)
        store.fails = True
        told = await desk.call("count", name="rent")
        assert told.failed
        assert (told.outcome["state"], told.outcome["may_repeat"]) == ("unknown", False)
        assert told.outcome["code"] == "store.unknown-outcome"
        again = await desk.call("count", name="food")
        assert again.outcome["code"] == StoreError.code  # nothing was sent
        assert "nothing was sent" in again.text
        assert called == ["rent"]
        store.fails = False
        assert (await desk.call("count", name="food")).texts[0] == "food"

    at_a_desk(tmp_path, work, store=store)


def narrowed(desk: Desk) -> asyncio.Semaphore:
    """From now on the server has room when it is given."""
    [upstream] = desk.gateway._upstreams
    assert isinstance(upstream, InProcess)
    upstream.own.room = asyncio.Semaphore(0)
    return upstream.own.room


@pytest.mark.requirement("GATEWAY-many")
def test_more_calls_without_a_contract_than_the_gateway_takes_are_refused_and_governed_ones_are_not(
    tmp_path: Path,
) -> None:
    async def work(desk: Desk) -> None:
        called = counting(desk)
        beside = asyncio.create_task(desk.call("sit"))
        await until_asleep()
        assert (await desk.call("count", name="rent")).outcome["code"] == "gateway.busy"
        assert not (await desk.enter()).failed
        desk.book.opened.set()
        await beside
        await desk.gateway.gate._recording.on_record()
        assert (await desk.call("count", name="rent")).texts[0] == "rent"
        assert called == ["rent"]

    at_a_desk(tmp_path, work, in_flight_max=1)


def test_what_waited_for_room_while_the_ledger_began_to_fail_is_not_sent(tmp_path: Path) -> None:
    store = Slow()

    async def work(desk: Desk) -> None:
        called, room = counting(desk), narrowed(desk)
        first = asyncio.create_task(desk.call("count", name="rent"))
        await until_asleep()
        second = asyncio.create_task(desk.call("count", name="food"))
        await until_asleep()
        store.fails = True
        room.release()
        assert (await first).outcome["code"] == "store.unknown-outcome"
        assert (await second).outcome["code"] == StoreError.code
        assert called == ["rent"]

    at_a_desk(tmp_path, work, store=store)


def test_a_call_that_recorded_nothing_does_not_make_a_failing_ledger_sound(tmp_path: Path) -> None:
    store = Slow()

    async def work(desk: Desk) -> None:
        called = counting(desk)
        store.fails = True
        assert (await desk.call("count", name="rent")).outcome["code"] == "store.unknown-outcome"
        room = narrowed(desk)
        left = asyncio.create_task(desk.call("count", name="food"))
        await until_asleep()
        left.cancel()
        await until_asleep()
        room.release()
        assert (await desk.call("count", name="more")).outcome["code"] == StoreError.code
        assert called == ["rent"]

    at_a_desk(tmp_path, work, store=store)


def test_nothing_is_sent_while_what_it_would_touch_is_frozen(tmp_path: Path) -> None:
    store = MemoryStore()

    async def work(desk: Desk) -> None:
        called = counting(desk)
        stopped = sample_creation("a1")
        assert stopped.tenant == "acme"
        store.append([replace(stopped, freezes=(Freeze("acme", "tenant:acme", "a1", "stop", 1),))])
        told = await desk.call("count", name="rent")
        await until_asleep()
        assert called == []
        assert told.failed
        assert (told.outcome["state"], told.outcome["verdict"]) == ("failed", "not_checked")
        kept = store.projection(told.outcome["action"])
        assert kept is not None
        assert kept.projection.state == "failed"

    at_a_desk(tmp_path, work, store=store)


def test_a_freeze_that_comes_in_between_is_told_as_unknown_and_recorded_as_nothing(tmp_path: Path) -> None:
    store = Slow()

    async def work(desk: Desk) -> None:
        counting(desk)
        store.bars = Freeze("acme", "tenant:acme", "act_1", "stop", 1)
        told = await desk.call("count", name="rent")
        assert told.outcome["state"] == "unknown"
        assert [*store.projections()] == []

    at_a_desk(tmp_path, work, store=store)


def test_a_client_that_cancels_while_the_attempt_is_written_is_heard_by_the_server(tmp_path: Path) -> None:
    store = Slow()

    async def work(desk: Desk) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()
        counting(desk)

        @desk.server.tool()
        async def stay() -> str:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

        async with another_under_way(desk, store):
            asked = asyncio.create_task(desk.call("stay"))
            await begun.wait()
            asked.cancel()
            await until_asleep()
            store.may_write.set()
            await ended.wait()

    at_a_desk(tmp_path, work, store=store)


def test_what_was_sent_and_could_not_be_made_up_for_the_record_is_told_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Run:
        raise EnvelopeProfileError("It cannot be written down.")

    async def work(desk: Desk) -> None:
        called = counting(desk)
        with monkeypatch.context() as for_a_while:
            for_a_while.setattr(execute, "propose", broken)
            told = await desk.call("count", name="rent")
        await until_asleep()
        assert called == ["rent"]
        assert (told.outcome["state"], told.outcome["code"]) == ("unknown", "store.unknown-outcome")
        assert told.outcome["may_repeat"] is False
        assert ["It cannot be written down." in line for line in desk.said] == [True]
        assert (await desk.call("count", name="food")).outcome["verdict"] == "not_checked"

    at_a_desk(tmp_path, work)


def test_a_client_that_cancels_before_the_attempt_is_made_up_leaves_it_on_record(tmp_path: Path) -> None:
    store = MemoryStore()

    async def work(desk: Desk) -> None:
        ended: list[str] = []

        class Other:
            key, room, origin = "", None, {}

            async def tools(self) -> list[Mapping[str, Json]]:
                return []

            async def call(self, params: Mapping[str, Json], **_: object) -> dict[str, Json]:
                [driving] = desk.gateway.gate._recording.under_way
                driving.cancel()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("cancelled")
                return {}

        params: dict[str, Json] = {"name": "count", "arguments": {}}
        asked = asyncio.create_task(desk.gateway.gate.call(Call("count", "", "count", {}, params), Other()))
        await asyncio.wait({asked})
        await until_asleep()
        assert ended == ["cancelled"]
        [kept] = store.projections()
        assert (kept.projection.state, kept.projection.lease_owner) == ("unknown", "")
        kinds = [open_envelope(stored.envelope).event.kind for stored in store.events(kept.projection.action_id)]
        assert kinds[:3] == [EventKind.PROPOSED, EventKind.ATTEMPTED, EventKind.OBSERVED]

    at_a_desk(tmp_path, work, store=store)


@pytest.mark.requirement("GATEWAY-measured")
def test_the_answer_has_left_before_what_is_recorded_of_it_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    whole = ungoverned.kept

    def kept(value: Mapping[str, Json]) -> dict[str, Json]:
        done.extend(["recorded"] if "content" in value else [])
        return whole(value)

    class Other:
        key, room, origin, secrets = "", None, {}, Credentials()

        async def tools(self) -> list[Mapping[str, Json]]:
            return []

        async def call(self, params: Mapping[str, Json], **_: object) -> dict[str, Json]:
            await checkpoint()
            return {"content": [{"type": "text", "text": "rent"}]}

    async def work(desk: Desk) -> None:
        params: dict[str, Json] = {"name": "count", "arguments": {}}

        async def as_the_wire_does() -> None:
            await asyncio.create_task(desk.gateway.gate.call(Call("count", "", "count", {}, params), Other()))

        await asyncio.create_task(as_the_wire_does())
        done.append("answered")
        await when(lambda: len(done) == 2)
        assert done == ["answered", "recorded"]

    monkeypatch.setattr(ungoverned, "kept", kept)
    at_a_desk(tmp_path, work)
