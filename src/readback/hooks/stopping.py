"""The end of a turn: read due actions once more, and report unverified actions once.

The hook blocks a turn's end once, with the list of open and refuted items. At the agent's second attempt the user
receives the list instead. A hook without end would only be switched off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from readback.canon import ReadbackError
from readback.client.operations.believing import choose
from readback.contracts.templates import RENDERED_MAX_CHARS
from readback.domain.belief.entry import Item, ItemStatus
from readback.domain.belief.run import Belief, believe
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.kind import Kind
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.observation_signs import name_in_text
from readback.engine.effects import Ending
from readback.engine.external_attempts import Report
from readback.errors import ToolError
from readback.hooks import protocol
from readback.hooks.hook_file import AtStop, HookFile
from readback.hooks.protocol import STOP, SUBAGENT_STOP, TEXT_MAX_CHARACTERS, Answer, Stopping
from readback.hooks.session import UNGOVERNED, HookSession
from readback.ports.storage.store import StoredEvent

ITEMS_TOLD_MAX: Final = 20
SETTLED_MAX: Final = 4_096
"""How many settled actions of a session are searched for refuted ones. A turn may have hundreds."""
LOOKING_US_MAX: Final = 30_000_000
"""How long reads may delay the end of a turn. Later actions are reported without a new read."""
_NOT_SO: Final = frozenset({Finding.VALUE_MISMATCH.value, Finding.NO_OP_FAILURE.value, Finding.TARGET_MISSING.value})
FOR_THE_AGENT: Final = (
    "Not everything of this session is verified. Do not tell the user that these are done:",
    "Look at what is there, correct what is wrong, and say what stays open. This is asked once a turn.",
)
FOR_A_PERSON: Final = (
    "Not everything of this session is verified. Do not take these for done, whatever the agent says:",
    "Look at what is there, and decide what becomes of it.",
)
NOT_REPORTED: Final = "No report of this call came before the turn ended: it was refused, or interrupted, or is over."


def ending(
    said: Stopping, file: HookFile, opening: Callable[[HookFile, str], AbstractContextManager[HookSession]]
) -> Answer:
    """Handle Stop and SubagentStop: block once with the unverified items, else let the turn end."""
    with opening(file, said.session) as desk:
        if not said.again:
            read_again(desk, file, all_open=said.event == STOP and not said.busy, quiet=said.quiet)
        belief = believed(desk)
        left = unverified(desk, belief)
        loose = [] if desk.silent else [each for each in belief.unresolved if each.contract == UNGOVERNED]
        if said.event == SUBAGENT_STOP:  # an inner agent answers for its own calls, the main agent for all
            left = [each for each in left if desk.agent_of(each.action_id) == said.agent]
            loose = [each for each in loose if desk.agent_of(each.action_id) == said.agent]
    if not left and not (loose and file.at_stop is AtStop.BLOCK):
        return protocol.shown(_counted(loose)) if loose else protocol.go_ahead()
    if said.again:
        return protocol.shown(worded(left, loose, FOR_A_PERSON))
    return protocol.kept_on(worded(left, loose, FOR_THE_AGENT))


def read_again(desk: HookSession, file: HookFile, *, all_open: bool, quiet: bool) -> None:
    """Resume due actions and, with `all_open`, attempts without a report.

    `all_open` requires that no tool runs. Otherwise a running call would be reported as without effect and safe to
    repeat. `quiet`: the agent reports no background work, so calls of its own tools have ended. An MCP server may still
    process a call abandoned by the agent.

    An action with a failed read stays unresolved and is reported as such.
    """
    s = desk.session
    until_us = s.runtime.now_us() + LOOKING_US_MAX
    s.due(0)  # releases the actions of a dead hook process
    for each in list(desk.run()):
        now_us = s.runtime.now_us()
        if now_us >= until_us:
            return
        due = each.due_us is not None and each.due_us <= now_us
        waiting = all_open and each.state == State.EXECUTING
        if (due or waiting) and s.knows(each):
            try:
                if waiting and quiet and not file.is_by_a_server(each.contract):
                    desk.report(each.action_id, _not_reported(), min(file.hold_us, until_us - now_us))
                else:
                    desk.go_on(each.action_id)
            except ReadbackError:
                continue  # stays unresolved, and is reported as such


def _not_reported() -> Report:
    """Return the report of a finished call with an unknown answer. No process still works on the call."""
    return Report(Ending.RAISED, error=ToolError(NOT_REPORTED))


def believed(desk: HookSession) -> Belief:
    """Return the belief of the session."""
    chosen = choose(desk.session, None, settled_max=SETTLED_MAX)
    outcomes = [chosen.told(desk.outcome(action_id)) for action_id in chosen.ids]
    return believe(
        chosen.run,
        outcomes,
        tenant=desk.session.scope.tenant,
        groups=chosen.groups,
        older=chosen.older,
        older_more=chosen.more,
        replaced=chosen.replaced,
    )


def unverified(desk: HookSession, belief: Belief) -> list[Item]:
    """Return open items and refuted calls. A refuted call is left out if a later call was verified on the same target.

    A tool's false success report also waits for a person's review. The person is asked in any case; the turn is blocked
    only until the target has the state wanted by a later call.
    """
    done: dict[tuple[str, str], list[str]] = {}
    for fact in belief.verified:
        done.setdefault((fact.contract, fact.target), []).append(fact.action_id)
    found = [
        each
        for each in (*belief.unresolved, *belief.not_done)
        if each.contract != UNGOVERNED and not (each.mode and each.attempted)
        if (each.standing is ItemStatus.UNRESOLVED or each.attempted)
        if not (_refuted(desk, each) and _put_right(desk, each, done.get((each.contract, each.target), [])))
    ]
    return sorted(found, key=lambda each: each.action_id)


def _refuted(desk: HookSession, item: Item) -> bool:
    """Return whether a read showed a wrong target, and nothing else is wrong."""
    if item.standing is ItemStatus.NOT_DONE:
        return True
    waits = item.state is State.REVIEW_REQUIRED and item.review in _NOT_SO and item.kind == Kind.SET.value
    return waits and desk.outcome(item.action_id).verdict is Verdict.REFUTED


def _put_right(desk: HookSession, refuted: Item, verified: list[str]) -> bool:
    """Return whether a verified call began after the refuted call and ended after all reports of the refuted call.

    Compares log positions, not ids. Ids follow a clock, and a clock may be set back. Nor do ids order concurrent calls.
    """
    if not verified:
        return False
    events = desk.session.store.events(refuted.action_id)
    began, reports = _began(events), [each for each in events if each.kind == EventKind.OBSERVED.value]
    for action_id in reversed(verified):
        other = desk.session.store.events(action_id)
        if _comes_after(_began(other), began) and all(_comes_after(other[-1], report) for report in reports):
            return True
    return False


def _began(events: Sequence[StoredEvent]) -> StoredEvent:
    """Return the event of the call's start. An approved action was requested earlier."""
    return next((each for each in reversed(events) if each.kind == EventKind.ATTEMPTED.value), events[0])


