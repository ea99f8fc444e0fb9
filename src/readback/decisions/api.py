"""Decisions by envelope: a decision type, loaded and enforced around one action of Readback.

`DecisionType.load` reads the envelope and its verifiers. `begin` starts the clock of one decision. After `context` and
`planned` the decision ends once, with `act`, `abstain` or `bypass`. The action runs through the client under its
contract, narrowed by the envelope. The result is a sealed episode with drift events. The client's clock measures time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from readback.agent_errors import DecisionOrderError
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.client.async_client import AsyncReadback
from readback.client.client import Readback
from readback.client.proposal import Proposal
from readback.decisions.contracts.binding import bound, target_of
from readback.decisions.contracts.document import FILE_MAX_BYTES
from readback.decisions.contracts.load import LoadedEnvelope, load_envelope
from readback.decisions.flow import gates, ladder
from readback.decisions.flow import gates as input_checks
from readback.decisions.flow.drifts import drifts_of
from readback.decisions.flow.gates import Asked
from readback.decisions.flow.ladder import Degraded, Judged, Reason, ended, judged
from readback.decisions.flow.record import Actor, Facts, Planned, action_of, episode_of
from readback.decisions.interop.run_folder import read_given
from readback.decisions.model.drift import Drift, written_moment
from readback.decisions.model.envelope import Counts, Envelope, Snapshot, Violation
from readback.decisions.model.seals import sealed
from readback.decisions.model.words import (
    FALLBACKS,
    MS_US,
    BlastRadius,
    DecisionEnd,
    DegradeStep,
    Stage,
    VerificationResultWord,
)
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import EXIT_FAILED, EXIT_HELD
from readback.engine.compiled_contract import CompiledContract
from readback.errors import LimitError, SettingsError
from readback.traces import TraceError

__all__ = ["Actor", "Counts", "Decided", "Decision", "DecisionType", "Snapshot"]

SAMPLES_MAX: Final = 1_024
PLANS_MAX: Final = 256
PLANNERS: Final = ("llm", "rules", "hybrid")
ACTORS: Final = ("agent", "human", "system")
Client = Readback | AsyncReadback


@dataclass(frozen=True, slots=True)
class Decided:
    """The result of a decision. `episode` is sealed. `outcome` is None if nothing was executed.

    Attributes:
        proceed: Whether the action was verified in time. Dependent work may start only then.
    """

    episode: Mapping[str, Json]
    drifts: tuple[Drift, ...]
    violations: tuple[Violation, ...]
    verification: VerificationResultWord
    degraded: Degraded
    outcome: Outcome | None = None

    @property
    def proceed(self) -> bool:
        """Whether the verification passed."""
        return self.verification is VerificationResultWord.PASS

    @property
    def exit_code(self) -> int:
        """The command line's exit code: the outcome's code, and never 0 without a pass."""
        if self.outcome is None:
            return EXIT_HELD if self.degraded.rung is DegradeStep.HITL else EXIT_FAILED
        if self.outcome.exit_code == 0 and not self.proceed:
            return 3
        return self.outcome.exit_code

    def as_json(self) -> dict[str, Json]:
        """Return plain data for `--json` and for programs."""
        return {
            "proceed": self.proceed,
            "verification": self.verification.value,
            "degrade": self.degraded.word,
            "episode": dict(self.episode),
            "drifts": [each.as_json() for each in self.drifts],
            "outcome": None if self.outcome is None else self.outcome.as_json(),
            "exit_code": self.exit_code,
        }


@dataclass(slots=True)
class DecisionType:
    """An enforced envelope with its verifiers. Use it for any number of decisions."""

    loaded: LoadedEnvelope
    samples_ms: deque[int] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    """The durations of decisions in this process, for the telemetry of later decisions."""
    _plans: dict[str, tuple[CompiledContract, CompiledContract]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verifiers: str | os.PathLike[str] | None = None) -> DecisionType:
        """Load the envelope of a file (YAML by its name, else JSON).

        `verifiers` is the folder of custom verifiers. Raises EnvelopeError with every fault at once, and SettingsError
        for an unreadable file.
        """
        folder = None if verifiers is None else Path(verifiers)
        if folder is not None and not os.path.isdir(folder):
            raise SettingsError(f"{os.fspath(folder)!r} is no folder of verifiers.", remedy="Name the folder.")
        return cls(load_envelope(envelope_file(path), os.fspath(path), folder))

    @property
    def envelope(self) -> Envelope:
        """The bounds of the decision."""
        return self.loaded.envelope

    def plan_of(self, plan: CompiledContract) -> CompiledContract:
        """Return the contract of an action under this envelope. Raises BindingError with every missing part."""
        known = self._plans.get(plan.contract.hash)
        if known is None or known[0] is not plan:
            while len(self._plans) >= PLANS_MAX:
                del self._plans[next(iter(self._plans))]
            known = self._plans[plan.contract.hash] = (plan, bound(plan, self.loaded))
        return known[1]

    def begin(
        self, client: Client, *, actor: Actor | None = None, spent_ms: Mapping[Stage, int] | None = None
    ) -> Decision:
        """Start the clock of one decision.

        Args:
            actor: The deciding actor. The default is the client's principal as an agent.
            spent_ms: The time already spent on context and plan elsewhere, in milliseconds.
        """
        session = client._session  # noqa: SLF001 - of the same room
        session.check_open()
        actor = actor or Actor("agent", session.scope.principal)
        if actor.type not in ACTORS:
            raise DecisionOrderError(
                f"{actor.type!r:.40} is no type of actor.", remedy=f"Use one of {', '.join(ACTORS)}."
            )
        for each in (actor.id, actor.version):
            input_checks.check_text(each, "actor")
        spent = input_checks.spent_of(spent_ms or {})
        return Decision(self, client, actor, spent)


def envelope_file(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a regular file. Raises SettingsError."""
    try:
        return read_given(Path(path), FILE_MAX_BYTES, "envelope")
    except TraceError as error:
        raise SettingsError(error.message, remedy="Name a file that can be read.") from error


