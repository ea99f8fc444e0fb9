"""Delegations: an agent call as an action that is verified, and sent again while a reading refutes what it claims.

`@delegation(...)` makes one of a function; `run` sends it through a client. Every attempt is an action of its own in
the ledger, so that all that an attempt did stands there whatever the next one does. Run again under the same operation,
the attempts so far are answered from the record.
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
from readback.client.proposal import Proposal
from readback.client.taken_keys import key_of
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
    """One attempt: its action, what it was asked for as far as that is kept, and the hash of the whole."""

    action_id: str
    target: str
    request_hash: str
    requested: Mapping[str, Json]
    contract_hash: str

    def conversation(self, action: ActionDefinition[...], given: Mapping[str, Any]) -> Conversation | None:
        """The prompt and the history with which it was sent; None where they are not kept, or the rest is another."""
        prompt, history = self.requested.get("prompt"), self.requested.get("history")
        if not isinstance(prompt, str) or not isinstance(history, list):
            return None
        asked: dict[str, Json] = {**given, "prompt": prompt, "history": history}
        if request_hash(action.plan.contract.kind, self.target, asked) != self.request_hash:
            return None
        return prompt, [{name: str(said) for name, said in each.items()} for each in history if isinstance(each, dict)]


def attempts_made(client: Readback | AsyncReadback, contract: str, delegation: str) -> list[Made]:
    """The attempts on record, from the first on, up to one whose operation would be a new one. Raises StoreError."""
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
"""An attempt to be made, and its operation; the id of one that is on record, with another one after it; or None, for
the attempts that are on record now.
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
    """An agent call with what verifies it. Made by `delegation`; used for any number of runs, from any thread.

    `action` is the action that each attempt is; declare it (`Readback.open(actions=[...])`) where a worker is to go on.
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
        """Compiles the contract and every script. Raises ContractError, ScriptCompileError, ScriptsMissingError."""
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
        """Sends the delegate until a reading shows that the task is done, at most `max_verify_retries` times more.

        `operation` names the intent; `args` is what verifiers see as `args`; `wait` bounds, in seconds, how long each
        attempt is waited for. An outcome that stays open is returned as undetermined, and nothing is sent again.
        Raises DelegationFailedError when it was refuted as often as it may be sent, ScriptError where a verifier broke,
        ScriptCompileError before anything is sent, and what `Readback.run` raises.
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
        """The same for an `AsyncReadback` client."""
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
        """Ends what scripts run in; the next use begins it again."""
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
        """Each attempt on record but the last was refuted, and nothing that was read of it since takes the next one
        back: by then the state is what all of them left. Others may be making them at the same time.
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
                    continue  # somebody else has made it meanwhile, for a reason that was read at another moment
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
                        move = NextMove.AGAIN  # as somebody else found, and has sent it since
                if self._judged(delegated, outcome, move) is not NextMove.AGAIN:
                    return
            history = [*history, {"prompt": prompt, "response": delegated.response}]
            prompt = words.prompt_again(delegated.task, delegated.reason)
            attempt += 1

    def _judged(self, delegated: Delegated, outcome: Outcome, move: NextMove, why: str = "") -> NextMove:
        """Notes what an attempt came to. `why`: the reason, where it is not the outcome's own."""
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
        """The hooks of `delegation.post`, over what may be handed on at all."""
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
        """The verifiers, compiled; again where the runtime is another one."""
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
    """How often a delegate may be sent again. Raises UsageError."""
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
    """Decorator: an agent call becomes a delegation. The function takes a Turn, and returns the delegate's answer.

    `verify`: a script that defines `run(result)`, or a function that answers True, False, None (it cannot tell) or a
    mapping with `verified` and `reason`. `hooks`: functions under `delegation_hook`, or files. `allow`: what scripts
    may look at. `on_end` is called with the span's attributes on every path. Further keys are the contract's, among
    them `readers` and `ensure`: postconditions over a system of record, which count beside the verifiers.
    """

    def make(function: Callable[[Turn], object]) -> Delegation:
        given = tuple(map(hook_of, hooks))
        verifiers = Verifiers(verify, given, ScriptPermissions.of(allow), limits or ScriptLimits())
        return Delegation(function, verifiers, name=name, retries=max_verify_retries, on_end=on_end, options=options)

    return make


def delegation_hook(
    event: str = words.POST_VERIFY, *, priority: int = 0, when: Handler | None = None, name: str = ""
) -> Callable[[Handler], HookFunction]:
    """Decorator: a function of the event and the result becomes a hook. It answers `{"action": "allow"}`, block with a
    `reason`, or modify with a `payload`; anything else, and any exception, is an error of the verifier.
    """
    if event not in words.EVENTS:
        raise UsageError(f"Delegations have no event {event!r:.60}.", remedy=f"One of {', '.join(words.EVENTS)}.")

    def make(function: Handler) -> HookFunction:
        return HookFunction(function, event, priority, when, name or getattr(function, "__name__", "hook"))

    return make
