"""What the tests of decision types share: an envelope to change, the desk of the client tests, and one decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from readback import Readback
from readback.client.authoring.action import ActionDefinition
from readback.decisions.api import Decided, DecisionType
from readback.decisions.model.envelope import Counts, Snapshot
from readback.testing.runtime_virtual import VirtualRuntime
from tests.sdk.given import Desk, opened, ship_of

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
ABSENT = pytest.mark.skipif(not CORPUS.is_dir(), reason="SKIPPED ALOUD: the corpus is not beside this checkout")
COUNTS = Counts(hops=1, fanout=1, tool_calls=1, chain_depth=1)
ENVELOPE: dict[str, Any] = {
    "decisionType": "ShipOrder",
    "version": "1.0.0",
    "deadlineMs": 10_000,
    "stageBudgetsMs": {"context": 1_000, "plan": 1_000, "act": 1_000, "verify": 2_000},
    "freshness": {"defaultTtlMs": 500, "featureTtls": {"stock": 100}, "allowStaleIfSafe": False},
    "limits": {"maxHops": 3, "maxFanout": 6, "maxToolCalls": 10, "maxChainDepth": 4},
    "degradeLadder": [{"step": "cache_bundle", "maxExtraMs": 1_000}, {"step": "hitl"}, {"step": "abstain"}],
    "verification": {
        "requiredAboveBlastRadius": "none",
        "methods": ["read_after_write"],
        "verifyTimeoutMs": 2_000,
    },
    "safeAction": {
        "requireIdempotency": True,
        "requireRollbackAbove": "tiny",
        "blastRadiusMax": "medium",
        "allowedActionTypes": ["ship"],
    },
    "policyPack": {"policyPackVersion": "pp-1", "policyPackHash": "abc"},
}


@cache
def schema(name: str) -> Callable[[Any], bool]:
    """Whether a value is valid against one of the published schemas: dte, episode, drift."""
    from referencing import Registry, Resource

    files = (CORPUS / "deepsigma" / "schemas").glob("*.json")
    read = {each.name.partition(".")[0]: json.loads(each.read_text(encoding="utf-8")) for each in files}
    whole = [Resource.from_contents(each) for each in read.values()]
    registry: Any = Registry().with_resources([(str(each.id()), each) for each in whole])
    found = jsonschema.validators.validator_for(read[name])(read[name], registry=registry)
    return lambda value: bool(found.is_valid(value))


def changed(**parts: Any) -> dict[str, Any]:
    """The envelope with some of its parts replaced; a mapping is laid over the part of its name."""
    made = deepcopy(ENVELOPE)
    for key, value in parts.items():
        made[key] = {**made[key], **value} if isinstance(value, Mapping) and isinstance(made.get(key), dict) else value
    return made


def written(folder: Path, envelope: object, name: str = "ship.dte.json") -> Path:
    file = folder / name
    file.write_text(envelope if isinstance(envelope, str) else json.dumps(envelope), encoding="utf-8")
    return file


def verifier(folder: Path, body: str, name: str = "my_verifier") -> Path:
    """A folder of verifiers with one in it, which says `body`."""
    made = folder / "verifiers"
    made.mkdir(exist_ok=True)
    (made / f"{name}.py").write_text(body, encoding="utf-8")
    return made


def kind_of(folder: Path, verifiers: Path | None = None, **parts: Any) -> DecisionType:
    return DecisionType.load(written(folder, changed(**parts)), verifiers=verifiers)


def asking(*methods: str, **terms: Any) -> dict[str, Any]:
    """The part of an envelope that says how it is verified."""
    return {"methods": list(methods), **terms}


def decide(
    kind: DecisionType,
    desk: Desk,
    *,
    rb: Readback | None = None,
    action: ActionDefinition[Any] | None = None,
    ages: Mapping[str, int] | None = None,
    counts: Counts = COUNTS,
    operation: str | None = "ship o-1",
    fallback: str = "",
    tier: str | None = None,
) -> Decided:
    """One decision about the order o-1, from its context to its end."""
    client = rb if rb is not None else opened()
    try:
        decision = kind.begin(client)
        decision.context(Snapshot("snap_1", dict(ages or {"stock": 10}), ("ev_1",)))
        decision.planned("Ship the order.", fallback=fallback)
        ship = action if action is not None else ship_of(desk)
        found = decision.act(ship(order_id="o-1", carrier="dhl"), counts=counts, operation=operation, tier=tier)
    finally:
        if rb is None:
            client.close()
    assert found is not None
    return found


def moving(desk: Desk, runtime: VirtualRuntime, seconds: float) -> None:
    """The tool takes so long."""
    desk.during = lambda _ctx: runtime.sleep(seconds)


def kinds(decided: Decided) -> list[tuple[str, str]]:
    """The drifts, each as its kind and severity."""
    return [(each.kind.value, each.severity.value) for each in decided.drifts]
