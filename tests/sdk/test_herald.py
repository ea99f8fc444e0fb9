"""The herald: an incident is told after it is durable, at least once, and never at the cost of anything else."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from readback import bootstrap
from readback.domain.action import Action
from readback.domain.events import Event, EventKind, seal
from readback.domain.state import State
from readback.lifecycle.projection import projection_of
from readback.lifecycle.resume import fold
from readback.ports.sink import IncidentNotice
from readback.ports.store import Append, Incident, SealedEvent
from readback.sdk.herald import RETRY_FIRST_US, SWEEP_US, Herald
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore

US = 1_000_000


@dataclass
class Sink:
    """Takes what it is told, unless it is broken."""

    broken: bool = False
    told: list[IncidentNotice] = field(default_factory=list)
    asked: int = 0
    gate: threading.Event | None = None

    def tell(self, notice: IncidentNotice) -> None:
        self.asked += 1
        if self.gate is not None:
            self.gate.wait()
        if self.broken:
            raise RuntimeError("nobody home")
        self.told.append(notice)


def opened(action_id: str, tenant: str = "acme", cause: str = "") -> Append:
    """An append that opens an incident, as it would be made durable."""
    data = dict.fromkeys(
        ("principal", "contract", "contract_version", "contract_hash", "side_effect", "target", "operation"), "x"
    )
    data |= {"operation_kind": "set", "stamp": f"rb-{action_id}", "key_hash": action_id, "request_hash": "r"}
    event = Event(EventKind.PROPOSED, 1, (State.PROPOSED,), {**data, "context": {}}, {"request": "r", "contract": "c"})
    action = Action(action_id, tenant)
    envelope, leaf = seal(event, action_id, tenant, 1, "")
    action.apply(event, leaf.hex())
    incident = Incident(tenant, f"inc-{action_id}-1", cause or f"action:{action_id}:x", "high", action_id, 1)
    sealed = SealedEvent(event.kind.value, 1, envelope, leaf)
    return Append(action_id, tenant, 0, 0, (sealed,), projection_of(action), incidents=(incident,))


def kept(store: MemoryStore, action_id: str, tenant: str = "acme") -> Append:
    append = opened(action_id, tenant)
    store.append((append,))
    return append


def told_at(store: MemoryStore, incident_id: str) -> int:
    return next(i.told_us for i in store.incidents() if i.id == incident_id)


@pytest.mark.requirement("TRUTH-hold-incident", "STRATEGY-incident")
def test_an_incident_is_told_once_with_what_the_ledger_knows_of_its_action() -> None:
    store, runtime, sink = MemoryStore(), VirtualRuntime(), Sink()
    herald = Herald(store, runtime, (sink,))
    append = kept(store, "a1")
    herald.hear(append)
    herald.hear(append)
    assert herald.flush()
    herald.sweep()
    assert herald.flush()
    assert [(n.id, n.severity, n.contract, n.state) for n in sink.told] == [("inc-a1-1", "high", "x", "proposed")]
    assert told_at(store, "inc-a1-1") == runtime.now_us()
    assert fold(store.events("a1")) is not None


def test_an_append_without_an_incident_wakes_nobody() -> None:
    store, sink = MemoryStore(), Sink()
    herald = Herald(store, VirtualRuntime(), (sink,))
    kept(store, "a1")
    herald.hear(Append("a2", "acme", 0, 0, (), opened("a2").projection))
    assert herald.flush()
    assert sink.asked == 0


def test_a_sink_that_hangs_keeps_nobody_waiting_and_what_it_did_not_take_stays_untold() -> None:
    store, sink = MemoryStore(), Sink(gate=threading.Event())
    herald = Herald(store, VirtualRuntime(), (sink,))
    herald.hear(kept(store, "a1"))  # returns at once
    assert not herald.flush(0.05)
    assert told_at(store, "inc-a1-1") == 0
    assert sink.gate is not None
    sink.gate.set()
    assert herald.flush()
    assert told_at(store, "inc-a1-1") > 0


def test_a_dead_sink_is_asked_again_ever_more_seldom_and_takes_it_when_it_is_back() -> None:
    store, runtime, sink = MemoryStore(), VirtualRuntime(), Sink(broken=True)
    herald = Herald(store, runtime, (sink,))
    herald.hear(kept(store, "a1"))
    assert herald.flush()
    asked = []
    for _ in range(40):
        runtime.advance(SWEEP_US / US)
        herald.sweep()
        assert herald.flush()
        asked.append(sink.asked)
    assert told_at(store, "inc-a1-1") == 0
    assert asked[0] == 2
    assert 5 <= asked[-1] <= 8  # 5, 10, 20, 40, 80 s ... and not forty times
    assert RETRY_FIRST_US == SWEEP_US
    sink.broken = False
    runtime.advance(600)
    herald.sweep()
    assert herald.flush()
    assert [n.id for n in sink.told] == ["inc-a1-1"]


def test_the_next_process_tells_what_the_first_one_did_not() -> None:
    store, runtime = MemoryStore(), VirtualRuntime()
    dead = Herald(store, runtime, (Sink(broken=True),))
    dead.hear(kept(store, "a1"))
    kept(store, "b1", "globex")
    dead.close()
    sink = Sink()
    herald = Herald(store, runtime.sibling("virtual/2"), (sink,))
    herald.sweep("acme")
    assert herald.flush()
    assert [n.tenant for n in sink.told] == ["acme"]
    runtime.advance(SWEEP_US / US)
    herald.sweep()
    assert herald.flush()
    assert [n.tenant for n in sink.told] == ["acme", "globex"]


def test_every_sink_has_to_take_it() -> None:
    store, runtime, first, second = MemoryStore(), VirtualRuntime(), Sink(), Sink(broken=True)
    herald = Herald(store, runtime, (first, second))
    herald.hear(kept(store, "a1"))
    assert herald.flush()
    assert (len(first.told), told_at(store, "inc-a1-1")) == (1, 0)


def test_a_sweep_looks_no_more_often_than_it_has_to() -> None:
    store, runtime, sink = MemoryStore(), VirtualRuntime(), Sink(broken=True)
    herald = Herald(store, runtime, (sink,))
    kept(store, "a1")
    for _ in range(10):
        herald.sweep()
        assert herald.flush()
    assert sink.asked == 1


def test_a_closed_herald_tells_nothing_more() -> None:
    store, sink = MemoryStore(), Sink()
    herald = Herald(store, VirtualRuntime(), (sink,))
    herald.close()
    herald.hear(kept(store, "a1"))
    assert herald.flush()
    assert sink.asked == 0


@pytest.mark.parametrize("sinks", [(), (Sink(broken=True),)])
def test_without_a_sink_or_with_a_dead_one_it_goes_to_the_file_beside_the_ledger(
    tmp_path: Path, sinks: tuple[Sink, ...]
) -> None:
    store = bootstrap.store(f"sqlite:///{tmp_path / 'readback.db'}")
    herald = Herald(store, VirtualRuntime(), sinks)
    append = opened("a1")
    store.append((append,))
    herald.hear(append)
    assert herald.flush()
    lines = (tmp_path / "readback.db.incidents.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["inc-a1-1"]
    assert bool(store.incidents()[0].told_us) is not bool(sinks)  # a dead sink is asked again
    herald.close()
    store.close()
