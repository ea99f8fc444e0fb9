"""A contract file drafted from watched calls, as YAML. Each proposal is marked, and no marked file is in force.

Called by `readback contracts draft --from`. The record knows readers by name and source only, so the reader itself is a
question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from readback.assurance.faults import WatchedCallsError
from readback.assurance.watched.calls import WatchedCall
from readback.assurance.watched.proposals import CALLS_MIN, Proposal, Proposed, proposed
from readback.contracts.drafting.writing import Line, rendered, shown
from readback.contracts.files.assembly import NAME
from readback.contracts.files.undecided import MARK, marked
from readback.contracts.files.vocabulary import API_VERSION, KIND
from readback.domain.contract.contract import NOT_OFFERED
from readback.domain.side_effect import SideEffect
from readback.errors import NotFoundError

_EXECUTES: Final = "The record does not hold the executor. Write the executor here, or the file's `server`."
NAMED_MAX: Final = 5
"""Calls named in one comment."""


def drafted(calls: Iterable[WatchedCall], only: Sequence[str] = ()) -> str:
    """Return the file's text, with one contract for each tool with enough watched calls.

    Raises:
        NotFoundError: A tool of `only` has no recorded call.
        WatchedCallsError: No tool, or a tool of `only`, has five watched calls.
    """
    by_name: dict[str, list[WatchedCall]] = {}
    for each in calls:
        by_name.setdefault(each.contract, []).append(each)
    for name in only:
        if name not in by_name:
            known = ", ".join(by_name) or "none"
            raise NotFoundError(f"No call of {name!r:.80} is on record.", remedy=f"On record are: {known}.")
    chosen = {name: listed for name, listed in by_name.items() if not only or name in only}
    few = [name for name, listed in chosen.items() if sum(each.shown is not None for each in listed) < CALLS_MIN]
    made = [proposed(name, listed) for name, listed in chosen.items() if only or name not in few]
    if not made:
        said = f"No tool on record has {CALLS_MIN} watched calls with a reading"
        raise WatchedCallsError(f"{said} (on record: {', '.join(few) or 'no call'}).")
    return rendered(_document(made, few))


def _document(made: Sequence[Proposed], few: Sequence[str]) -> list[Line]:
    head = (
        "A draft from watched calls. Nothing of it is decided.",
        f"Every value that begins with {MARK} is a proposal. Delete the word to accept, or write what is right. "
        "`readback contracts check` refuses the file as long as one is left.",
        "A proposal states what happened. Whether it was meant is your decision.",
    )
    without = (f"Fewer than {CALLS_MIN} watched calls, and no contract: {', '.join(few)}.",) if few else ()
    return [
        Line("apiVersion", API_VERSION, head),
        Line("kind", KIND),
        Line("metadata", [Line("name", "watched"), Line("version", "0.1.0")]),
        Line("contracts", [_contract(each) for each in made], without),
    ]


def _contract(made: Proposed) -> Line:
    name = made.contract if NAME.fullmatch(made.contract) else "tool"
    arguments = [Line(each, marked(kind)) for each, kind in made.arguments]
    lines = [
        Line("kind", marked(made.kind.text), (f"{made.calls} watched calls.", *_said(made.kind))),
        Line("side_effect", marked(SideEffect.LOW_RISK_INTERNAL.value), ("The calls do not show the class.",)),
        Line("target", marked(made.target.text), _said(made.target)),
        *([Line("arguments", arguments)] if arguments else []),
        Line("execute", [Line("timeout", marked(made.timeout.text), _said(made.timeout))], (_EXECUTES,)),
        Line("readers", marked(), _readers(made)),
        Line("identity", _identity(made.identity)),
        Line("ensure", _ensure(made.ensure)),
    ]
    if made.frame is not None:
        fields = tuple(marked(each) for each in made.frame.text.split(", "))
        said = f"Changed in any of {len(made.frame.support)} calls with both readings; every other field stayed."
        lines.append(Line("may_change", fields, (said,)))
    lines.append(Line("within", marked(made.within.text), _said(made.within)))
    return Line(name, lines)


def _readers(made: Proposed) -> tuple[str, ...]:
    named = "; ".join(f"{shown(reader, 60)} of {shown(source, 60)}" for reader, source in made.readers)
    return (f"The calls were read by: {named}. Write the reader; docs/contract-files.md lists the sources.",)


def _identity(found: Sequence[Proposal]) -> list[Line]:
    lines = [Line(each.key.partition(".")[2], marked(each.text), _said(each)) for each in found]
    if not any(each.key == "identity.tenant" for each in found):
        lines.append(Line("tenant", marked(NOT_OFFERED), ("No field has the caller's tenant in the watched calls.",)))
    return lines


def _ensure(found: Sequence[Proposal]) -> list[Line]:
    if not found:
        return [Line("held", marked(), ("No regularity has enough support. Write what has to hold.",))]
    lines: list[Line] = []
    names: set[str] = set()
    for each in found:
        name = each.key.partition(".")[2].replace(".", " ")
        while name in names:
            name += " too"
        names.add(name)
        lines.append(Line(name, marked(each.text), _said(each)))
    return lines


def _said(each: Proposal) -> tuple[str, ...]:
    """Return support and counterexamples as a comment."""
    many = len(each.support) + len(each.against) + len(each.refuted)
    said = [f"Support: {len(each.support)} of {many} calls."]
    if each.against:
        said.append(f"Counterexamples: {_named(each.against)}.")
    if each.refuted:
        said.append(f"Not in calls that were refuted: {_named(each.refuted)}.")
    return (" ".join([*said, each.why]).strip(),)


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - NAMED_MAX} more" if len(ids) > NAMED_MAX else ""
    return ", ".join(ids[:NAMED_MAX]) + more
