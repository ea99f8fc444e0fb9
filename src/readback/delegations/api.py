"""Delegations: an agent call as a verified action, repeated after a refuting reading.

`@delegation(...)` turns a function into a delegation, and `run` sends the delegate through a client. Each attempt is an
action of its own in the ledger, so later attempts hide nothing. A second run of the same operation reads the earlier
attempts from the record.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import readback.bootstrap as bootstrap
from readback.agent_errors import DelegationFailedError, ScriptError
from readback.canon import Json, ReadbackError, json_value, parse_json
from readback.canon.frozen import dataclass
from readback.client.async_client import AsyncReadback
from readback.client.authoring.action import ActionDefinition
from readback.client.client import Readback
from readback.client.operations.taken_keys import key_of
from readback.client.proposal import Proposal
from readback.delegations.contract import (
    STILL_AT_WORK,
    HookFunction,
    Prepared,
    Verifiers,
    contract_options,
    hook_of,
    is_async,
    prepare,
)
from readback.delegations.model import loop, words
from readback.delegations.model.loop import NextMove
from readback.delegations.model.record import Delegated, Turn, observed_result, result_of
from readback.delegations.model.words import RETRIES_MAX, VerifyOutcome
from readback.delegations.verifying import Check, Handler, post
from readback.domain.context import Context
from readback.domain.contract.script_permissions import ScriptLimits, ScriptPermissions
from readback.domain.idempotency import KeyStatus, aged, request_hash
from readback.domain.outcome.outcome import Outcome
from readback.domain.verdict import Verdict
from readback.engine.resume import fold
from readback.errors import ArgumentError, ContractChangedError, PayloadConflictError, UsageError
from readback.ports.runtime import Runtime

# The attempts of a delegation that are on record: found by their operations, with the words in which each was sent.

Conversation = tuple[str, list[dict[str, str]]]


@dataclass(frozen=True, slots=True)
class Made:
    """One attempt: its action, the recorded request, and the hash of the whole request."""

    action_id: str
    target: str
    request_hash: str
    requested: Mapping[str, Json]
    contract_hash: str

    def conversation(self, action: ActionDefinition[...], given: Mapping[str, Any]) -> Conversation | None:
        """Return the prompt and history of the attempt, or None if the ledger lacks them or another request stands
        there.
        """
        prompt, history = self.requested.get("prompt"), self.requested.get("history")
        if not isinstance(prompt, str) or not isinstance(history, list):
            return None
        asked: dict[str, Json] = {**given, "prompt": prompt, "history": history}
        if request_hash(action.plan.contract.kind, self.target, asked) != self.request_hash:
            return None
        return prompt, [{name: str(said) for name, said in each.items()} for each in history if isinstance(each, dict)]


def attempts_made(client: Readback | AsyncReadback, contract: str, delegation: str) -> list[Made]:
    """Return the recorded attempts from the first on, without gaps. Raises StoreError."""
    session = client._session  # noqa: SLF001 - of the same room
    session.check_open()
    store, tenant, made = session.store, session.scope.tenant, list[Made]()
    for attempt in range(RETRIES_MAX + 1):
        record = key_of(store, tenant, contract, f"{delegation}/{attempt}")
        if record is None:
            break
        if aged(KeyStatus(record.status), record.expires_us, session.runtime.now_us()) is KeyStatus.EXPIRED:
            break
        action = fold(store.events(record.action_id))
        if action is None:
            break
        kept = store.evidence(tenant, action.id, action.request_ref) if action.request_ref else None
        asked = parse_json(kept.body) if kept is not None else None
        requested = asked.get("requested") if isinstance(asked, dict) else None
        found: Mapping[str, Json] = requested if isinstance(requested, dict) else {}
        made.append(Made(action.id, action.target, action.request_hash, found, action.contract_hash))
    return made


Sent = tuple[Proposal, str] | str | None
"""An attempt to make, with its operation; the id of a recorded attempt with a successor; or None, for all recorded
attempts.
"""
OTHER_VERIFIERS: Final = (
    "the attempt on record began under other verifiers, and these were not asked about it; "
    "name another operation to have the task done and verified again"
)
OUTCOMES: Final = {
    NextMove.ACCEPT: VerifyOutcome.PASSED,
    NextMove.SKIPPED: VerifyOutcome.SKIPPED,
    NextMove.OPEN: VerifyOutcome.UNDETERMINED,
    NextMove.BROKEN: VerifyOutcome.UNDETERMINED,
    NextMove.EXHAUSTED: VerifyOutcome.FAILED,
    NextMove.AGAIN: VerifyOutcome.FAILED,
}


class Delegation:
    """An agent call with its verifiers. Create it with `delegation`, and use it for any number of runs from any thread.

    Attributes:
        action: The action of each attempt. Pass it to `Readback.open(actions=[...])` of a worker.
    """

    def __init__(
        self,
        function: Callable[[Turn], object],
        verifiers: Verifiers,
        *,
        name: str,
        retries: int,
        on_end: Callable[[Mapping[str, Json]], object] | None,
        options: Mapping[str, Any],
    ) -> None:
        self.name, self.retries, self._on_end = name, checked_retries(retries), on_end
        self._function, self._verifiers = function, verifiers
        self._lock = threading.Lock()
        self._prepared: Prepared | None = None
        execute = _sending_async(function) if is_async(function) else _sending(function)
        self.action: ActionDefinition[...] = ActionDefinition(
            execute, contract_options(name, verifiers, self._ready, options), verifiers=lambda: verifiers.digest
        )

    def check(self, runtime: Runtime | None = None) -> None:
        """Compile the contract and every script. Raises ContractError, ScriptCompileError, ScriptsMissingError."""
        self._ready(runtime)
        self.action.load()

    def run(
        self,
        client: Readback,
        task: str,
        *,
        operation: str | None = None,
        args: Mapping[str, object] | None = None,
        max_verify_retries: int | None = None,
        wait: float | None = None,
    ) -> Delegated:
        """Send the delegate until a reading shows a finished task, at most `max_verify_retries` times more.

        An open outcome is returned as undetermined, and the delegate is not called again.

        Args:
            operation: The name of the intent.
            args: The value of `args` in verifiers.
            wait: The longest wait for each attempt, in seconds.

        Raises:
            DelegationFailedError: Every permitted attempt was refuted.
            ScriptError: A verifier failed.
            ScriptCompileError: A script does not compile. Nothing was sent.
            ReadbackError: Any error of `Readback.run`.
        """
        delegated, given = self._begin(client, task, operation, args)
        try:
            steps = self._steps(client, delegated, given, max_verify_retries)
            try:
                asked = next(steps)
                while True:
                    told: object
                    try:
                        if asked is None:
                            told = attempts_made(client, self.name, delegated.id)
                        elif isinstance(asked, str):
                            told = client.get(asked)
                        else:
                            told = client.run(asked[0], operation=asked[1], wait=wait)
                    except (PayloadConflictError, ContractChangedError) as error:
                        asked = steps.throw(error)
                    else:
                        asked = steps.send(told)
            except StopIteration:
                pass
            self._hand_on(delegated, given)
        finally:
            self._told(delegated)
        return delegated

    async def run_async(
        self,
        client: AsyncReadback,
        task: str,
        *,
        operation: str | None = None,
        args: Mapping[str, object] | None = None,
        max_verify_retries: int | None = None,
        wait: float | None = None,
    ) -> Delegated:
        """Send the delegate through an `AsyncReadback` client. See `run`."""
        delegated, given = self._begin(client, task, operation, args)
        try:
            steps = self._steps(client, delegated, given, max_verify_retries)
            try:
                asked = next(steps)
                while True:
                    told: object
                    try:
                        if asked is None:
                            told = await asyncio.to_thread(attempts_made, client, self.name, delegated.id)
                        elif isinstance(asked, str):
                            told = await client.get(asked)
                        else:
                            told = await client.run(asked[0], operation=asked[1], wait=wait)
                    except (PayloadConflictError, ContractChangedError) as error:
                        asked = steps.throw(error)
                    else:
                        asked = steps.send(told)
            except StopIteration:
                pass
            await asyncio.to_thread(self._hand_on, delegated, given)
        finally:
            self._told(delegated)
        return delegated

    def close(self) -> None:
        """Stop the processes of scripts. The next use starts new processes."""
        with self._lock:
            prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.engine.close()

    # --- the loop ---

    def _begin(
        self, client: Readback | AsyncReadback, task: str, operation: str | None, args: Mapping[str, object] | None
    ) -> tuple[Delegated, dict[str, Json]]:
        runtime = client._session.runtime  # noqa: SLF001 - of the same room
        if not _is_task(task):
            raise ArgumentError(f"A task is a text of at most {words.TASK_MAX_CHARACTERS} characters.")
        if args is not None and not isinstance(args, Mapping):
            raise ArgumentError(f"`args` is a mapping of names to values, and not {type(args).__name__}.")
        try:
            given = json_value(dict(args or {}))
        except ReadbackError as error:
            raise ArgumentError(f"`args` has no JSON form: {error.message}") from error
        assert isinstance(given, dict)
        return Delegated(operation or runtime.new_id(), task, self.name), given

    def _steps(
        self,
        client: Readback | AsyncReadback,
        delegated: Delegated,
        args: dict[str, Json],
        retries: int | None,
    ) -> Generator[Sent, Any, None]:
        """Yield the attempts to make. Every recorded attempt before the last was refuted.

        Later readings of those attempts change nothing: by then the state is the result of all attempts. Other
        processes may make attempts at the same time.
        """
        self.check(client._session.runtime)  # noqa: SLF001 - of the same room
        most = self.retries if retries is None else checked_retries(retries)
        prompt, history = delegated.task, list[dict[str, str]]()
        made: Sequence[Made] = yield None
        outcome: Outcome
        attempt = 0
        while attempt < max(most + 1, len(made)):
            given = {"delegation": delegated.id, "attempt": attempt, "task": delegated.task, "args": args}
            if attempt + 1 < len(made):
                outcome = yield made[attempt].action_id
                self._judged(delegated, outcome, NextMove.AGAIN)
            else:
                if attempt < len(made):  # asked for in the words of then: a reason may be another one by now
                    prompt, history = made[attempt].conversation(self.action, given) or (prompt, history)
                proposal = self.action(**given, prompt=prompt, history=history)
                try:
                    outcome = yield proposal, f"{delegated.id}/{attempt}"
                except PayloadConflictError:
                    known, made = len(made), (yield None)
                    if len(made) <= known:
                        raise
                    continue  # another process has made the attempt meanwhile, with a reason of another reading
                except ContractChangedError:
                    made = yield None
                    outcome = yield made[attempt].action_id
                if outcome.replayed and attempt >= len(made):
                    made = yield None
                if attempt < len(made) and made[attempt].contract_hash != self.action.contract.hash:
                    self._judged(delegated, outcome, NextMove.OPEN, OTHER_VERIFIERS)
                    return
                move = loop.after(outcome, attempt, most)
                if move in (NextMove.OPEN, NextMove.EXHAUSTED):
                    made = yield None
                    if attempt + 1 < len(made):
                        move = NextMove.AGAIN  # another process found the same, and has sent the next attempt
                if self._judged(delegated, outcome, move) is not NextMove.AGAIN:
                    return
            history = [*history, {"prompt": prompt, "response": delegated.response}]
            prompt = words.prompt_again(delegated.task, delegated.reason)
            attempt += 1

    def _judged(self, delegated: Delegated, outcome: Outcome, move: NextMove, why: str = "") -> NextMove:
        """Record the result of an attempt. `why` replaces the outcome's own reason."""
        delegated.outcomes.append(outcome)
        delegated.attempts += outcome.attempted and move is not NextMove.SKIPPED
        delegated.verify_outcome = OUTCOMES[move]
        delegated.reason = "" if move is NextMove.ACCEPT else why or _why(outcome, move)
        seen = outcome.observation.body if outcome.observation is not None else None
        rewritten = loop.verdict_in(outcome).get("result")
        delegated.result = rewritten if isinstance(rewritten, dict) else observed_result(seen, delegated.id)
        if move is NextMove.EXHAUSTED:
            raise DelegationFailedError.after(delegated.attempts, delegated.reason, delegated)
        if move is NextMove.BROKEN:
            error = ScriptError(delegated.reason)
            error.delegated = delegated
            raise error
        return move

    def _hand_on(self, delegated: Delegated, args: Mapping[str, Json]) -> None:
        """Run the hooks of `delegation.post` over a result fit for hand-over."""
        if delegated.result is None or delegated.verify_outcome not in (VerifyOutcome.PASSED, VerifyOutcome.SKIPPED):
            return
        given, delegated.result = delegated.result, None  # what a hook breaks upon is not handed on
        try:
            result, delegated.withheld = post(self._ready().hooks, given, args)
        except ScriptError as error:
            error.delegated = delegated
            delegated.withheld = error.message
            raise
        delegated.result = None if delegated.withheld else result

    def _told(self, delegated: Delegated) -> None:
        if self._on_end is not None:
            self._on_end(delegated.attributes)

    def _ready(self, runtime: Runtime | None = None) -> Prepared:
        """Return the compiled verifiers. Another runtime compiles them again."""
        with self._lock:
            held = self._prepared
            if held is None or (runtime is not None and held.runtime is not runtime):
                made = prepare(self._verifiers, runtime or bootstrap.runtime())
                weakref.finalize(self, made.engine.close)
                self._prepared = made
                if held is not None:
                    held.engine.close()
                return made
            return held

    def __repr__(self) -> str:
        return f"<delegation {self.name}>"


