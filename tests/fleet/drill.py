"""A drill: callers ask, workers work, things break in an order that a seed draws, and in the end all is quiet.

`Drill.run` gives what the checker takes. It decides nothing of what is right.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from readback import Readback, bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.evidence.attest import Authority, key_of
from readback.canon import Json
from readback.client.operations.worker import Worker
from readback.domain.state import TERMINAL, State
from readback.errors import StoreError
from readback.log.checkpoint import open_checkpoint
from readback.ports.storage.store import LedgerStore, Projection
from readback.testing.postgres_server import PostgresPair
from tests.fleet import database
from tests.fleet.checker import Effect, Ended, Entry, Evidence, Head
from tests.fleet.contracts import MANNERS, TENANT, Here, send
from tests.fleet.history import What, read
from tests.fleet.link import Link
from tests.fleet.members import Members
from tests.fleet.program import Order, seal_of, worker_of
from tests.fleet.record import Record

LOG_NAME = "fleet.example/ledger"
LOOK_S = 0.05
SEQUENCER_SOUGHT_S = 2.0
SLOW_S = 0.02
SETTLED_WITHIN_S = 90.0
SILENT_S = 0.8
MINUTES_MAX = 5
HOLDERS = "select array_agg(pid) from pg_locks where locktype = 'advisory' and granted and mode = 'ExclusiveLock'"


class Drill:
    """One drill. `server`: None for a ledger in a file, which nobody can be cut off from."""

    def __init__(self, folder: Path, url: Callable[[Path | None], str], server: PostgresPair | None, seed: int) -> None:
        self.folder, self.url, self.server = folder, url, server
        self.chance = random.Random(seed)
        self.seed = seed
        self.done: list[str] = []
        """What was broken, in order."""
        self._heads: set[Head] = set()
        self._over = threading.Event()

    def run(
        self, *, callers: int, workers: int, ops: int, faults: Sequence[str], apart: bool = False, skew_us: int = 0,
    ) -> Evidence:  # fmt: skip
        """`ops` of each caller, half of them submitted. `faults` are made one after another, evenly over the work."""
        self.folder.chmod(0o755)
        Here.record = Record(self.folder / "record.db")
        Here.record.create()
        signer = bootstrap.create_log_key(self.folder / "log.key", LOG_NAME)
        self._authority = Authority(key_of(signer), bootstrap.verify_signature)
        bootstrap.store(self.url(None)).close()
        watching = threading.Thread(target=self._watch)
        watching.start()
        home = self.server.home if self.server is not None else None
        members = Members(self.folder, self.url, home, apart=apart)
        try:
            for number in range(workers):
                members.start("worker", number, self.chance.choice((-skew_us, 0, skew_us)))
            for number in range(callers):
                names = [f"{self.seed}.{number}.{n} {self.chance.choice(MANNERS)}" for n in range(ops)]
                half = len(names) // 2
                skew = self.chance.choice((-skew_us, 0, skew_us))
                members.start("caller", number, skew, tuple(names[:half]), tuple(names[half:]))
            self._break(members, faults, callers * ops)
            self._settle(members)
        except BaseException as error:
            error.add_note(f"seed {self.seed}, after {', '.join(self.done)}\n{members.troubles()}")
            raise
        finally:
            members.stop()
            self._over.set()
            watching.join()
        return self._evidence()

    # --- breaking ---

    def _break(self, members: Members, faults: Sequence[str], ops: int) -> None:
        """Each fault when its share of the operations has been answered; what is left when all are, at the end."""
        give_up = time.monotonic() + 60 * MINUTES_MAX
        left = list(faults)
        while members.of("caller"):
            members.mend()
            made = len(self.done)
            answered = len({line.op for line in read(self.folder) if line.what is What.ANSWERED and line.settled})
            if left and answered * (len(faults) + 1) >= made * ops:
                self._make(left.pop(0), members)
            if time.monotonic() > give_up:
                raise TimeoutError(f"{answered} of {ops} operations were answered")
            time.sleep(LOOK_S)
            members.mend()
        for fault in left:
            self._make(fault, members)

    def _make(self, fault: str, members: Members) -> None:
        self.done.append(fault)
        getattr(self, f"_{fault}")(members)

    def _kill_worker(self, members: Members) -> None:
        if running := members.of("worker"):
            members.kill(self.chance.choice(running))

    def _kill_caller(self, members: Members) -> None:
        if running := members.of("caller"):
            members.kill(self.chance.choice(running))

    def _kill_sequencer(self, members: Members) -> None:
        """Whoever holds the lock of those who give places, found by the server's process that its line leads to."""
        assert self.server is not None
        give_up = time.monotonic() + SEQUENCER_SOUGHT_S
        while time.monotonic() < give_up:
            with suppress(Exception):
                holders = set(self.server.run(HOLDERS)[0] or ())
                for member in members.everybody():
                    if member.link is not None and holders & member.link.backends:
                        members.kill(member)
                        return
        self.done[-1] += " (none was seen)"

    def _kill_database(self, members: Members) -> None:
        assert self.server is not None
        database.crash(self.server)

    def _cut(self, members: Members) -> None:
        for link in self._some(members):
            link.cut()

    def _slow(self, members: Members) -> None:
        for link in self._some(members):
            link.slow(0.0 if link.is_slow else SLOW_S)

    def _silence(self, members: Members) -> None:
        """Nothing is heard for a while, and then the connections end."""
        silent = self._some(members)
        for link in silent:
            link.silence()
        time.sleep(SILENT_S)
        for link in silent:
            link.cut()
            link.speak()

    def _some(self, members: Members) -> list[Link]:
        links = members.links()
        return self.chance.sample(links, max(1, len(links) // 2)) if links else []

    # --- watching, settling, looking ---

    def _watch(self) -> None:
        """Takes down each checkpoint that is published, as anybody may."""
        store: LedgerStore | None = None
        while not self._over.is_set():
            with suppress(StoreError):
                store = store or bootstrap.store(self.url(None), read_only=True)
                self._see(store)
            self._over.wait(LOOK_S)
        if store is not None:
            store.close()

    def _see(self, store: LedgerStore) -> None:
        head = store.checkpoint()
        if head is not None:
            signed = open_checkpoint(head.note, [self._authority.key], self._authority.check)
            self._heads.add(Head(signed.checkpoint.size, signed.checkpoint.root))

    def _settle(self, members: Members) -> None:
        """The lines are mended; all processes are ended where they are, and one that nothing happens to goes on."""
        members.stop()
        order = Order("worker", "last", self.url(None), str(self.folder))
        with Readback.open(
            order.url, tenant=TENANT, principal="agent:last", actions=[send], seal=seal_of(order)
        ) as rb:  # fmt: skip
            asyncio.run(_until_idle(worker_of(rb._session, until_idle=True)))

    def _evidence(self) -> Evidence:
        store = bootstrap.store(self.url(None))
        try:
            while store.assign_sequence_numbers(10_000):
                pass
            report = audit(store, authority=self._authority)
            assert report.ok, (self.seed, self.done, report.faults)
            self._see(store)
            entries = [Entry(each.seq, each.action_id, each.version, each.leaf) for each in store.scan()]
            actions = [
                Ended(p.action_id, p.operation, p.stamp, p.state, _is_over(p))
                for p in (stored.projection for stored in store.projections())
            ]
        finally:
            store.close()
        effects: list[Effect] = Here.record.everything()
        return Evidence(read(self.folder), effects, entries, actions, sorted(self._heads, key=lambda head: head.size))


async def _until_idle(worker: Worker) -> None:
    """For so long at most: what is open then is for the checker to name."""
    with suppress(TimeoutError):
        await asyncio.wait_for(worker.stay(), SETTLED_WITHIN_S)


def _is_over(last: Projection) -> bool:
    """Ended, a person's, or of unknown outcome: that is looked at for as long as something may land."""
    state = State(last.state)
    return state in TERMINAL or bool(last.hold) or (state is State.UNKNOWN and last.due_us is not None)


def told(found: Evidence) -> dict[str, Json]:
    """What a drill came to, in a few figures."""
    states: dict[str, Json] = {}
    for action in found.actions:
        before = states.get(action.state, 0)
        states[action.state] = (before if isinstance(before, int) else 0) + 1
    return {
        "operations": len({line.op for line in found.lines}), "effects": len(found.effects),
        "entries": len(found.entries), "heads": len(found.heads), "states": states,
        "refused": sum(line.what is What.REFUSED for line in found.lines),
    }  # fmt: skip
