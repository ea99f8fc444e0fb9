"""The second stage of a canary: the candidate decides for new actions of the subset.

A session asks before the attempt of a new action. An action keeps its first contract version, so a canary that stops
changes no action in flight. Outside the subset, and without a running second stage, the incumbent decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.assurance.canary.records import CanaryRecords, CanaryState, Opened, session_of
from readback.assurance.canary.terms import CandidateDiffersError, Stage
from readback.engine.compiled_contract import CompiledContract

LOOK_US: Final = 1_000_000
"""How often to look for a stop, in microseconds. An action within this time may still be the candidate's."""


class CandidateChooser:
    """Chooses the contract version of each new action. Raises CandidateDiffersError at its creation."""

    def __init__(self, ledger: Opened, candidate: Mapping[str, CompiledContract]) -> None:
        self._session, self._candidate = session_of(ledger), dict(candidate)
        self._records = CanaryRecords(ledger)
        self._state: CanaryState | None = None
        self._looked_us = -LOOK_US
        state = self._present()
        if state is not None:
            for name, digest in state.terms.contracts.items():
                plan = self._candidate.get(name)
                if plan is None or plan.contract.hash != digest:
                    raise CandidateDiffersError(f"The loaded candidate {name!r} is not the one of canary {state.id}.")

    def choose(self, incumbent: CompiledContract, tenant: str, target: str) -> CompiledContract:
        """Return the version in force for a new action of this tenant and target."""
        candidate = self._candidate.get(incumbent.contract.name)
        if candidate is None:
            return incumbent
        state = self._present()
        if state is None or not state.running or state.terms.stage is not Stage.DECIDE:
            return incumbent
        terms = state.terms
        known = terms.incumbents.get(incumbent.contract.name) == incumbent.contract.hash
        same = terms.contracts.get(incumbent.contract.name) == candidate.contract.hash
        return candidate if known and same and terms.covers(tenant, target) else incumbent

    def _present(self) -> CanaryState | None:
        now_us = self._session.runtime.now_us()
        if not 0 <= now_us - self._looked_us < LOOK_US:
            self._looked_us, self._state = now_us, self._records.state()
        return self._state


def decide_by_candidate(ledger: Opened, candidate: Mapping[str, CompiledContract]) -> CandidateChooser:
    """Let the running canary's second stage choose the contract version of this session's new actions.

    The candidate is remembered by hash, so that the session can go on with its actions. Raises CandidateDiffersError.
    """
    chooser, session = CandidateChooser(ledger, candidate), session_of(ledger)
    for plan in candidate.values():
        session.remember(plan)
    session.chooser = chooser.choose
    return chooser