def _comes_after(one: StoredEvent, other: StoredEvent) -> bool:
    """Compare log positions, or times if an event has no position yet."""
    return one.seq > other.seq if one.seq and other.seq else one.at_us > other.at_us


def worded(left: Iterable[Item], loose: list[Item], words: tuple[str, str]) -> str:
    """List the items, one a line, and the advice. Items beyond the limit are counted, never truncated."""
    items = list(left)
    head = words[0]
    tail = [*([_counted(loose)] if loose else []), words[1]]
    room = TEXT_MAX_CHARACTERS - sum(len(line) + 1 for line in (head, *tail, _older(len(items))))
    shown: list[str] = []
    for line in map(_line, reversed(items[-ITEMS_TOLD_MAX:])):
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    older = len(items) - len(shown)
    return "\n".join([head, *reversed(shown), *([_older(older)] if older else []), *tail])


def _line(item: Item) -> str:
    open_ = "unresolved" if item.standing is ItemStatus.UNRESOLVED else "not done"
    target = name_in_text(item.target, RENDERED_MAX_CHARS)
    return f"- {item.contract} on {target}: {open_}; {item.status} {item.message} ({item.action_id})"


def _older(count: int) -> str:
    return f"- and {count} older ones: readback list"


def _counted(loose: list[Item]) -> str:
    """Count ungoverned calls by tool."""
    by_tool = sorted(Counter(each.target.removeprefix("tool/") for each in loose).items())
    calls = ", ".join(f"{tool} ({count})" for tool, count in by_tool[:ITEMS_TOLD_MAX])
    if rest := by_tool[ITEMS_TOLD_MAX:]:
        calls += f", and {sum(count for _, count in rest)} of {len(rest)} more tools"
    return f"No contract governs these calls, or no attempt was on record, and nothing of them was verified: {calls}."
