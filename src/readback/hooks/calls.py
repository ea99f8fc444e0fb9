"""Before a tool's call, commit the attempt and let the agent call the tool. After the call, read back.

No failure here lets a tool through: every error ends the process with the exit code for "tool blocked". An answer is
always a decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readback.agent_errors import HookOrderError
from readback.hooks import protocol
from readback.hooks.hook_file import HookFile, Policy
from readback.hooks.protocol import Answer, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from readback.client.files import FileAction
    from readback.domain.outcome.outcome import Outcome
    from readback.engine.external_attempts import Report
    from readback.hooks.session import HookSession

    Opening = Callable[[HookFile, str], AbstractContextManager[HookSession]]

FAILED_TEXT_MAX: Final = 2_000


def before(call: ToolCall, file: HookFile, opening: Opening) -> Answer:
    """Handle PreToolUse: allow the call, or deny the call with a reason."""
    if file.passes(call.tool, call.given, call.folder):
        return protocol.go_ahead()
    with opening(file, call.session) as desk:
        action = governing(desk, file, call)
        if action is not None:
            return _begun(desk, action, call)
        if file.policy_of(call.tool) is Policy.DENY:
            return protocol.denied(
                f"No contract governs {call.tool}, and tools without a contract are denied here. "
                "Use a governed tool, or ask the user."
            )
        return _noted(desk, call)


def governing(desk: HookSession, file: HookFile, call: ToolCall) -> FileAction | None:
    """Return the contract of a call: from a matching entry of `tools`, else the contract named like the tool."""
    from readback.hooks.session import UNGOVERNED

    ruled = file.ruled(call.tool, call.given, call.folder)
    if not ruled and call.tool == UNGOVERNED:
        return None
    return desk.actions.get(ruled or call.tool)


def _begun(desk: HookSession, action: FileAction, call: ToolCall) -> Answer:
    from readback.errors import InputError
    from readback.hooks.session import arguments_of, unapprovable

    rest = unapprovable(action, call)
    if rest:
        return protocol.denied(
            f"{call.tool} was not called: {action.name} needs an approval of all that it is called with, and names "
            f"{'neither' if len(rest) > 1 else 'no'} {' nor '.join(rest)}. Call it without, or ask the user to have "
            "that named under the contract's `arguments`."
        )
    try:
        handed = desk.hand_out(action, call, arguments_of(action, call))
    except InputError as error:  # a decision: the arguments are invalid, and nothing was done
        return protocol.denied(f"{call.tool} was not called: {error.message} {error.remedy}")
    if handed.allowed:
        return protocol.go_ahead()
    told = handed.outcome
    reason = f"{call.tool} was not called. {told.detail}".rstrip()
    if told.hold == "approval":
        reason += f" An approver has to run: readback approve {told.id}. Ask the user, and call the tool again then."
    return protocol.denied(f"{reason}\n{told.for_model()}")


def _noted(desk: HookSession, call: ToolCall) -> Answer:
    from readback.hooks.session import UNGOVERNED, noted

    handed = desk.hand_out(desk.actions[UNGOVERNED], call, noted(call))
    if handed.allowed:
        return protocol.go_ahead()
    return protocol.denied(f"{call.tool} was not called.\n{handed.outcome.for_model()}")


def after(call: ToolCall, file: HookFile, opening: Opening) -> Answer:
    """Handle PostToolUse and PostToolUseFailure: report the verified result of the call. Raises HookOrderError.

    A call continued in the background reports no end, so its attempt stays open. A call may have moved the agent to a
    folder other than the folder of its decision.
    """
    from readback.hooks.session import UNGOVERNED

    passes = file.passes(call.tool, call.given, call.folder)
    if passes and not file.ruled(call.tool, call.given, None):
        return protocol.go_ahead()
    with opening(file, call.session) as desk:
        action_id = desk.find(call, file.contracts_of(call.tool))
        if passes and not action_id:
            return protocol.go_ahead()
        if not action_id or not desk.handed_out(action_id):
            _recorded_late(desk, call, asked=bool(action_id))
            raise HookOrderError(f"{call.tool} was called without a recorded attempt.")
        told = desk.outcome(action_id) if call.running else None
        if told is None or told.contract == UNGOVERNED:
            told = desk.report(action_id, reported(call), file.hold_us)
        silent = desk.silent and told.contract == UNGOVERNED
    return protocol.go_ahead() if silent else judged(call, told)


def _recorded_late(desk: HookSession, call: ToolCall, *, asked: bool) -> None:
    """Record the call as an ungoverned one, listed at the end of the turn. `asked`: the call was denied, and ran
    anyway.
    """
    from readback.hooks.session import UNGOVERNED, noted

    if not asked and any(each.operation == call.operation for each in desk.run()):
        return  # the id belongs to a call of another tool
    handed = desk.hand_out(desk.actions[UNGOVERNED], call, noted(call))
    if handed.allowed:
        desk.report(handed.outcome.id, reported(call), 0)


def judged(call: ToolCall, told: Outcome) -> Answer:
    """Return the text of an outcome for the model. An unverified outcome stops the model, except for an ungoverned
    call.
    """
    from readback.domain.outcome.outcome import quoted_line
    from readback.hooks.session import UNGOVERNED

    if told.contract == UNGOVERNED:
        return protocol.told(call.event, f"{call.tool}: no contract governs it, and nothing of it was verified.")
    if told.unworded:  # shadow mode: the agent shows the tool's own answer
        return protocol.go_ahead()
    if told.standing:
        return protocol.told(call.event, told.for_model())
    said = f"\n{quoted_line(told.tool_words)}" if told.tool_words else ""
    if call.failed is not None and not call.stopped:
        said = f"\nThe tool reported failure; the state was read once and is looked at again.{said}"
    return protocol.contradicted(call.event, told.for_model() + said)


def reported(call: ToolCall) -> Report:
    """Return the agent's report of the call's end. A report is evidence, never a verdict."""
    from readback.engine.effects import Ending
    from readback.engine.external_attempts import Report
    from readback.errors import ToolError

    if call.stopped:
        return Report(Ending.CANCELLED)
    if call.failed is not None:
        return Report(Ending.RAISED, error=ToolError(call.failed[:FAILED_TEXT_MAX]))
    return Report(Ending.RETURNED, call.answer)
