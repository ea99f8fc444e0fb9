"""The canary's records: every step and every verdict is an action of Readback, in the examined ledger.

A verdict is written once: the operation names the canary and the judged entry, and the idempotency key keeps a second
verdict out. The request holds the candidate's verdict, and the reading is the incumbent's durable entry. After a crash
the same operation joins the same action. Every release with actions reads the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from readback.assurance.canary.tally import CanaryRun, CanaryVerdict, Comparison, tally_of
from readback.assurance.canary.terms import CanaryTerms
from readback.canon import Json, parse_json
from readback.canon.frozen import dataclass
from readback.client.authoring.action import ActionDefinition, action
from readback.client.client import Readback
from readback.client.session import Session
from readback.domain.context import Context
from readback.domain.events import open_envelope
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verification.reading import Reading
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import coordinator
from readback.engine.compiled_contract import CompiledContract
from readback.errors import StoreCorruptError
from readback.ports.storage.store import ActionFilter, LedgerStore, StoredProjection

STEP: Final = "readback.canary"
VERDICT: Final = "readback.canary.verdict"
OWN: Final = frozenset({STEP, VERDICT})
PRINCIPAL: Final = "readback:canary"
PAGE: Final = 256
STARTED, STOPPED = "started", "stopped"
STEPS_MAX: Final = 64
"""How many starts and stops to search for the canary of a contract."""


@dataclass(frozen=True, slots=True)
class CanaryState:
    """The newest step of a ledger's canary. `record`: the id of the step's action."""

    record: str
    running: bool
    terms: CanaryTerms
    reason: str = ""
    began_seq: int = 0
    """The position of the start in the log; 0 for a stop, or without a position yet."""

    @property
    def id(self) -> str:
        return self.terms.id


Opened = Session | Readback
"""An open ledger: a client, or the session."""


def session_of(opened: Opened) -> Session:
    """Return the session of an open ledger."""
    return opened if isinstance(opened, Session) else opened._session  # noqa: SLF001 - of the same library


class CanaryRecords:
    """Writes and reads a canary's records. Use an object for each thread."""

    def __init__(self, opened: Opened) -> None:
        self._session = session = session_of(opened)
        self._driver = SyncDriver(session.store, session.runtime, session.courier)
        step, verdict = _step_action(session.store), _verdict_action(session.store)
        self._step, self._verdict = step, verdict
        self._plans: dict[str, CompiledContract] = {STEP: step.plan, VERDICT: verdict.plan}

    # --- steps ---

    def start(self, terms: CanaryTerms) -> CanaryState:
        """Record a start. The same terms after the same record are one start."""
        self._run(self._step(what=STARTED, canary=terms.id, terms=terms.as_json(), reason=""), f"start {terms.id}")
        return self._present()

    def stop(self, state: CanaryState, reason: str) -> CanaryState:
        """Record a stop. A second stop of the same canary is the first one."""
        terms = state.terms.as_json()
        self._run(self._step(what=STOPPED, canary=state.id, terms=terms, reason=reason), f"stop {state.id}")
        return self._present()

    def state(self) -> CanaryState | None:
        """Return the newest step; None for a ledger without a canary."""
        found = next(self._actions(STEP, "", ""), None)
        if found is None:
            return None
        asked, seq = self._asked(found)
        return CanaryState(
            found.projection.action_id,
            asked["what"] == STARTED,
            CanaryTerms.from_json(asked["terms"]),
            str(asked["reason"]),
            seq,
        )

    def steps(self) -> Iterator[CanaryState]:
        """Yield all steps, newest first."""
        for found in self._actions(STEP, "", ""):
            asked, seq = self._asked(found)
            terms = CanaryTerms.from_json(asked["terms"])
            yield CanaryState(found.projection.action_id, asked["what"] == STARTED, terms, str(asked["reason"]), seq)

    def _present(self) -> CanaryState:
        found = self.state()
        assert found is not None
        return found

    # --- verdicts ---

    def write(self, canary: str, one: CanaryVerdict) -> Outcome:
        """Record one verdict, once."""
        proposal = self._verdict(
            canary=canary,
            action=one.action_id,
            contract=one.contract,
            entry=one.entry,
            leaf=one.leaf,
            decided_by=one.decided_by,
            comparison=one.comparison.value,
            incumbent=dict(one.incumbent),
            candidate=dict(one.candidate),
            error=one.error,
        )
        times: dict[str, Json] = {"candidate_us": one.candidate_us, "incumbent_us": one.incumbent_us}
        return self._run(proposal, f"{canary} {one.leaf}", one.tenant, canary, times)

    def verdicts(self, canary: str) -> Iterator[CanaryVerdict]:
        """Yield the recorded verdicts of a canary, of all tenants, newest first."""
        for found in self._actions(VERDICT, "", canary):
            if found.projection.state != State.RECONCILED_SUCCESS.value:
                continue  # interrupted: the follower completes the record
            asked, _ = self._asked(found)
            yield _verdict_of(asked, found.projection.tenant)

    # --- inside ---

    def _run(
        self, proposal: Any, operation: str, tenant: str = "", run: str = "", times: Mapping[str, Json] | None = None
    ) -> Outcome:
        s = self._session
        scope = replace(s.scope, tenant=tenant or s.scope.tenant, principal=PRINCIPAL, run=run)
        request = proposal.request(operation, "", times, "", ())
        proposal.mark_run()
        work = coordinator.begin(s.engine, request, scope, self._plans.get, coordinator.ActionHandle())
        told = self._driver.drive(work)
        if isinstance(told, Parked):  # pragma: no cover - a drive without a limit does not park
            raise StoreCorruptError("A canary's record did not settle.")
        return told

    def _actions(self, contract: str, tenant: str, run: str) -> Iterator[StoredProjection]:
        before = ""
        while True:
            page = self._session.store.page(
                ActionFilter(tenant, contract=contract, run=run, before_id=before, limit=PAGE)
            )
            yield from page
            if len(page) < PAGE:
                return
            before = page[-1].projection.action_id

    def _asked(self, found: StoredProjection) -> tuple[Mapping[str, Json], int]:
        """Return the request of a record, with its times, and the position of its first entry."""
        store, p = self._session.store, found.projection
        first = store.events(p.action_id)[0]
        digest = open_envelope(first.envelope).event.refs.get("request", "")
        held = store.evidence(p.tenant, p.action_id, digest)
        body = parse_json(held.body) if held is not None else None
        if not isinstance(body, dict) or not isinstance(body.get("requested"), dict):
            raise StoreCorruptError(f"The canary's record {p.action_id} lacks its request.")
        requested = body["requested"]
        assert isinstance(requested, dict)
        return {**requested, "times": body.get("intended")}, first.seq


