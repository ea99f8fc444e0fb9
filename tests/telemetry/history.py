"""Hand-made histories: entries as the engine writes them, with times and results chosen by a test, in a real store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readback.canon import sha256_hex
from readback.domain.events import Event, EventKind, seal
from readback.domain.state import State
from readback.ports.storage.store import Append, Evidence, LedgerStore, SealedEvent
from readback.stores.sqlite import open_sqlite_store
from readback.testing.store_samples import sample_projection

S = 1_000_000
START_US = 1_767_268_800 * S
WITHIN_US = 10 * S
PLAIN_READ = {
    "reader": "row",
    "consistency": "strong",
    "independence": "other_client",
    "presence": "present",
    "complete": True,
    "withheld": False,
    "fault": "none",
    "error": "",
}


def contract_text(name: str, version: str) -> Evidence:
    body = f'{{"name":"{name}","version":"{version}","within_us":{WITHIN_US}}}'.encode()
    return Evidence(sha256_hex(body), "application/json", body)


@dataclass
class Told:
    """One action of a history. Each method appends one entry; `at` is in seconds after the start."""

    history: History
    id: str
    contract: str
    tenant: str
    kind: str = "create"
    version: int = 0
    head: str = ""
    state: str = "proposed"

    def entry(self, kind: EventKind, at: float, path: tuple[State, ...] = (), **data: Any) -> Told:
        refs = data.pop("refs", {})
        event = Event(kind, START_US + int(at * S), path, data, refs)
        self.version += 1
        envelope, leaf = seal(event, self.id, self.tenant, self.version, self.head)
        self.head = leaf.hex()
        self.state = path[-1].value if path else self.state
        text = self.history.texts.get(self.contract)
        evidence = (text,) if text is not None and self.version == 1 else ()
        summary = sample_projection(
            self.id,
            tenant=self.tenant,
            contract=self.contract,
            contract_hash="" if text is None else text.digest,
            state=self.state,
            kind=self.kind,
            stamp=self.id,
        )
        self.history.appends.append(
            Append(
                self.id,
                self.tenant,
                self.version - 1,
                self.history.fences.get(self.id, 0),
                (SealedEvent(event.kind.value, event.at_us, envelope, leaf),),
                summary,
                evidence,
            )
        )
        return self

    def attempt(self, at: float, number: int = 1) -> Told:
        path = (State.VALIDATED, State.EXECUTING) if number == 1 else (State.EXECUTING,)
        return self.entry(EventKind.ATTEMPTED, at, path, attempt=number, timeout=S, owner="o", honours_key=True)

    def observe(self, status: str, at: float, took: float = 0.5) -> Told:
        end = START_US + int(at * S)
        data = {"status": status, "started": end - int(took * S), "ended": end, "code": "http.200", "dispatched": True}
        return self.entry(EventKind.OBSERVED, at, **data, refs={"observation": "0" * 64})

    def read(self, at: float, source: str = "bank", role: str = "check", **more: Any) -> Told:
        end = START_US + int(at * S)
        data = {**PLAIN_READ, "source": source, "role": role, "started": end - S // 4, "finished": end, **more}
        return self.entry(EventKind.READ, at, **data)

    def judge(self, verdict: str, at: float, *path: State, **more: Any) -> Told:
        refs = more.pop("refs", {"judgement": "1" * 64})
        data = {"verdict": verdict, "why": "", "discrepancy": "", "finding": "", "review": "", **more}
        return self.entry(EventKind.JUDGED, at, path, **data, refs=refs)

    def done(self, at: float) -> Told:
        """Attempted, answered and verified within two seconds."""
        return self.attempt(at).observe("success", at + 1).read(at + 2).judge("verified", at + 2, *VERIFIED)


VERIFIED = (State.COMMITTED, State.RECONCILED_SUCCESS)


@dataclass
class History:
    """A ledger in the making."""

    appends: list[Append] = field(default_factory=list)
    texts: dict[str, Evidence] = field(default_factory=dict)
    fences: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def action(
        self, contract: str, at: float, *, kind: str = "create", version: str = "1", tenant: str = "acme", **more: Any
    ) -> Told:
        self.count += 1
        text = contract_text(contract, version)
        self.texts[contract] = text
        told = Told(self, f"01a{self.count:023d}", contract, tenant, kind)
        data = {
            "contract": contract,
            "contract_version": version,
            "contract_hash": text.digest,
            "operation_kind": kind,
            "side_effect": "read_only" if kind == "read" else "medium_risk_write",
            "principal": "agent:desk",
            "context": {"reverses": ""},
            "target": "order/1",
            "operation": f"{contract} {self.count}",
            **more,
        }
        refs = {"request": "2" * 64, "contract": text.digest}
        return told.entry(EventKind.PROPOSED, at, (State.PROPOSED,), **data, refs=refs)

    def saga(self, name: str, at: float) -> Told:
        self.count += 1
        told = Told(self, f"01a{self.count:023d}", name, "acme", "saga")
        data = {"name": name, "principal": "agent:desk", "operation": name, "steps": [], "context": {}}
        return told.entry(EventKind.SAGA_BEGUN, at, (State.PROPOSED, State.VALIDATED), **data)

    def write(self, store: LedgerStore, after: int = 0) -> int:
        """Append every entry from number `after` on. Return the number of entries."""
        for start in range(after, len(self.appends), 200):
            store.append(self.appends[start : start + 200])
        return len(self.appends)


OPENED: list[LedgerStore] = []
"""Stores of the running test; `conftest` closes them."""


def ledger(folder: Path, history: History) -> LedgerStore:
    """A real SQLite ledger with this history, closed after the test."""
    store = open_sqlite_store(f"sqlite:///{folder}/ledger.db")
    OPENED.append(store)
    history.write(store)
    return store


def nineteen() -> History:
    """A history with a known answer for each of the nineteen metrics. Each entry's comment names what it counts in."""
    told = History()
    told.action("pay", 0).attempt(0).observe("success", 1).read(2).judge("verified", 3, *VERIFIED)  # verdict after 2 s
    # A failed reading after the write, then a good one.
    second = told.action("pay", 10).attempt(10).observe("success", 11).read(11, presence="unavailable", fault="error")
    second.read(12).judge("verified", 12, *VERIFIED)
    # Refuted, and reversed with success.
    third = told.action("pay", 20).attempt(20).observe("success", 21).read(22)
    third.judge(
        "refuted", 22, State.COMMITTED, State.RECONCILIATION_FAILED, State.COMPENSATING, discrepancy="value_mismatch"
    )
    third.entry(EventKind.COMPENSATION, 25, (State.COMPENSATED,), how="compensation", action="x", state="")
    # A part of the effects, and a failed reversal: a person.
    fourth = told.action("pay", 30).attempt(30).observe("success", 31).read(32)
    path = (State.COMMITTED, State.PARTIALLY_COMMITTED, State.COMPENSATING)
    fourth.judge("refuted", 32, *path, discrepancy="partial_application")
    to_review = (State.COMPENSATION_FAILED, State.REVIEW_REQUIRED)
    fourth.entry(EventKind.COMPENSATION, 36, to_review, how="compensation", action="y", review="compensation_failed")
    # Unknown at the deadline: a person.
    fifth = told.action("pay", 40).attempt(40).observe("timeout", 41).read(42)
    fifth.judge(
        "undetermined",
        50,
        State.PENDING,
        State.VERIFICATION_TIMEOUT,
        State.UNKNOWN,
        why="timeout",
        review="unknown_state",
    )
    # A doubled effect: a person, and an incident.
    sixth = told.action("pay", 60).attempt(60).observe("success", 61).read(62)
    sixth.judge(
        "refuted", 62, State.COMMITTED, State.RECONCILIATION_FAILED, State.REVIEW_REQUIRED,
        discrepancy="duplicate_side_effect", review="duplicate_side_effect", severity="high", frozen_for="x",
    )  # fmt: skip
    # A lost answer, a second dispatch under the same key, one effect.
    seventh = told.action("pay", 70).attempt(70).observe("timeout", 71)
    seventh.attempt(72, 2).observe("success", 73).read(74).judge("verified", 75, *VERIFIED)
    # A concurrent change.
    eighth = told.action("pay", 80).attempt(80).observe("error", 81).read(82)
    eighth.judge("refuted", 82, State.PENDING, State.FAILED, discrepancy="stale_state")
    # Verified, and retracted later: a false success.
    ninth = told.action("pay", 90).done(90)
    ninth.entry(EventKind.CLAIM_CONTESTED, 95, claim="happened", reason="person")
    ninth.entry(EventKind.CLAIM_RETRACTED, 95, claim="happened", reason="person")
    # In the state of success without the verdict: a false success, told.
    told.action("pay", 100).attempt(100).observe("success", 101).judge("undetermined", 102, *VERIFIED, why="timeout")
    # Still pending: one past the window of ten seconds, one within.
    told.action("pay", 110).attempt(110).observe("accepted", 111).judge("undetermined", 112, State.PENDING)
    told.action("pay", 195).attempt(195).observe("accepted", 196).judge("undetermined", 197, State.PENDING)
    # Verified, and the judgement's evidence is missing in the ledger.
    last = told.action("pay", 120).attempt(120).entry(EventKind.RESUMED, 121, (State.UNKNOWN,), owner="p")
    last.read(122).judge("verified", 123, State.RECONCILED_SUCCESS, refs={})
    told.action("stock", 130, kind="read").done(130)
    # A saga with a part of the effects, reversed.
    trip = told.saga("trip", 140)
    trip.entry(EventKind.SAGA_STEP, 141, (State.EXECUTING,), what="begins", step="a", action="z")
    turned = (State.COMMITTED, State.PARTIALLY_COMMITTED, State.COMPENSATING)
    trip.entry(EventKind.SAGA_TURNED, 142, turned, to="backward", reason="step_failed")
    trip.entry(EventKind.SAGA_ENDED, 145, (State.COMPENSATED,), reason="", review="")
    # Twenty verdicts of each of two versions: one of twenty is refuted, then five of twenty.
    for number in range(40):
        one = told.action("mail", 150, version="1" if number < 20 else "2").attempt(150).observe("success", 151)
        if number in (3, 21, 25, 29, 33, 37):
            one.judge("refuted", 152, State.COMMITTED, State.RECONCILIATION_FAILED, State.FAILED)
        else:
            one.judge("verified", 152, *VERIFIED)
    return told


NOW_US = START_US + 200 * S
