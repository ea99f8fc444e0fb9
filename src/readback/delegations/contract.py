"""The contract of a delegation: verifiers as a reader beside the author's readers, postconditions and hooks.

The verifiers run inside a reading. Their verdict stands in the reading under `$delegation`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, cast

import readback.bootstrap as bootstrap
from readback.canon import Json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.functions.callables import Reader
from readback.contracts.functions.conditions import callable_digest, version_given
from readback.contracts.options import microseconds
from readback.delegations.hook_files import HookFile
from readback.delegations.model.loop import VERDICT_KEY
from readback.delegations.model.record import answered, observed_result
from readback.delegations.model.words import POST_VERIFY
from readback.delegations.verifying import Check, Handler, Hook, verify
from readback.domain.context import Context
from readback.domain.contract.script_permissions import ScriptLimits, ScriptPermissions
from readback.domain.verification.reading import Presence, Reading
from readback.errors import UsageError
from readback.ports.runtime import Runtime
from readback.ports.scripts import Script, ScriptEngine

BESIDE: Final = f'authoritative["{VERDICT_KEY}"]'
IDENTITY: Final = {"target": f"{BESIDE}.target", "tenant": f"{BESIDE}.tenant"}
SOURCE: Final = "verification"
WITHIN, TIMEOUT = "10s", "10m"
POLL_PARTS: Final = (0, 10, 20, 40)
"""The schedule of readings, in hundredths of the visibility time."""
READER_TIMEOUT_MIN_S: Final = 10.0
NO_VERIFIER: Final = "The delegation has no verifier."
NOT_YET: Final = "The delegate has not answered yet."
NO_HOOK_ASKED: Final = "No hook was asked about this result, so nothing verifies it."
STILL_AT_WORK: Final = "the delegate gave no answer, and may still be at work"


@dataclass(frozen=True, slots=True)
class HookFunction:
    """A hook in Python. Create it with `delegation_hook`."""

    function: Handler
    event: str
    priority: int
    when: Handler | None
    name: str

    def __call__(self, event: str, payload: dict[str, Json]) -> object:
        """Ask the hook about an event."""
        return self.function(event, payload)


@dataclass(frozen=True, slots=True)
class Verifiers:
    """The verifiers of a delegation, as declared by the author."""

    inline: str | Check | None
    hooks: tuple[HookFile | HookFunction, ...]
    allow: ScriptPermissions
    limits: ScriptLimits

    @property
    def judges(self) -> bool:
        """Whether any verifier runs before the acceptance of a result."""
        return self.inline is not None or any(each.event == POST_VERIFY for each in self.hooks)

    @property
    def digest(self) -> str:
        """Return the verifiers' part of the contract's hash: texts, functions, hooks, `allow` and limits.

        Raises ContractFieldError for a function without a source.
        """
        if self.inline is None and not self.hooks:
            return ""
        inline: Json = None
        if self.inline is not None:
            inline = ["script", self.inline] if isinstance(self.inline, str) else ["function", _digest(self.inline)]
        hooks = sorted(map(_hook_text, self.hooks))
        allow: dict[str, Json] = {"http": [*self.allow.http], "fs": [*self.allow.fs], "sql": dict(self.allow.sql)}
        limits: dict[str, Json] = {each.name: repr(getattr(self.limits, each.name)) for each in fields(self.limits)}
        return sha256_hex(payload_bytes({"verify": inline, "hooks": [*hooks], "allow": allow, "limits": limits}))

    @property
    def longest_s(self) -> float:
        """The longest duration of one verification, in seconds."""
        scripts = isinstance(self.inline, str) + sum(2 for each in self.hooks if isinstance(each, HookFile))
        return max(READER_TIMEOUT_MIN_S, scripts * self.limits.longest_s)


def _hook_text(given: HookFile | HookFunction) -> str:
    """Return every part of a hook with influence on its order, its condition and its answer."""
    said: list[Json] = [given.name, given.event, given.priority]
    if isinstance(given, HookFile):
        said += ["script", given.script, given.when]
    else:
        said += ["function", _digest(given.function), "" if given.when is None else _digest(given.when)]
    return payload_bytes(said).decode()


def _digest(function: Callable[..., object]) -> str:
    """Return the version from `postcondition`, or else the digest of the function."""
    return version_given(function) or callable_digest(function)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Verifiers, compiled and checked for one runtime."""

    runtime: Runtime
    engine: ScriptEngine
    inline: Script | Check | None
    hooks: tuple[Hook, ...]