def _why(outcome: Outcome, move: NextMove) -> str:
    if move is NextMove.AGAIN or move is NextMove.EXHAUSTED:
        return loop.reason_of(outcome)
    if outcome.verdict is Verdict.REFUTED and outcome.attempted and not loop.has_answered(outcome):
        return words.bounded(f"{STILL_AT_WORK}: {loop.reason_of(outcome)}")
    said = outcome.detail.partition(" Next: ")[0].removeprefix(f"{ScriptError.code}: ")
    return words.bounded(said or outcome.why.value or outcome.resolution.value or outcome.state.value)


def _is_task(given: object) -> bool:
    return isinstance(given, str) and given.strip() != "" and len(given) <= words.TASK_MAX_CHARACTERS


def checked_retries(given: object) -> int:
    """Return the permitted number of further attempts. Raises UsageError."""
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= words.RETRIES_MAX:
        raise UsageError(
            f"`max_verify_retries` is a whole number from 0 to {words.RETRIES_MAX}, and not {given!r:.40}."
        )
    return given


def _turn(ctx: Context, given: Mapping[str, Any]) -> Turn:
    history = tuple((each["prompt"], each["response"]) for each in given["history"])
    return Turn(
        ctx, given["delegation"], given["attempt"], given["task"], given["prompt"], dict(given["args"]), history
    )


