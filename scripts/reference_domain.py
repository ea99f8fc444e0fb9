"""The reference's sections about the domain: its vocabularies and decision tables. Called by reference.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum

from readback.domain import side_effect, verdict
from readback.domain.discrepancy import DISCREPANCIES
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.outcome.reporting import MODEL_STATUS, USER_STATUS
from readback.domain.recovery.rule import DOMAINS, Condition, Row
from readback.domain.recovery.table import DEFAULT_TABLE, EFFECTS
from readback.domain.side_effect import DEPTHS, Depth
from readback.domain.state import NOT_ATTEMPTED, STATUS, TERMINAL, TRANSITIONS, State, StatusRow
from readback.domain.verification.reading import Presence
from readback.views.state_help import MEANINGS, WHY_OPEN
from scripts.reference_markdown import meanings, prose, span, table, vocabulary, words, yes


def kinds() -> Iterator[str]:
    """Requirements of each kind."""
    rows = [(f"`{k}`", yes(k.mutates), yes(k.needs_ours), yes(k.compares_before), yes(k.counts_effects)) for k in Kind]
    head = ("kind", "changes state", "has to be ours", "compares with before", "looks for a second effect")
    yield table(head, rows)
    yield prose(
        "*Has to be ours*: verified only if the evidence attributes the state to this attempt. *Compares with before*: "
        "requires a reading before execution, from low-risk internal up. *Looks for a second effect*: if the contract "
        "has `.find`."
    )


_DEPTH_ROWS: list[tuple[str, Callable[[Depth], object]]] = [
    ("required check", lambda d: d.required_check),
    ("source", lambda d: d.source),
    ("fallback without a verification", lambda d: d.fallback),
    ("tolerated delay", lambda d: d.latency_tolerance),
    ("trigger of a review", lambda d: d.review_trigger),
    ("minimum of a reading", lambda d: f"`{d.minimum_consistency}`, `{d.minimum_independence}`"),
    ("agreeing readings required", lambda d: d.quorum_min),
    ("set and delete need a reading before execution", lambda d: yes(d.needs_before)),
    ("reading must be proven later than the action", lambda d: yes(d.needs_after_evidence)),
    ("operation id required", lambda d: yes(d.operation_required)),
    ("effects counted again at the close of the window", lambda d: yes(d.find_at_close)),
    ("identity keys to map, or to declare `not_offered`", lambda d: words(d.identity_required) or "-"),
    ("identity keys to map", lambda d: words(d.identity_essential) or "-"),
    ("consecutive mismatches before a review", lambda d: d.repeated_mismatch_limit),
    ("with `unverifiable`", lambda d: str(d.unverifiable_allowed).replace("_", " ")),
    ("default of `within`", lambda d: span(d.default_within_us)),
    ("default of `polls`", lambda d: ", ".join(span(us) for us in d.default_polls_us)),
    ("default of `execute.timeout`", lambda d: span(d.default_timeout_us)),
]


def classes() -> Iterator[str]:
    """The depth of verification per class. Texts are for people; all other values are enforced."""
    yield prose(
        "The first five rows of each table quote the specification, for people. Readback enforces all other rows, at "
        "the load of the contract or at the judgement of a reading."
    )
    for row in DEPTHS.values():
        yield f"### `{row.side_effect}`\n"
        yield table(("", ""), [(title, ask(row)) for title, ask in _DEPTH_ROWS])


def readings() -> Iterator[str]:
    """The results of a reader."""
    yield "A reader returns a `Reading` with exactly one of four values of `presence`:\n"
    makers = {
        "present": "Reading.of(value)",
        "absent": "Reading.absent()",
        "not_visible": "Reading.not_visible(why)",
        "unavailable": "Reading.unavailable(why)",
    }
    found = meanings("Presence", [each.value for each in Presence])
    yield table(("presence", "constructor", "meaning"), [(f"`{p}`", f"`{makers[p]}`", found[p]) for p in found])
    yield prose(
        f"Consistency, weakest first: {words(side_effect.Consistency)}. Independence of the path from the action's, "
        f"weakest first: {words(side_effect.Independence)}. A reading may declare a lower consistency than "
        "the reader, never a higher consistency."
    )


def verdicts() -> Iterator[str]:
    """The parts of a judgement."""
    yield vocabulary(verdict.Verdict, "verdict")
    yield table(("reason for undetermined", "meaning"), [(f"`{why}`", text) for why, text in WHY_OPEN.items() if why])
    yield vocabulary(verdict.Attribution, "attribution")
    yield vocabulary(verdict.Level, "trust level")


def states() -> Iterator[str]:
    """States, the status of each state, and the transitions."""
    rows = [(f"`{s}`", MEANINGS[s].means, MEANINGS[s].now) for s in State]
    yield table(("state", "meaning", "now"), rows)
    yield "The status in the record for each state. *Ends* marks the final states:\n"
    head = ("state", "execution", "verification", "reconciliation", "exit code", "ends", "reported as")
    yield table(head, _status_rows(STATUS))
    yield "The status if provably nothing was dispatched:\n"
    yield table(head, _status_rows(NOT_ATTEMPTED))
    yield "### Transitions\n"
    steps = [
        (f"`{state}`", f"`{step.to}`", step.why, "ours" if step.ours else "")
        for state in State
        for step in TRANSITIONS[state]
    ]
    yield table(("from", "to", "because", ""), steps)


def _status_rows(rows: Mapping[State, StatusRow]) -> Iterator[tuple[object, ...]]:
    for s, row in rows.items():
        record = (row.execution, row.verification, row.reconciliation)
        yield f"`{s}`", *record, row.exit_code, yes(s in TERMINAL), f"`{row.report}`"


def discrepancies() -> Iterator[str]:
    """The twelve classes, mildest first."""
    rows = [
        (f"`{row.discrepancy}`", f"`{row.discrepancy.code}`", row.severity, row.definition, row.typical_recovery)
        for row in sorted(DISCREPANCIES.values(), key=lambda row: row.severity)
    ]
    yield table(("class", "code", "severity", "meaning", "usual recovery"), rows)


def findings() -> Iterator[str]:
    """The keys of the recovery table."""
    yield "A finding is the conclusion from the evidence, and the key of the recovery table. Mildest first.\n"
    found = meanings("Finding", [f.value for f in sorted(Finding, key=lambda f: f.severity)])
    yield table(("finding", "meaning"), [(f"`{word}`", text) for word, text in found.items()])


def recovery() -> Iterator[str]:
    """Every row, by finding; the conditions; the actions."""
    yield prose(
        f"Version `{DEFAULT_TABLE.version[:12]}`. The version is the hash of the rows, and every decision records the "
        "version. Among several findings the most severe finding decides. Within a finding the first matching row "
        "wins."
    )
    for finding in Finding:
        yield f"### Finding: {finding.value.replace('_', ' ')}\n"
        rows = [_row(row) for row in DEFAULT_TABLE.rows if row.finding is finding]
        yield table(("row", "condition", "action", "leads to", "because", ""), rows)
    yield "### What the conditions ask\n"
    said = meanings("Situation", DOMAINS)
    asked = [(f"`{name}`", words(_value(v) for v in DOMAINS[name]), said[name]) for name in DOMAINS]
    yield table(("condition", "values", "meaning"), asked)
    yield "### What an action entails\n"
    effects = [
        (f"`{a}`", f"`{e.target_state}`", yes(e.opens_review), yes(e.opens_incident), yes(e.freezes))
        for a, e in EFFECTS.items()
    ]
    yield table(("action", "leads to", "review", "incident", "freeze"), effects)
    yield prose(
        "A freeze is recorded with the decision. New actions on a frozen subject are refused before execution, until "
        "an operator lifts the freeze."
    )


def _row(row: Row) -> tuple[str, ...]:
    when = " or ".join(_condition(each) for each in row.when)
    whose = "ours" if row.ours else ""
    return row.id, when, f"`{row.action}`", f"`{row.target_state}`", row.rationale, whose


def _condition(condition: Condition) -> str:
    parts = []
    for name, allowed in condition.items():
        if allowed == (True,):
            parts.append(name)
        elif allowed == (False,):
            parts.append(f"not {name}")
        else:
            parts.append(f"{name} in ({', '.join(_value(each) for each in allowed)})")
    return " and ".join(parts) or "always"


def _value(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return {True: "yes", False: "no"}.get(bool(value), "")


def texts() -> Iterator[str]:
    """The vocabulary of reports."""
    yield prose(
        "This table is the whole vocabulary. The finding, the limits of a statement, and a replay are added in words "
        "of the tables above."
    )
    rows = [(f"`{key}`", USER_STATUS[key], MODEL_STATUS[key]) for key in USER_STATUS]
    yield table(("report", "to a user", "to the model, first line"), rows)