def runs_of(records: CanaryRecords) -> list[CanaryRun]:
    """Return the canaries of a ledger, newest first, each once."""
    found: dict[str, CanaryRun] = {}
    reasons: dict[str, str] = {}
    for number, step in enumerate(records.steps()):
        if number >= STEPS_MAX:
            break
        if not step.running:
            reasons[step.id] = step.reason
        elif step.id not in found:
            tally = tally_of(records.verdicts(step.id))
            found[step.id] = CanaryRun(step.id, step.terms, tally, reasons.get(step.id, ""))
    return list(found.values())


def _verdict_of(asked: Mapping[str, Json], tenant: str) -> CanaryVerdict:
    times = asked.get("times")
    spent: Mapping[str, Json] = times if isinstance(times, dict) else {}
    entry, incumbent, candidate = asked["entry"], asked["incumbent"], asked["candidate"]
    assert isinstance(entry, int)
    assert isinstance(incumbent, dict)
    assert isinstance(candidate, dict)
    return CanaryVerdict(
        str(asked["action"]),
        tenant,
        str(asked["contract"]),
        entry,
        str(asked["leaf"]),
        str(asked["decided_by"]),
        Comparison(str(asked["comparison"])),
        incumbent,
        candidate,
        _whole(spent.get("candidate_us")),
        _whole(spent.get("incumbent_us")),
        str(asked["error"]),
    )


def _whole(raw: Json) -> int:
    return raw if isinstance(raw, int) else 0


def _step_action(store: LedgerStore) -> ActionDefinition[Any]:
    """The record of a start or a stop: the terms are their own hash."""

    @action(
        name=STEP,
        kind="read",
        side_effect="read_only",
        target="canary/{requested.canary}",
        identity={"target": "authoritative.canary", "tenant": "authoritative.tenant"},
        ensure={"these terms": "authoritative.canary == requested.canary"},
    )
    def note_step(what: str, canary: str, terms: dict[str, Any], reason: str) -> dict[str, Any]:
        return {"noted": what}

    @note_step.read(source="the terms", consistency="strong", independence="other_client")
    def recompute(ctx: Context, what: str, canary: str, terms: dict[str, Any], reason: str) -> Reading:
        return Reading.of({"canary": CanaryTerms.from_json(terms).id, "tenant": ctx.tenant})

    return note_step


def _verdict_action(store: LedgerStore) -> ActionDefinition[Any]:
    """The record of both verdicts: the candidate's as the request, the incumbent's as read from the ledger."""

    @action(
        name=VERDICT,
        kind="read",
        side_effect="read_only",
        target="entry/{requested.leaf}",
        identity={"target": "authoritative.leaf", "tenant": "authoritative.tenant"},
        ensure={
            "the entry is durable": "authoritative.leaf == requested.leaf",
            "the verdict is the entry's": "authoritative.verdict == requested.incumbent.verdict",
        },
    )
    def note_verdict(
        canary: str,
        action: str,
        contract: str,
        entry: int,
        leaf: str,
        decided_by: str,
        comparison: str,
        incumbent: dict[str, Any],
        candidate: dict[str, Any],
        error: str,
    ) -> dict[str, Any]:
        return {"noted": comparison}

    @note_verdict.read(source="the ledger", consistency="strong", independence="other_client")
    def judged_entry(
        ctx: Context,
        canary: str,
        action: str,
        contract: str,
        entry: int,
        leaf: str,
        decided_by: str,
        comparison: str,
        incumbent: dict[str, Any],
        candidate: dict[str, Any],
        error: str,
    ) -> Reading:
        stored = next((each for each in store.events(action) if each.version == entry), None)
        if stored is None:
            return Reading.absent()
        opened = open_envelope(stored.envelope)
        value: dict[str, Any] = {"leaf": stored.leaf.hex(), "tenant": opened.tenant, "kind": opened.event.kind.value}
        return Reading.of({**value, "verdict": opened.event.data.get("verdict", "")})

    return note_verdict
