"""What is told and what is projected are made by place: each field holds what its name says, whatever else moves."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from readback.domain.action.action import Action
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.engine.effects import ClockResult
from readback.engine.run import Run
from readback.engine.stages.execute import draft, propose
from readback.engine.stages.report import outcome_of_run
from readback.ports.storage.store import Projection
from tests.lifecycle.house import House

NOW_US = 1_000
JUDGED = {"parts_done": "done", "parts_open": "undone"}
MARKED = {**JUDGED, "action_id": "id", "compensation": "compensation_id", "ledger_entry": "head"}
"""Where a field has another name in the action."""

OTHERWISE = {
    *("authoritative", "before", "observation", "postconditions", "said", "told", "proves", "fallen", "replayed"),
    *("approval", "approved_by", "verdict", "why", "discrepancy", "attribution", "level", "resolution", "trace"),
}
"""Fields of an outcome that are not words, numbers and flags of its action."""


def marked(house: House) -> Run:
    """A run of which each word, number and flag of its action is told from every other."""
    request = house.propose(house.action()).request("op-1")
    run = propose(draft(request, house.scope, ClockResult(NOW_US, "a-1", "me")), house.engine.table.version)
    action = run.action
    both: tuple[Any, ...] = (action, action.judgement)
    for place, each in enumerate(both):
        for number, name in enumerate(field.name for field in fields(each)):
            was = getattr(each, name)
            if type(was) is str and name not in ("verdict", "why", "attribution", "discrepancy", "resolution"):
                setattr(each, name, f"{name} {place}")
            elif type(was) is int and name != "level":
                setattr(each, name, 10_000 * (place + 1) + number)
    action.due_us, action.state, action.contested = 77, State.REVIEW_REQUIRED, True
    action.judgement.done, action.judgement.undone = ("one",), ("two",)
    action.context = {**action.context, "saga": "of a saga", "trace": "of a trace"}
    return run


def held(action: Action, name: str) -> Any:
    name = MARKED.get(name, name)
    return getattr(action, name, None) if hasattr(action, name) else getattr(action.judgement, name, None)


def test_each_field_of_an_outcome_is_what_its_name_says(house: House) -> None:
    run = marked(house)
    told = outcome_of_run(run)
    others = {
        "authoritative",
        "before",
        "observation",
        "postconditions",
        "said",
        "told",
        "proves",
        "fallen",
        "replayed",
    }
    made_of = {
        "approval",
        "approved_by",
        "verdict",
        "why",
        "discrepancy",
        "attribution",
        "level",
        "resolution",
        "trace",
    }
    for field in fields(Outcome):
        if field.name not in others | made_of:
            assert getattr(told, field.name) == held(run.action, field.name), field.name
    assert (told.trace, told.said, told.proves, told.replayed) == ("of a trace", (), "", False)
    assert (told.approval, told.approved_by, told.told) == ("", (), {})


def test_each_field_of_a_projection_is_what_its_name_says(house: House) -> None:
    run = marked(house)
    kept = run.append(NOW_US, release_lease=True).projection
    for field in fields(Projection):
        if field.name not in ("run", "saga", "lease_owner", "lease_until_us"):
            assert getattr(kept, field.name) == held(run.action, field.name), field.name
    assert (kept.run, kept.saga) == (run.scope.run, "of a saga")
    assert (kept.lease_owner, kept.lease_until_us) == ("", 0)
    run.action.state = State.EXECUTING
    leased = run.append(NOW_US, release_lease=False).projection
    assert (leased.state, leased.lease_owner) == ("executing", "me")
    assert leased.lease_until_us > NOW_US