class Bound:
    """An action under an envelope, as the definition of a proposal."""

    def __init__(self, name: str, plan: CompiledContract) -> None:
        self.name = name
        self.plan = plan


class Decision:
    """One decision, from its start to its sealed episode. Do not share a decision between threads."""

    def __init__(self, kind: DecisionType, client: Client, actor: Actor, spent_ms: Mapping[Stage, int]) -> None:
        self._kind, self._client, self._actor = kind, client, actor
        self._runtime = client._session.runtime  # noqa: SLF001 - of the same room
        self._stages = {stage: took * MS_US for stage, took in spent_ms.items()}
        self._stage_us = self._runtime.now_us()
        self._started_us = self._stage_us - sum(self._stages.values())
        self._snapshot: Snapshot | None = None
        self._captured_us = 0
        self._planned: Planned | None = None
        self._fallback: DegradeStep | None = None
        self._over = False

    # --- the stages before the action ---

    def context(self, snapshot: Snapshot) -> None:
        """Record the gathered context. From here on our clock adds to the age of each feature."""
        if self._snapshot is not None or self._over:
            raise DecisionOrderError("This decision already has a context.")
        input_checks.check_snapshot(snapshot)
        self._snapshot, self._captured_us = snapshot, self._mark(Stage.CONTEXT)

    def planned(self, summary: str, *, planner: str = "rules", ref: str = "", fallback: str = "") -> None:
        """Record the plan. `fallback` names the ladder's step of a faster plan. A decision may be planned again."""
        if self._snapshot is None or self._over:
            raise DecisionOrderError("Before the plan comes the context.")
        input_checks.check_text(summary, "summary")
        input_checks.check_text(ref, "ref")
        if planner not in PLANNERS:
            raise DecisionOrderError(f"{planner!r:.40} is no planner.", remedy=f"One of {', '.join(PLANNERS)}.")
        if fallback:
            words = [rung.value for rung in FALLBACKS if self._kind.envelope.step(rung) is not None]
            if fallback not in words:
                said = f"The ladder has no step {fallback!r:.40} for a plan."
                raise DecisionOrderError(said, remedy=f"It has: {', '.join(sorted(words)) or 'none'}.")
            self._fallback = DegradeStep(fallback)
        self._planned = Planned(planner, summary, ref)
        self._mark(Stage.PLAN)

    # --- its end ---

    def act(
        self,
        proposal: Proposal,
        *,
        counts: Counts,
        operation: str | None = None,
        tier: str | None = None,
    ) -> Decided | None:
        """Run the action if every gate passes, and seal the episode. Use this with a `Readback` client.

        Args:
            counts: The resources used by the decision.
            operation: The name of the intent.
            tier: The blast radius declared by the proposer. The contract's class limits the declaration.

        Returns:
            The result, or None if too little time is left for the plan. Then plan again by `needed_step`, and call
            `act` again.

        Raises:
            BindingError: The contract lacks a part.
            ReadbackError: Any error of `run`.
        """
        assert isinstance(self._client, Readback)
        ready = self._admit(proposal, counts, operation, tier)
        if not isinstance(ready, _Ready):
            return ready
        called_us = self._runtime.now_us()
        try:
            outcome = self._client.run(ready.proposal, operation=operation, wait=0)
            left = self._left_seconds(outcome, called_us)
            if left > 0:
                outcome = self._client.wait(outcome.id, wait=left)
        except LimitError as error:
            return self._refused(ready.admitted, contended=error.message)
        return self._concluded(ready, outcome, called_us)

    async def act_async(
        self,
        proposal: Proposal,
        *,
        counts: Counts,
        operation: str | None = None,
        tier: str | None = None,
    ) -> Decided | None:
        """Run the action through an `AsyncReadback` client. See `act`."""
        assert isinstance(self._client, AsyncReadback)
        ready = self._admit(proposal, counts, operation, tier)
        if not isinstance(ready, _Ready):
            return ready
        called_us = self._runtime.now_us()
        try:
            outcome = await self._client.run(ready.proposal, operation=operation, wait=0)
            left = self._left_seconds(outcome, called_us)
            if left > 0:
                outcome = await self._client.wait(outcome.id, wait=left)
        except LimitError as error:
            return self._refused(ready.admitted, contended=error.message)
        return self._concluded(ready, outcome, called_us)

    def abstain(self, reason: str, *, counts: Counts) -> Decided:
        """End the decision without an action."""
        return self._ended_without(DegradeStep.ABSTAIN, DecisionEnd.ABSTAIN, reason, counts)

    def bypass(self, reason: str, *, counts: Counts) -> Decided:
        """End the decision without an action here, and record a bypass of the envelope.

        The ladder must have this step. Every bypass is reported, with red severity.
        """
        if self._kind.envelope.step(DegradeStep.BYPASS) is None:
            raise DecisionOrderError("The ladder of this decision type has no step 'bypass'.")
        return self._ended_without(DegradeStep.BYPASS, DecisionEnd.BYPASSED, reason, counts)

    @property
    def needed_step(self) -> str:
        """The ladder's step for a new plan now, or "" with enough time left."""
        found = ladder.before(self._kind.envelope, (), self._remaining_us(), self._fallback)
        return found.word if found.rung in FALLBACKS and self._fallback is None else ""

    # --- what is known ---

    def _admit(
        self, proposal: Proposal, counts: Counts, operation: str | None, tier: str | None
    ) -> _Ready | Decided | None:
        envelope = self._kind.envelope
        if self._planned is None or self._over:
            raise DecisionOrderError("A decision acts once, after its context and its plan.")
        input_checks.check_counts(counts)
        if tier is not None and tier not in [each.value for each in BlastRadius if each is not BlastRadius.NONE]:
            raise DecisionOrderError(f"{tier!r:.40} is no blast radius.", remedy="tiny, small, medium or large.")
        plan = proposal.definition.plan
        asked = Asked(plan.contract, bool(operation or proposal.operation), None if tier is None else BlastRadius(tier))
        elapsed_us = self._runtime.now_us() - self._started_us
        broken = [
            *gates.over_budgets(envelope, self._stages),
            *gates.over_time(envelope, elapsed_us, self._fallback),
            *gates.stale(envelope, self._ages_us(), asked.tier),
            *gates.over_limits(envelope, counts),
            *gates.unsafe(envelope, asked),
        ]
        degraded = ladder.before(envelope, broken, self._remaining_us(), self._fallback)
        admitted = _Admitted(plan, counts, tuple(broken), degraded)
        if degraded.reason is Reason.TIME and degraded.rung in FALLBACKS and self._fallback is None:
            return None
        proposal.mark_run()  # from here on the decision says what became of it
        if degraded.rung is not None and degraded.rung not in FALLBACKS:
            return self._refused(admitted)
        narrowed = self._kind.plan_of(plan)
        ready = proposal.under(Bound(plan.contract.name, narrowed))
        return _Ready(_Admitted(narrowed, counts, tuple(broken), degraded), ready)

    def _left_seconds(self, outcome: Outcome, called_us: int) -> float:
        """Return the remaining wait in seconds: up to the verification limit, or else to the deadline."""
        if outcome.settled or outcome.hold or not outcome.attempted:
            return 0.0
        timeout_ms = self._kind.envelope.verification.timeout_ms
        until_us = self._answered_us(outcome, called_us) + timeout_ms * MS_US
        if not timeout_ms:
            until_us = self._started_us + gates.deadline_us(self._kind.envelope, self._fallback)
        return max(until_us - self._runtime.now_us(), 0) / 1_000_000

    def _answered_us(self, outcome: Outcome, called_us: int) -> int:
        """Return the time of the tool's answer. A replay and a call without an answer give the time of the call."""
        seen = outcome.observation
        if outcome.replayed or seen is None or seen.at_us < called_us:
            return called_us
        return seen.at_us

    def _concluded(self, ready: _Ready, outcome: Outcome, called_us: int) -> Decided:
        now_us, answered_us = self._runtime.now_us(), self._answered_us(outcome, called_us)
        self._stages[Stage.ACT] = answered_us - self._stage_us
        self._stages[Stage.VERIFY] = now_us - answered_us
        envelope, admitted = self._kind.envelope, ready.admitted
        assert admitted.plan is not None
        found = judged(envelope, admitted.plan.contract, outcome, now_us - answered_us)
        late = {Stage.ACT: self._stages[Stage.ACT], Stage.VERIFY: self._stages[Stage.VERIFY]}
        broken = [
            *admitted.broken,
            *gates.over_budgets(envelope, late),
            *gates.over_time(envelope, now_us - self._started_us, self._fallback),
        ]
        degraded = ladder.after(envelope, found.said, admitted.degraded, held=bool(outcome.hold))
        reason = "" if found.said is VerificationResultWord.PASS else f"{found.said.value}: {found.reason}"
        return self._sealed(
            admitted,
            now_us,
            (ended(found.said, outcome), reason),
            degraded,
            tuple(broken),
            found,
            outcome,
        )

    def _refused(self, admitted: _Admitted, contended: str = "") -> Decided:
        said = contended or "; ".join(each.message for each in admitted.broken if each.hard)
        reason = said or f"degrade_step={admitted.degraded.word}"
        now_us, ending = self._runtime.now_us(), (DecisionEnd.ABSTAIN, reason)
        degraded = Degraded(DegradeStep.ABSTAIN, Reason.RULES, said=contended) if contended else admitted.degraded
        return self._sealed(admitted, now_us, ending, degraded, admitted.broken, contended=contended)

    def _ended_without(self, rung: DegradeStep, code: DecisionEnd, reason: str, counts: Counts) -> Decided:
        if self._over or self._planned is None:
            raise DecisionOrderError("A decision ends once, after its context and its plan.")
        input_checks.check_text(reason, "reason")
        input_checks.check_counts(counts)
        now_us = self._runtime.now_us()
        envelope = self._kind.envelope
        broken = (*gates.over_budgets(envelope, self._stages), *gates.over_limits(envelope, counts))
        degraded = Degraded(rung, Reason.CALLER, self._remaining_us(), reason)
        return self._sealed(_Admitted(None, counts, broken, degraded), now_us, (code, reason), degraded, broken)

    def _sealed(
        self,
        admitted: _Admitted,
        now_us: int,
        ending: tuple[DecisionEnd, str],
        degraded: Degraded,
        broken: tuple[Violation, ...],
        found: Judged | None = None,
        outcome: Outcome | None = None,
        contended: str = "",
    ) -> Decided:
        assert self._snapshot is not None
        assert self._planned is not None
        self._over = True
        envelope, samples = self._kind.envelope, self._kind.samples_ms
        samples.append((now_us - self._started_us) // MS_US)
        contract = admitted.plan.contract if admitted.plan is not None else None
        action = None
        if outcome is not None and outcome.attempted and contract is not None:
            action = action_of(outcome, contract, target_of(outcome.target, contract.name))
        facts = Facts(
            episode_id=f"ep_{outcome.id if outcome is not None else self._runtime.new_id()}",
            envelope=envelope,
            actor=self._actor,
            started_us=self._started_us,
            ended_us=now_us,
            snapshot=self._snapshot,
            captured_us=self._captured_us,
            oldest_us=max(self._ages_us().values(), default=0),
            planned=self._planned,
            counts=admitted.counts,
            stages_us=self._stages,
            ended=ending[0],
            reason=ending[1],
            degraded=degraded,
            broken=broken,
            action=action,
            contract=contract,
            judged=found,
            outcome=outcome,
            samples_ms=tuple(samples),
        )
        episode = sealed(episode_of(facts), written_moment(now_us))
        entry = outcome.ledger_entry if outcome is not None else ""
        evidence = (*self._snapshot.evidence, *((entry,) if entry else ()))
        drifts = tuple(
            each.of(
                decision_type=envelope.decision_type,
                version=envelope.version,
                episode_id=facts.episode_id,
                at_us=now_us,
                evidence=evidence,
            )
            for each in drifts_of(broken, (admitted.degraded, degraded), found, outcome, contended)
        )
        said = found.said if found is not None else VerificationResultWord.NA
        return Decided(episode, drifts, broken, said, degraded, outcome)

    def _mark(self, stage: Stage) -> int:
        """End the stage now. A repeated stage adds both durations."""
        now_us = self._runtime.now_us()
        self._stages[stage] = self._stages.get(stage, 0) + now_us - self._stage_us
        self._stage_us = now_us
        return now_us

    def _ages_us(self) -> dict[str, int]:
        """Return each feature's age: its recorded age plus the time since then."""
        assert self._snapshot is not None
        since_us = self._runtime.now_us() - self._captured_us
        return {name: age * MS_US + since_us if age >= 0 else -1 for name, age in self._snapshot.ages_ms.items()}

    def _remaining_us(self) -> int:
        elapsed_us = self._runtime.now_us() - self._started_us
        return gates.deadline_us(self._kind.envelope, self._fallback) - elapsed_us


@dataclass(frozen=True, slots=True)
class _Admitted:
    """The facts of an action before its run. `plan` is None without a plan."""

    plan: CompiledContract | None
    counts: Counts
    broken: tuple[Violation, ...]
    degraded: Degraded


@dataclass(frozen=True, slots=True)
class _Ready:
    """An action past the gates."""

    admitted: _Admitted
    proposal: Proposal
