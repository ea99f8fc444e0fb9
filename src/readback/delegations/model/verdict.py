"""The answers of verifiers and their combination.

A malformed answer is an error of the verifier. Such an answer neither accepts the work nor sends the delegate again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from readback.agent_errors import ScriptError
from readback.canon import Json, ReadbackError, json_value
from readback.canon.frozen import dataclass
from readback.delegations.model.words import BARE_FALSE, NO_REASON, bounded
from readback.traces.format.strict_json import strict_json

VERDICT_MAX_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verifier's verdict. `verified` is None if undetermined, for example after a failed call of the verifier."""

    verified: bool | None
    reason: str = ""
    by: str = ""


class HookAction(StrEnum):
    """A hook's decision about a result."""

    ALLOW = "allow"
    BLOCK = "block"
    MODIFY = "modify"


@dataclass(frozen=True, slots=True)
class HookSaid:
    """A hook's answer. `payload`: a modified result for the next verifier."""

    action: HookAction
    reason: str = ""
    payload: Mapping[str, Json] | None = None


def parse_verdict(out: object, by: str) -> Judgement:
    """Parse a script's answer: JSON of an object with `verified`, or a bare truth value. Raises ScriptError."""
    if isinstance(out, bool):
        return Judgement(out, "" if out else BARE_FALSE, by)
    if out in ("True", "true", "False", "false"):
        return parse_verdict(out in ("True", "true"), by)
    if not isinstance(out, str):
        raise _no_verdict(by, f"It returned {type(out).__name__}")
    try:
        value = strict_json(out.encode(), "The verdict", bytes_max=VERDICT_MAX_BYTES)  # no key may stand there twice
    except (ReadbackError, UnicodeError) as error:
        raise _no_verdict(by, "It returned a text that is no JSON object") from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise _no_verdict(by, f"It returned JSON of a {type(value).__name__}")
    return parse_mapping(value, by)


def parse_mapping(value: Mapping[str, object], by: str) -> Judgement:
    """Return `verified` and `reason`. An object without `verified` verifies nothing. Raises ScriptError."""
    verified, reason = value.get("verified", False), value.get("reason", "")
    if not isinstance(verified, bool) or not isinstance(reason, str):
        raise _no_verdict(by, "`verified` is true or false, and `reason` a text; it returned something else for one")
    return Judgement(verified, "" if verified else bounded(reason), by)


def _no_verdict(by: str, said: str) -> ScriptError:
    remedy = 'Return json.encode({"verified": ..., "reason": ...}), or True or False.'
    return ScriptError(f"verify script error: {by} gave no verdict. {said}.", remedy=remedy)


def parse_hook(returned: object, by: str) -> HookSaid:
    """Parse a hook's answer, `{"action": "allow" | "block" | "modify", ...}`. Raises ScriptError for any other value.

    `modify` replaces the result by `payload`, or by the answer itself if the key is absent.
    """
    if isinstance(returned, HookSaid):
        return returned
    if not isinstance(returned, Mapping) or returned.get("action") not in list(HookAction):
        said = f"verify script error: hook {by!r} answered neither allow, block nor modify."
        raise ScriptError(said, remedy='Return {"action": "allow"}, or block with a reason, or modify with a payload.')
    action, reason = HookAction(str(returned["action"])), returned.get("reason", "")
    if not isinstance(reason, str):
        raise ScriptError(f"verify script error: hook {by!r} gave a reason that is no text.")
    if action is not HookAction.MODIFY:
        return HookSaid(action, reason)
    try:
        payload = json_value(returned.get("payload", dict(returned)))
    except ReadbackError as error:
        raise ScriptError(f"verify script error: the payload of hook {by!r} has no JSON form.") from error
    if not isinstance(payload, dict):
        raise ScriptError(f"verify script error: the payload of hook {by!r} is no object.")
    return HookSaid(action, reason, payload)


def blocked(name: str, reason: str) -> str:
    """The hook's reason for blocking."""
    return f'blocked by hook "{name}": {bounded(reason)}'


def together(judgements: Iterable[Judgement]) -> Judgement:
    """Combine verdicts. Every verifier must pass: one refutation refutes, and one doubt without a refutation leaves the
    result open.
    """
    found = list(judgements)
    refuted = [each.reason or NO_REASON for each in found if each.verified is False]
    if refuted:
        return Judgement(False, bounded("; ".join(refuted)))
    open_ = [each.reason for each in found if each.verified is None]
    if open_:
        return Judgement(None, bounded("; ".join(open_)))
    return Judgement(True)
