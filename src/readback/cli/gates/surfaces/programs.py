"""Surfaces inside this process: the sync and the async client, and the kit for agent loops."""

from __future__ import annotations

import asyncio

from readback.assurance.surfaces import Probe, Told
from readback.cli.gates.surfaces.shelf import PRINCIPAL, TENANT, Shelf, words_of
from readback.client.async_client import AsyncReadback
from readback.domain.outcome.outcome import Outcome


class _Program:
    """A surface of this process, always installed."""

    name = ""
    decides = True

    def missing(self) -> str:
        return ""

    def probe(self) -> Probe:
        return Shelf()

    def close(self, probe: Probe) -> None:
        _shelf(probe).close()

    def ask(self, probe: Probe, slot: str) -> Told:
        raise NotImplementedError

    def settled(self, probe: Probe, slot: str) -> Told:
        return self.ask(probe, slot)


def _shelf(probe: Probe) -> Shelf:
    assert isinstance(probe, Shelf)
    return probe


def _told(outcome: Outcome) -> Told:
    return Told(words_of(outcome), outcome.verified)


class SyncSdk(_Program):
    """`Readback.run`."""

    name = "sdk-sync"

    def ask(self, probe: Probe, slot: str) -> Told:
        shelf = _shelf(probe)
        with shelf.opened() as rb:
            return _told(rb.run(shelf.action()(slot)))


class AsyncSdk(_Program):
    """`AsyncReadback.run`."""

    name = "sdk-async"

    def ask(self, probe: Probe, slot: str) -> Told:
        return asyncio.run(self._called(_shelf(probe), slot))

    async def _called(self, shelf: Shelf, slot: str) -> Told:
        action = shelf.action()
        async with AsyncReadback.open(
            shelf.url, tenant=TENANT, principal=PRINCIPAL, actions=[action], subscribers=[], seal=False
        ) as rb:
            return _told(await rb.run(action(slot)))


class KitTools(_Program):
    """A tool of `readback.kit`, as every framework's adapter calls it."""

    name = "kit"

    def ask(self, probe: Probe, slot: str) -> Told:
        from readback.kit import Kit

        shelf = _shelf(probe)
        with shelf.opened() as rb, Kit.over(rb, actions=[shelf.action()]) as kit:
            result = kit.tool("fill").run({"slot": slot})
        return Told(f"{result.message}\n{result.text}", result.ok or not result.is_error)
