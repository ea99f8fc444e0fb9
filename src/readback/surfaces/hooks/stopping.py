"""The end of a turn: what is due is read once more, and what is not verified is said, once.

A turn is kept from ending once, with the items that are open or refuted. When the agent ends it again the person is
told instead: a hook that never let go would only be switched off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

from readback.canon import ReadbackError
from readback.domain.belief.entry import Item, Standing
from readback.domain.belief.run import Belief, believe
from readback.domain.state import State
from readback.sdk.believing import choose
from readback.surfaces.hooks import protocol
from readback.surfaces.hooks.desk import UNGOVERNED, Desk
from readback.surfaces.hooks.hook_file import AtStop, HookFile
from readback.surfaces.hooks.protocol import STOP, Answer, Stopping

ITEMS_TOLD_MAX: Final = 20
SETTLED_MAX: Final = 4_096
"""Of a session's settled actions, those that are looked through for what is refuted; a turn may have hundreds."""
LOOKING_US_MAX: Final = 30_000_000
"""How long the end of a turn may be held up by readings; what is not read by then is told as it is."""


def ending(said: Stopping, file: HookFile, opening: Callable[[HookFile, str], AbstractContextManager[Desk]]) -> Answer:
    """Stop and SubagentStop: kept on once with what is not verified, else let go."""
    with opening(file, said.session) as desk:
        if not said.again:
            read_again(desk, all_open=said.event == STOP and not said.busy)
        belief = believed(desk)
    left = unverified(belief)
    loose = [each for each in belief.unresolved if each.contract == UNGOVERNED]
    if not left and not (loose and file.at_stop is AtStop.BLOCK):
        return protocol.shown(_counted(loose)) if loose else protocol.go_ahead()
    text = worded(left, loose)
    return protocol.shown(text) if said.again else protocol.kept_on(text)


def read_again(desk: Desk, *, all_open: bool) -> None:
    """Goes on with what is due; with `all_open` also with attempts whose report has not come: no tool runs any more.
    Of one that runs it would be told that nothing of it can appear, and that it may be repeated.

    What cannot be read now stays as it is, and is told so.
    """
    s = desk.session
    until_us = s.runtime.now_us() + LOOKING_US_MAX
    due = set(s.due())
    for each in list(desk.run()):
        if s.runtime.now_us() >= until_us:
            return
        waiting = all_open and each.state == State.EXECUTING
        if (each.action_id in due or waiting) and s.knows(each):
            try:
                desk.go_on(each.action_id)
            except ReadbackError:
                continue  # it stays unresolved, and that is said


def believed(desk: Desk) -> Belief:
    """What may be believed of the session."""
    chosen = choose(desk.session, None, settled_max=SETTLED_MAX)
    outcomes = [chosen.told(desk.outcome(action_id)) for action_id in chosen.ids]
    return believe(chosen.run, outcomes, tenant=desk.session.scope.tenant, groups=chosen.groups, older=chosen.older)


def unverified(belief: Belief) -> list[Item]:
    """What is open; and what was called and is refuted, unless the same was verified on the same target since."""
    done = {(each.contract, each.target): each.action_id for each in belief.verified}
    refuted = [
        each
        for each in belief.not_done
        if each.attempted and done.get((each.contract, each.target), "") < each.action_id
    ]
    found = [each for each in (*belief.unresolved, *refuted) if each.contract != UNGOVERNED]
    return sorted(found, key=lambda each: each.action_id)


def worded(left: Iterable[Item], loose: list[Item]) -> str:
    """The items, one a line, and what to do with them."""
    items = list(left)
    lines = ["Not everything of this session is verified. Do not tell the user that these are done:"]
    for each in items[-ITEMS_TOLD_MAX:]:
        open_ = "unresolved" if each.standing is Standing.UNRESOLVED else "not done"
        lines.append(f"- {each.contract} on {each.target}: {open_}; {each.status} {each.message} ({each.action_id})")
    if len(items) > ITEMS_TOLD_MAX:
        lines.append(f"- and {len(items) - ITEMS_TOLD_MAX} older ones: readback list")
    if loose:
        lines.append(_counted(loose))
    lines.append("Look at what is there, correct what is wrong, and say what stays open. This is asked once.")
    return "\n".join(lines)


def _counted(loose: list[Item]) -> str:
    """Ungoverned calls, by tool."""
    by_tool = Counter(each.target.removeprefix("tool/") for each in loose)
    calls = ", ".join(f"{tool} ({count})" for tool, count in sorted(by_tool.items())[:ITEMS_TOLD_MAX])
    return f"No contract governs these calls, or no attempt was on record, and nothing of them was verified: {calls}."