def _sending(function: Callable[[Turn], object]) -> Callable[..., object]:
    def send(
        ctx: Context,
        delegation: str,
        attempt: int,
        task: str,
        prompt: str,
        args: dict[str, Any],
        history: list[dict[str, str]],
    ) -> object:
        given = {"delegation": delegation, "attempt": attempt, "task": task, "prompt": prompt}
        return result_of(function(_turn(ctx, {**given, "args": args, "history": history})))

    return send


def _sending_async(function: Callable[[Turn], Any]) -> Callable[..., object]:
    async def send(
        ctx: Context,
        delegation: str,
        attempt: int,
        task: str,
        prompt: str,
        args: dict[str, Any],
        history: list[dict[str, str]],
    ) -> object:
        given = {"delegation": delegation, "attempt": attempt, "task": task, "prompt": prompt}
        return result_of(await function(_turn(ctx, {**given, "args": args, "history": history})))

    return send


def delegation(
    *,
    name: str,
    verify: str | Check | None = None,
    hooks: Sequence[HookFunction | str | Path] = (),
    allow: Mapping[str, object] | ScriptPermissions | None = None,
    limits: ScriptLimits | None = None,
    max_verify_retries: int = words.RETRIES_DEFAULT,
    on_end: Callable[[Mapping[str, Json]], object] | None = None,
    **options: Any,
) -> Callable[[Callable[[Turn], object]], Delegation]:
    """Decorate an agent call as a delegation. The function takes a `Turn` and returns the delegate's answer.

    Args:
        verify: A script with `run(result)`, or a function with the result True, False, None (undetermined) or a mapping
            with `verified` and `reason`.
        hooks: Functions under `delegation_hook`, or files.
        allow: The permissions of scripts.
        on_end: Receives the span's attributes on every path.
        keys: Further keys of the contract, such as `readers` and `ensure`. Postconditions over a system of record count
            beside the verifiers.

    Example:
        >>> from readback import Readback, Turn, delegation
        >>> @delegation(name="writer", verify=lambda result: "o-17" in result["response"], within="10ms")
        ... def writer(turn: Turn) -> str: return "The order is o-17."
        >>> with Readback.open("memory:") as rb:
        ...     delegated = writer.run(rb, "Name the order.")
        >>> print(delegated.verify_outcome.value, delegated.response)
        passed The order is o-17.
    """

    def make(function: Callable[[Turn], object]) -> Delegation:
        given = tuple(map(hook_of, hooks))
        verifiers = Verifiers(verify, given, ScriptPermissions.of(allow), limits or ScriptLimits())
        return Delegation(function, verifiers, name=name, retries=max_verify_retries, on_end=on_end, options=options)

    return make


def delegation_hook(
    event: str = words.POST_VERIFY, *, priority: int = 0, when: Handler | None = None, name: str = ""
) -> Callable[[Handler], HookFunction]:
    """Decorate a function of the event and the result as a hook.

    The function returns `{"action": "allow"}`, `block` with a `reason`, or `modify` with a `payload`. Any other value
    and any exception is an error of the verifier.

    Example:
        >>> from readback import Readback, Turn, delegation, delegation_hook
        >>> @delegation_hook("delegation.post")
        ... def redact(event, result): return {"action": "modify", "payload": {**result, "response": "(redacted)"}}
        >>> @delegation(name="writer", verify=lambda result: True, hooks=[redact], within="10ms")
        ... def writer(turn: Turn) -> str: return "The card is 4111."
        >>> with Readback.open("memory:") as rb:
        ...     print(writer.run(rb, "Name the card.").response)
        (redacted)
    """
    if event not in words.EVENTS:
        raise UsageError(f"Delegations have no event {event!r:.60}.", remedy=f"One of {', '.join(words.EVENTS)}.")

    def make(function: Handler) -> HookFunction:
        return HookFunction(function, event, priority, when, name or getattr(function, "__name__", "hook"))

    return make