def prepare(verifiers: Verifiers, runtime: Runtime) -> Prepared:
    """Compile and check every script before any delegate runs. Raises ScriptCompileError, ScriptsMissingError."""
    engine = bootstrap.script_engine(runtime.now_us)
    allow, limits = verifiers.allow, verifiers.limits

    def compiled(source: str, name: str, entry: str, takes: int) -> Script:
        return engine.compile(source, name, entry=entry, takes=takes, allow=allow, limits=limits)

    def hook(given: HookFile | HookFunction) -> Hook:
        if isinstance(given, HookFunction):
            return Hook(given.name, given.event, given, given.priority, given.when)
        when = compiled(given.when, f"{given.name}.when", "", 0) if given.when else None
        return Hook(given.name, given.event, compiled(given.script, given.name, "handle", 2), given.priority, when)

    try:
        inline = verifiers.inline
        checked = compiled(inline, "verify", "run", 1) if isinstance(inline, str) else inline
        return Prepared(runtime, engine, checked, tuple(map(hook, verifiers.hooks)))
    except BaseException:
        engine.close()
        raise


def contract_options(
    name: str, verifiers: Verifiers, prepared: Callable[[], Prepared], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keys of the contract: the author's keys and the verifiers' additions. Raises UsageError."""
    options: dict[str, Any] = {"kind": "set", "side_effect": "low_risk_internal", "execute": {"timeout": TIMEOUT}}
    options |= {"name": name, "target": f"delegation/{name}/{{requested.delegation}}", **given}
    readers: Sequence[Reader] = tuple(given.get("readers", ()))
    ensure = dict(given.get("ensure", {}))
    if ensure and not readers:
        raise UsageError(
            "Postconditions of a delegation need a reader.", remedy="Give `readers=[...]` (readback.reader)."
        )
    if not verifiers.judges and not ensure:
        if readers:
            raise UsageError("A delegation with readers needs postconditions.", remedy="Give `ensure={...}`.")
        return {**options, "ensure": {"verified": f"{BESIDE}.verified == true"}, "unverifiable": NO_VERIFIER}
    if verifiers.judges:
        ensure["verified"] = f"{BESIDE}.verified == true"
        alone = not readers
        if alone:
            options.setdefault("identity", IDENTITY)
            readers = (_own(verifiers),)
        readers = tuple(_beside(each, verifiers, prepared, alone=alone) for each in readers)
    options.setdefault("within", WITHIN)
    options.setdefault("polls", _polls(options["within"]))
    return {**options, "ensure": ensure, "readers": readers}


def _polls(within: object) -> tuple[str, ...]:
    return tuple(f"{microseconds(within) * part // 100}us" for part in POLL_PARTS)


def _own(verifiers: Verifiers) -> Reader:
    """Return a reader without a system of record of its own: the verifiers do the reading."""

    def look(ctx: Context, arguments: Mapping[str, object]) -> Reading:
        if ctx.attempt == 0:
            return Reading.not_visible(NOT_YET)
        return Reading.of({})

    return Reader(SOURCE, look, False, SOURCE, "strong", "other_client", f"{verifiers.longest_s:.0f}s")


def _beside(reader: Reader, verifiers: Verifiers, prepared: Callable[[], Prepared], *, alone: bool) -> Reader:
    """Return the reader with the verifiers' verdict beside its reading. Before the call there is no verdict.

    `alone`: only the verifiers claim the effect.
    """

    def word(seen: object, ctx: Context, arguments: Mapping[str, object]) -> object:
        if ctx.attempt == 0 or not isinstance(seen, Reading) or seen.presence is not Presence.PRESENT:
            return seen
        if not isinstance(seen.value, dict):
            raise UsageError("A reading with verifiers beside it has to be an object.")
        result = observed_result(ctx.observed, str(arguments["delegation"]))
        ready = prepared()
        done = verify(ready.inline, ready.hooks, result, _args(arguments))
        if alone and not done.asked:
            return Reading.not_visible(NO_HOOK_ASKED)
        if done.judgement.verified is None:
            return Reading.unavailable(done.judgement.reason)
        if done.judgement.verified is False and not answered(ctx.observed):
            return Reading.unavailable(f"{STILL_AT_WORK}: {done.judgement.reason}")
        said: dict[str, Json] = {**done.as_json(result), "target": ctx.target, "tenant": ctx.tenant}
        return replace(seen, value={**seen.value, VERDICT_KEY: said})

    look = reader.look
    if reader.is_async:

        async def look_async(ctx: Context, arguments: Mapping[str, object]) -> object:
            import asyncio

            seen = await cast("Any", look(ctx, arguments))
            return await asyncio.to_thread(word, seen, ctx, arguments)

        return reader.seeing(look_async)
    return reader.seeing(lambda ctx, arguments: word(look(ctx, arguments), ctx, arguments))


def _args(arguments: Mapping[str, object]) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", arguments.get("args") or {})


def hook_of(given: object) -> HookFile | HookFunction:
    """Return a decorated hook or the hook of a file. Raises UsageError, DelegationHookError."""
    from pathlib import Path

    from readback.delegations.hook_files import read_hook_file

    if isinstance(given, HookFile | HookFunction):
        return given
    if isinstance(given, str | Path):
        return read_hook_file(given)
    raise UsageError(f"{given!r:.60} is no hook.", remedy="Give a file's path, or a function under @delegation_hook.")


def is_async(function: Callable[..., object]) -> bool:
    """Whether the delegate is a coroutine function."""
    return inspect.iscoroutinefunction(function)
