"""Side records of an entry: subjects frozen and lifted, incidents opened and closed.

Used by the recorders of entries (a run, escalate, review) for the append, and by audit to derive the same from the
entries and compare. Everything is in the entry's own data, under these keys alone:

    freeze: [subject, ...], frozen_for: reason      lift: [subject, ...]
    incident: cause, severity: word                 closes: [incident id, ...]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.contract.contract import Contract
from readback.domain.contract.freezing import FreezeScope, freezes, places_among, subjects
from readback.domain.finding import Finding
from readback.domain.people.incident import cause_of, incident_id, severity_of
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.ports.storage.store import Freeze, Incident, LedgerStore


@dataclass(slots=True)
class FreezeAndIncidentChanges:
    """Freezes and incidents from the entries of one append."""

    freezes: list[Freeze] = field(default_factory=list)
    lifts: list[str] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    closes: list[str] = field(default_factory=list)

    def take(self, tenant: str, action_id: str, version: int, at_us: int, data: Mapping[str, Json]) -> None:
        """Add one entry, the action's `version`th."""
        reason = str(data.get("frozen_for", ""))
        self.freezes += [Freeze(tenant, s, action_id, reason, at_us) for s in texts(data.get("freeze"))]
        if "lift" in data:
            self.lifts += [*texts(data["lift"]), *places_among(texts(data.get("lift_places")))]
        self.closes += texts(data.get("closes"))
        cause = str(data.get("incident", ""))
        if cause and "severity" in data:
            severity = str(data["severity"])
            self.incidents.append(Incident(tenant, incident_id(action_id, version), cause, severity, action_id, at_us))


def oldest_freeze(store: LedgerStore, tenant: str, subjects: tuple[str, ...], by: str = "") -> Freeze | None:
    """The oldest freeze of these subjects, or of one named action's freezes alone."""
    if not by:
        return store.frozen(tenant, subjects)
    return next((one for one in store.freezes(tenant) if one.action_id == by and one.subject in subjects), None)


def texts(value: Json) -> list[str]:
    """A list of texts in an entry; empty if missing."""
    return [str(each) for each in value] if isinstance(value, list) else []


def incident_data(
    finding: Finding, side_effect: SideEffect, action_id: str, sources: tuple[str, ...] = ()
) -> dict[str, Json]:
    """The data of an entry opening an incident."""
    severity = severity_of(finding, side_effect).value
    return {"incident": cause_of(finding, action_id, sources), "severity": severity}


def freeze_data(
    contract: Contract,
    action: Action,
    state: State,
    *,
    reason: str,
    by_row: bool,
    executed: bool,
    places: Callable[[], tuple[str, ...]] = tuple,
) -> dict[str, Json]:
    """The data of an entry freezing subjects as the action enters `state`; empty if nothing new is frozen.

    `places`: returns the locations of the target's files, if the target is a file.
    """
    if not freezes(contract.side_effect, state, by_row=by_row, executed=executed):
        return {}
    named = subjects(
        contract.freeze,
        tenant=action.tenant,
        principal=action.principal,
        contract=contract.name,
        target=action.target,
        places=places(),
    )
    return freezing(tuple(subject for subject in named if subject not in action.frozen), reason)


def freezing(named: tuple[str, ...], reason: str) -> dict[str, Json]:
    """The same for known subjects."""
    return {"freeze": list(named), "frozen_for": reason} if named else {}


def resource_of(target: str) -> tuple[str, ...]:
    """The minimal subject to freeze, without a contract to name more."""
    return subjects((FreezeScope.RESOURCE,), tenant="", principal="", contract="", target=target)


__all__ = [
    "FreezeAndIncidentChanges",
    "freeze_data",
    "freezing",
    "incident_data",
    "oldest_freeze",
    "resource_of",
    "texts",
]
