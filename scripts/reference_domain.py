"""The reference's sections about the domain: its vocabularies and decision tables. Called by reference.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum

from readback.cli.actions.state_help import MEANINGS, WHY_OPEN
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
from scripts.reference_markdown import meanings, prose, span, table, vocabulary, words, yes


def kinds() -> Iterator[str]:
    """What each kind asks for."""
    rows = [(f"`{k}`", yes(k.mutates), yes(k.needs_ours), yes(k.compares_before), yes(k.counts_effects)) for k in Kind]
    head = ("kind", "changes something", "has to be ours", "compares with before", "looks for a second effect")
    yield table(head, rows)
    yield prose(
        "*Has to be ours*: verified only where the state is shown to be this attempt's doing. *Compares with before*: "
        "needs a reading before execution, from low-risk internal up. *Looks for a second effect*: where the contract "
        "has `.find`."
    )


_DEPTH_ROWS: list[tuple[str, Callable[[Depth], object]]] = [
    ("what has to be checked", lambda d: d.required_check),
    ("where it is read", lambda d: d.source),
    ("what is done when it cannot be verified", lambda d: d.fallback),
    ("how much delay is tolerated", lambda d: d.latency_tolerance),
    ("when a person is asked", lambda d: d.review_trigger),
    ("a reading is at least", lambda d: f"`{d.minimum_consistency}`, `{d.minimum_independence}`"),
    ("readings that must agree", lambda d: d.quorum_min),
    ("set and delete need a reading before", lambda d: yes(d.needs_before)),
    ("must show that it is later than the action", lambda d: yes(d.needs_after_evidence)),
    ("an operation id is required", lambda d: yes(d.operation_required)),
    ("effects are counted again at the close", lambda d: yes(d.find_at_close)),
    ("identity to map, or to declare `not_offered`", lambda d: words(d.identity_required) or "-"),
    ("identity that must be mapped", lambda d: words(d.identity_essential) or "-"),
    ("mismatches in a row that open a review", lambda d: d.repeated_mismatch_limit),
    ("with `unverifiable`", lambda d: str(d.unverifiable_allowed).replace("_", " ")),
    ("`within`, where not given", lambda d: span(d.default_within_us)),
    ("`polls`, where not given", lambda d: ", ".join(span(us) for us in d.default_polls_us)),
    ("`execute.timeout`, where not given", lambda d: span(d.default_timeout_us)),
]


def classes() -> Iterator[str]:
    """The depth of verification. Texts are for people; the rest is enforced when a contract is loaded or run."""
    yield prose(
        "The first five lines of each are the specification's words, for people. The rest is enforced: when the "
        "contract is loaded, or when its readings are judged."
    )
    for row in DEPTHS.values():
        yield f"### `{row.side_effect}`\n"
        yield table(("", ""), [(title, ask(row)) for title, ask in _DEPTH_ROWS])


def readings() -> Iterator[str]:
    """What a reader may say."""
    yield "What a reader returns says one of:\n"
    makers = {
        "present": "Reading.of(value)",
        "absent": "Reading.absent()",
        "not_visible": "Reading.not_visible(why)",
        "unavailable": "Reading.unavailable(why)",
    }
    found = meanings("Presence", [each.value for each in Presence])
    yield table(("presence", "made by", "meaning"), [(f"`{p}`", f"`{makers[p]}`", found[p]) for p in found])
    yield prose(
        f"Consistency, weakest first: {words(side_effect.Consistency)}. Independence of the path from the action's, "
        f"weakest first: {words(side_effect.Independence)}. A reading may lower the consistency that its reader "
        "declared, never raise it."
    )


def verdicts() -> Iterator[str]:
    """What a judgement says."""
    yield vocabulary(verdict.Verdict, "verdict")
    yield table(("why it is undetermined", "meaning"), [(f"`{why}`", text) for why, text in WHY_OPEN.items() if why])
    yield vocabulary(verdict.Attribution, "attribution")
    yield vocabulary(verdict.Level, "trust level")


def states() -> Iterator[str]:
    """States, what they amount to, and what follows them."""
    rows = [(f"`{s}`", MEANINGS[s].means, MEANINGS[s].now) for s in State]
    yield table(("state", "means", "now"), rows)
    yield "What each amounts to in the record, and whether it ends the action:\n"
    head = ("state", "execution", "verification", "reconciliation", "exit code", "ends", "may be told as")
    yield table(head, _status_rows(STATUS))
    yield "The same, where provably nothing was dispatched:\n"
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
    yield table(("class", "code", "severity", "means", "usual recovery"), rows)


def findings() -> Iterator[str]:
    """The keys of the recovery table."""
    yield "A finding is what the evidence allows to be concluded: the key of the recovery table. Mildest first.\n"
    found = meanings("Finding", [f.value for f in sorted(Finding, key=lambda f: f.severity)])
    yield table(("finding", "meaning"), [(f"`{word}`", text) for word, text in found.items()])


def recovery() -> Iterator[str]:
    """Every row, by finding; the conditions; the actions."""
    yield prose(
        f"Version `{DEFAULT_TABLE.version[:12]}`: the hash of the rows, which stands in every decision. Of several "
        "findings the most severe is decided on; within a finding the first row that matches wins. Rows about a pivot "
        "or a policy are there as the specification has them, and nothing in this release leads to them."
    )
    for finding in Finding:
        yield f"### Finding: {finding.value.replace('_', ' ')}\n"
        rows = [_row(row) for row in DEFAULT_TABLE.rows if row.finding is finding]
        yield table(("row", "when", "does", "leads to", "because", ""), rows)
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
        "A freeze is recorded with the decision. Nothing in this release holds other actions on the same target for it."
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
        "The whole vocabulary. What was found, what limits a statement, and that it is a replay, is added in words of "
        "the tables above."
    )
    rows = [(f"`{key}`", USER_STATUS[key], MODEL_STATUS[key]) for key in USER_STATUS]
    yield table(("may be told as", "to a user", "to the model, first line"), rows)
