"""Verifies a delegate's answer: the inline verifier first, then the hooks in order, as one verdict.

The verification runs inside a reading, so the rules of readings hold. The contract's schedule repeats the reading. A
failing verifier or a failing look leaves the truth open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from readback.agent_errors import ScriptError, ScriptUnavailableError
from readback.canon import Json, ReadbackError, json_value
from readback.canon.frozen import dataclass
from readback.delegations.model import words
from readback.delegations.model.verdict import (
    HookAction,
    HookSaid,
    Judgement,
    blocked,
    parse_hook,
    parse_mapping,
    parse_verdict,
    together,
)
from readback.ports.scripts import HostCall, Ran, Script

Result = dict[str, Json]
Check = Callable[[Result], object]
Handler = Callable[[str, Result], object]


@dataclass(frozen=True, slots=True)
class Hook:
    """A reusable verifier of delegations: a script, or a function of the event and the result.

    The hook with the lowest `priority` runs first, then the name decides. `when` is a condition of the run.
    """

    name: str
    event: str
    handle: Script | Handler
    priority: int = 0
    when: Script | Handler | None = None

    @property
    def order(self) -> tuple[int, str]:
        """The sort key among hooks."""
        return (self.priority, self.name)


@dataclass(slots=True)
class Verified:
    """One verification: the verdict, the result after the hooks, and every look of scripts.

    Attributes:
        asked: Whether any verifier ran. Each hook's `when` may skip the hook.
    """

    judgement: Judgement
    result: Result
    calls: list[HostCall] = field(default_factory=list)
    asked: bool = False

    def as_json(self, given: Result) -> dict[str, Json]:
        """Return plain data for the reading. The data holds the result only if a hook changed `given`."""
        said: dict[str, Json] = {"verified": self.judgement.verified, "reason": self.judgement.reason}
        said["calls"] = [each.as_json() for each in self.calls]
        if self.result != given:
            said["result"] = self.result
        return said


def verify(inline: Script | Check | None, hooks: Sequence[Hook], result: Result, args: Mapping[str, Json]) -> Verified:
    """Run the inline verifier and every hook of `delegation.post_verify`. Raises ScriptError for a failing verifier.

    A script with an unreachable system leaves the verdict open.
    """
    done = Verified(Judgement(True), result)
    try:
        _judge(inline, hooks, args, done)
    except ScriptUnavailableError as error:
        done.judgement = Judgement(None, words.bounded(error.message))
    return done


def _judge(inline: Script | Check | None, hooks: Sequence[Hook], args: Mapping[str, Json], done: Verified) -> None:
    judgements: list[Judgement] = []
    if inline is not None:
        done.asked = True
        judgements.append(_inline(inline, done, args))
    for hook in sorted((each for each in hooks if each.event == words.POST_VERIFY), key=lambda each: each.order):
        said, failed = _asked(hook, done, args)
        done.asked = done.asked or said is not None
        if said is None or said.action is HookAction.ALLOW:
            continue
        if said.action is HookAction.MODIFY:
            done.result = dict(said.payload or {})
            continue
        judgements.append(_doubted(Judgement(False, blocked(hook.name, said.reason), hook.name), failed))
        break  # the first block ends it: those behind it would judge what is refused already
    done.judgement = together(judgements)


def post(hooks: Sequence[Hook], result: Result, args: Mapping[str, Json]) -> tuple[Result, str]:
    """Run the hooks of `delegation.post` over an accepted result. Return the result for hand-over and a reason to
    withhold.

    Raises ScriptError for a failing hook. Readback hands over nothing after a failed redaction.
    """
    done = Verified(Judgement(True), result)
    for hook in sorted((each for each in hooks if each.event == words.POST), key=lambda each: each.order):
        said, _ = _asked(hook, done, args)
        if said is None or said.action is HookAction.ALLOW:
            continue
        if said.action is HookAction.BLOCK:
            return done.result, blocked(hook.name, said.reason)
        done.result = dict(said.payload or {})
    return done.result, ""


def _inline(inline: Script | Check, done: Verified, args: Mapping[str, Json]) -> Judgement:
    if not callable(inline):
        ran = _ran(inline, [_copy(done.result)], done, args_of(args))
        return _doubted(parse_verdict(ran.value, inline.name), ran.failed)
    said = _called("verify", lambda: inline(_copy(done.result)))
    if said is None:
        return Judgement(None, "the verifier cannot tell", "verify")
    if isinstance(said, Judgement):
        return said
    return parse_mapping(said, "verify") if isinstance(said, Mapping) else parse_verdict(said, "verify")


def _asked(hook: Hook, done: Verified, args: Mapping[str, Json]) -> tuple[HookSaid | None, tuple[HostCall, ...]]:
    """Return the hook's answer, or None if the condition skips the hook."""
    failed: tuple[HostCall, ...] = ()
    if hook.when is not None:
        asked, failed = _answer(hook, hook.when, done, args)
        if not isinstance(asked, bool):
            raise ScriptError(f"verify script error: `when` of hook {hook.name!r} is neither true nor false.")
        if not asked and not failed:
            return None, ()
        if not asked:
            raise ScriptError(f"verify script error: `when` of hook {hook.name!r} could not look.")
    said, more = _answer(hook, hook.handle, done, args)
    return parse_hook(said, hook.name), (*failed, *more)


def _answer(
    hook: Hook, handle: Script | Handler, done: Verified, args: Mapping[str, Json]
) -> tuple[object, tuple[HostCall, ...]]:
    payload = _copy(done.result)
    if callable(handle):
        return _called(hook.name, lambda: handle(hook.event, payload)), ()
    given = {**args_of(args), "event": hook.event, "payload": payload}
    ran = _ran(handle, [hook.event, payload], done, given)
    return ran.value, ran.failed


def args_of(args: Mapping[str, Json]) -> dict[str, Json]:
    """Return the names for a script beside its arguments."""
    return {"args": dict(args)}


def _ran(script: Script, arguments: list[Json], done: Verified, given: Mapping[str, Json]) -> Ran:
    ran = script.run(arguments, given)
    done.calls.extend(ran.calls)
    return ran


def _called(by: str, function: Callable[[], object]) -> object:
    try:
        return function()
    except ScriptError:
        raise
    except Exception as error:
        raise ScriptError(f"verify script error: {by!r} raised {type(error).__name__}: {error}") from error


def _doubted(judgement: Judgement, failed: Sequence[HostCall]) -> Judgement:
    """Return an undetermined verdict: a failed look refutes nothing."""
    if judgement.verified is not False or not failed:
        return judgement
    looked = f"{failed[0].name} of {failed[0].asked} failed: {failed[0].detail}"
    return Judgement(None, words.bounded(f"{judgement.reason}, and {looked}"), judgement.by)


def _copy(result: Result) -> Result:
    """Return a copy, so a verifier cannot change the next verifier's input in secret."""
    try:
        copied = json_value(result)
    except ReadbackError as error:
        raise ScriptError(f"verify script error: the result has no JSON form: {error.message}") from error
    assert isinstance(copied, dict)
    return copied
