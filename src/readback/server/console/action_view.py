"""The facts of one action or saga for a page: everything that the templates print, from the ledger alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.domain.outcome.outcome import Outcome
from readback.domain.predicate import Truth
from readback.domain.saga.outcome import SagaOutcome
from readback.views.action import outcome_and_picture
from readback.views.explain import explained_any
from readback.views.fields import CELL_MAX_CHARACTERS, SideBySide, shows, side_by_side, watched_text
from readback.views.labels import ATTRIBUTION, outcome_label
from readback.views.outcome_text import MARK_OF_TRUTH, headline, mark_of, plain, verdict_text
from readback.views.saga_graph import Graph, graph_of
from readback.views.text import BAD, NONE, OPEN, safe, value
from readback.views.timeline import Bar, Timeline, timeline_of

Picture = dict[str, Any]
READINGS_MAX: Final = 30
CONDITIONS_MAX: Final = 40
VALUES_MAX: Final = 12
TIMES: Final = ("proposed", "executed", "verified", "due")
CHART_WIDTH: Final = 1000
TEXT_SIDE: Final = 600
"""A label starts at the right of its bar, and ends at the left of a bar beyond this place."""
BAR_MIN: Final = 2
NO_STATES: Final = SideBySide((), (), 0)


@dataclass(frozen=True, slots=True)
class Placed:
    """A span of the timeline, placed in the chart."""

    kind: str
    label: str
    x: int
    width: int
    text_x: int
    left: bool


@dataclass(frozen=True, slots=True)
class ActionView:
    """Everything a page prints about an action or a saga."""

    id: str
    version: int
    headline: str
    sign: str
    message: str
    target: str
    operation: str
    run: str
    compensation: str
    summary: tuple[tuple[str, str], ...]
    times: tuple[tuple[str, int], ...]
    why: tuple[str, ...]
    now: tuple[str, ...]
    timeline: Timeline
    bars: tuple[Placed, ...]
    told_model: str
    states: SideBySide = NO_STATES
    postconditions: tuple[dict[str, Any], ...] = ()
    identity: tuple[dict[str, Any], ...] = ()
    readings: tuple[dict[str, Any], ...] = ()
    decision: tuple[tuple[str, str], ...] = ()
    contract: Json = field(default_factory=dict)
    graph: Graph | None = None


def action_view(session: Session, id_or_stamp: str) -> ActionView:
    """Return the facts of an action of the session's tenant. Raises NotFoundError, StoreError."""
    outcome, picture = outcome_and_picture(session, id_or_stamp)
    told = explained_any(outcome, picture, "", "")
    timeline = timeline_of(picture["events"])  # type: ignore[arg-type]
    context = picture["context"]
    run = str(context.get("run") or "") if isinstance(context, dict) else ""
    events: Any = picture["events"]
    shared: dict[str, Any] = {
        "id": outcome.id,
        "version": events[-1]["version"],
        "headline": headline(outcome),
        "sign": mark_of(outcome),
        "message": outcome.message,
        "target": outcome.target,
        "operation": outcome.operation,
        "run": run,
        "compensation": outcome.compensation,
        "why": _texts(told["why"]),
        "now": _texts(told["now"]),
        "timeline": timeline,
        "bars": _placed(timeline),
        "told_model": outcome.for_model(),
    }
    if isinstance(outcome, SagaOutcome):
        return _saga_view(outcome, picture, shared)
    return _action_view(outcome, picture, shared)


def _action_view(outcome: Outcome, picture: Picture, shared: dict[str, Any]) -> ActionView:
    standing = outcome.standing
    return ActionView(
        **shared,
        summary=tuple(_summary(outcome, picture)),
        times=tuple(
            (name, picture["times"][f"{name}_us"] or 0) for name in ("proposed", "executed", "verified", "due")
        ),
        states=side_by_side(picture["states"]),
        postconditions=tuple(_condition(each, standing) for each in picture["postconditions"][:CONDITIONS_MAX]),
        identity=tuple(_identity(each, standing) for each in picture["identity"][:CONDITIONS_MAX]),
        readings=tuple(_reading(each) for each in picture["readings"][-READINGS_MAX:]),
        decision=tuple(_decision(picture["decision"])),
        contract=picture["contract"],
    )


def _saga_view(outcome: SagaOutcome, picture: Picture, shared: dict[str, Any]) -> ActionView:
    times = picture["times"]
    return ActionView(
        **shared,
        summary=(
            ("state", outcome_label(outcome)),
            ("name", outcome.name),
            ("heading", outcome.heading),
            ("because", outcome.because),
            ("review", plain(outcome.review)),
            ("hold", plain(outcome.hold)),
            ("code", outcome.code),
            ("detail", outcome.detail),
            ("incident", outcome.incident),
            ("principal", outcome.principal),
        ),
        times=(("begun", times["begun_us"] or 0), ("ended", times["ended_us"] or 0), ("due", times["due_us"] or 0)),
        decision=tuple(_decision({"finding": "", "condition": "", **picture["decision"]}))
        if picture["decision"]
        else (),
        graph=graph_of(outcome),
    )


