"""Replay, for the command line and release gates: the choice of a bundle's plan, and the replay itself.

A bundle is judged by the contract recorded in the bundle, compiled as written. A loaded contract of the same name
replaces the recorded one where the recorded text names Python callables, or to test a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from readback.audit.record.bundle import Bundle, open_bundle
from readback.audit.replay.action import replay
from readback.canon import Json
from readback.contracts.recorded import recorded_plan
from readback.domain.records.replayed import ReplayResult
from readback.domain.recovery.table import RecoveryTable
from readback.engine.compiled_contract import CompiledContract
from readback.errors import BundleError
from readback.ports.predicates import PredicateEngine

PlanOf = Callable[[str], CompiledContract | None]


def nothing_loaded(name: str) -> CompiledContract | None:
    """The empty set of contracts."""
    return None


def replay_bundle(
    data: bytes,
    predicates: PredicateEngine,
    plans: PlanOf = nothing_loaded,
    table: RecoveryTable | None = None,
) -> ReplayResult:
    """Open a bundle, compute every hash again, and judge the action by the present logic.

    `plans`: loaded contracts by name; a loaded contract replaces the recorded text. `table`: replaces the recorded
    tables. Raises BundleError for a damaged bundle or another file.
    """
    bundle = open_bundle(data)
    return replay(bundle, _plan(bundle, predicates, plans), table)


def _plan(bundle: Bundle, predicates: PredicateEngine, plans: PlanOf) -> CompiledContract:
    loaded = plans(str(bundle.entries[0].event.data.get("contract")))
    return loaded if loaded is not None else recorded_plan_of(bundle, predicates)


def recorded_plan_of(bundle: Bundle, predicates: PredicateEngine) -> CompiledContract:
    """Return the contract recorded in a bundle, compiled as written. Raises BundleError."""
    proposal = bundle.entries[0].event
    digest = proposal.refs.get("contract", "")
    body = bundle.json_of(digest)
    if not isinstance(body, dict):
        raise BundleError("The bundle does not contain its contract.")
    return recorded_plan(body, digest, _names(bundle, proposal.refs.get("request", "")), predicates)


def _names(bundle: Bundle, digest: str) -> tuple[str, ...]:
    """Return the arguments' names, as far as the bundle has the request."""
    request = bundle.json_of(digest)
    asked: Mapping[str, Json] | Json = request.get("requested") if isinstance(request, dict) else None
    return tuple(asked) if isinstance(asked, dict) else ()
