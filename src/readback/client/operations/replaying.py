"""What command line and release gates share about replaying: a bundle's plan, chosen, and the replay itself.

A bundle is judged by the contract whose text it holds, compiled as it stands. Where that names Python callables, or
where somebody wants to know what a new version would have said, a loaded contract of the same name takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from readback.audit.record.bundle import Bundle, open_bundle
from readback.audit.replay.action import replay
from readback.canon import Json
from readback.contracts.recorded import recorded_plan
from readback.domain.records.replayed import Replayed
from readback.domain.recovery.table import RecoveryTable
from readback.engine.compiled_contract import CompiledContract
from readback.errors import BundleError
from readback.ports.predicates import PredicateEngine

PlanOf = Callable[[str], CompiledContract | None]


def nothing_loaded(name: str) -> CompiledContract | None:
    """No contracts were loaded."""
    return None


def replay_bundle(
    data: bytes,
    predicates: PredicateEngine,
    plans: PlanOf = nothing_loaded,
    table: RecoveryTable | None = None,
) -> Replayed:
    """Opens a bundle, every hash of it made again, and judges its action by the present logic.

    `plans`: loaded contracts by name; one that is there is taken in place of the recorded text. `table`: decides in
    place of the recorded ones. Raises BundleError for what is no bundle, or a damaged one.
    """
    bundle = open_bundle(data)
    return replay(bundle, _plan(bundle, predicates, plans), table)


def _plan(bundle: Bundle, predicates: PredicateEngine, plans: PlanOf) -> CompiledContract:
    proposal = bundle.entries[0].event
    loaded = plans(str(proposal.data.get("contract")))
    if loaded is not None:
        return loaded
    digest = proposal.refs.get("contract", "")
    body = bundle.json_of(digest)
    if not isinstance(body, dict):
        raise BundleError("The bundle does not hold its contract.")
    return recorded_plan(body, digest, _names(bundle, proposal.refs.get("request", "")), predicates)


def _names(bundle: Bundle, digest: str) -> tuple[str, ...]:
    """The arguments' names, as far as the request is there."""
    request = bundle.json_of(digest)
    asked: Mapping[str, Json] | Json = request.get("requested") if isinstance(request, dict) else None
    return tuple(asked) if isinstance(asked, dict) else ()