def _summary(outcome: Outcome, picture: Picture) -> Iterable[tuple[str, str]]:
    found, contract, key, lease = picture["discrepancy"], picture["contract"], picture["key"], picture["lease"]
    held = f"{lease['owner']}" + (" (gone)" if lease["owner_is_gone"] else "") if lease else ""
    effect = f"{plain(contract.get('kind', ''))}, {plain(contract.get('side_effect', ''))}" if contract else ""
    yield "state", f"{outcome_label(outcome)} (stored: {outcome.state.value})"
    yield "verdict", verdict_text(outcome.verdict, outcome.why)
    yield "discrepancy", f"{plain(found['class'])}: {found['definition']}" if found else ""
    yield "cause of the state", ATTRIBUTION[outcome.attribution]
    yield "repetition", "allowed" if outcome.may_repeat else "not allowed"
    yield "attempts", str(outcome.attempts)
    yield "hold", plain(outcome.hold)
    yield "review", plain(outcome.review)
    yield "attested", plain(outcome.resolution)
    yield "contested", "the earlier finding is contradicted" if outcome.contested else ""
    yield "claims", "; ".join(f"{plain(each.kind)}: {plain(each.status)}" for each in outcome.claims)
    yield "claims that fell", ", ".join(outcome.fallen)
    yield "parts open", ", ".join(outcome.parts_open)
    yield "code", outcome.code
    yield "detail", outcome.detail
    yield "watch", watched_text(picture["watch"])
    yield "incident", outcome.incident
    yield "reversal", outcome.compensation
    yield "contract", f"{outcome.contract} {outcome.contract_version}"
    yield "effect", effect
    yield "principal", outcome.principal
    yield "tenant", outcome.tenant
    yield "key", f"{key['text']} ({key['status'] or 'not reserved'})"
    yield "stamp", outcome.stamp
    yield "lease", held
    yield "erased", "request, answer and readings" if outcome.erased else ""
    yield "ledger head", outcome.ledger_entry


def _sign(truth: str, standing: bool) -> str:
    """A standing success has no red mark: a later contrary reading is open."""
    try:
        sign = MARK_OF_TRUTH[Truth(truth)]
    except ValueError:
        return NONE  # the source offers no such value
    return OPEN if standing and sign == BAD else sign


def _condition(found: Picture, standing: bool) -> dict[str, Any]:
    said = plain(found["truth"])
    return {
        "sign": _sign(found["truth"], standing),
        "said": f"{said}: {found['reason']}" if found["reason"] else said,
        "name": f"{found['group']}: {found['name']}" if found["group"] else found["name"],
        "source": found["source"],
        "values": [(safe(path, 80), value(read, CELL_MAX_CHARACTERS)) for path, read in found["values"][:VALUES_MAX]],
    }


def _identity(found: Picture, standing: bool) -> dict[str, Any]:
    return {
        "sign": _sign(found["truth"], standing),
        "said": plain(found["truth"]),
        "key": found["key"],
        "expected": value(found["expected"], CELL_MAX_CHARACTERS),
        "found": value(found["actual"], CELL_MAX_CHARACTERS),
    }


def _reading(found: Picture) -> dict[str, Any]:
    named = {name: found[name] for name in ("role", "source", "consistency", "independence")}
    return {**named, "shows": shows(found), "took": found["finished"] - found["started"], "at_us": found["finished"]}


def _decision(found: Picture | None) -> Iterable[tuple[str, str]]:
    if found is None:
        return
    ours = found.get("ours")
    whose = "" if ours is None else " (of Readback)" if ours else " (of the specification)"
    yield "row", f"{found['row']}{whose}"
    yield "finding", plain(found.get("finding", ""))
    yield "condition", found.get("condition", "")
    yield "decided", plain(found.get("action", ""))
    yield "because", found.get("rationale", "")
    if found.get("table_is_present_one") is False:
        yield "table", f"version {found['table'][:12]}, another table than the present one"


def _texts(found: Json) -> tuple[str, ...]:
    return tuple(str(each) for each in found) if isinstance(found, list) else ()


def _placed(timeline: Timeline) -> tuple[Placed, ...]:
    whole = max(timeline.until_us - timeline.from_us, 1)
    return tuple(_place(bar, timeline.from_us, whole) for bar in timeline.bars)


def _place(bar: Bar, from_us: int, whole_us: int) -> Placed:
    x = (bar.from_us - from_us) * CHART_WIDTH // whole_us
    width = max((bar.until_us - bar.from_us) * CHART_WIDTH // whole_us, BAR_MIN)
    left = x > TEXT_SIDE
    inside = x <= TEXT_SIDE < x + width
    return Placed(bar.kind, bar.label, x, width, x - 6 if left else x + 6 if inside else x + width + 6, left)
