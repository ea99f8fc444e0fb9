"""Errors of delegations. Drawn into the tree at the top of `errors`."""

from __future__ import annotations

from typing import Final, cast

from readback.domain.errors import ContractError, ReadbackError, SettingsError, VerifierError

KIND_FAILED: Final = "verification_failed"
"""The kind that callers sort these errors by, as the delegation specification names it."""


class DelegationFailedError(ReadbackError):
    """The delegate was sent as often as it may be, and each time the reading refuted what it said.

    `attempts` and `reason` say how often and why last; `delegated`, once it is set, is the whole record.
    """

    code = "delegation.verification-failed"
    exit_code = 1
    kind = KIND_FAILED
    remedy_default = "Read the reason; the work is not done. What each attempt did is in the ledger, to be reviewed."

    delegated: object = None

    @classmethod
    def after(cls, attempts: int, reason: str, delegated: object) -> DelegationFailedError:
        """The error of a delegation that was refuted this often, and why last."""
        made = cls(
            f"delegation verification failed after {attempts} attempt(s): {reason}",
            details={"kind": cls.kind, "attempts": attempts, "reason": reason},
        )
        made.delegated = delegated
        return made

    @property
    def attempts(self) -> int:
        """How often what the delegate did was verified."""
        return cast("int", self.details.get("attempts", 0))

    @property
    def reason(self) -> str:
        """Why it was refuted last."""
        return str(self.details.get("reason", ""))


class ScriptError(VerifierError):
    """A verifier that broke: it raised, gave no verdict, or went over a limit. It accepts nothing and refutes nothing.

    `delegated`, once it is set, is the record of the delegation that it was to judge.
    """

    code = "delegation.script"
    kind = KIND_FAILED
    remedy_default = "Correct the verifier, then look at the action with `readback explain`; it was not judged."
    delegated: object = None


class ScriptLimitError(ScriptError):
    """A verifier's script that took more time, memory, depth or host calls than it may. It was stopped."""

    code = "delegation.script-limit"
    remedy_default = "Let the script do less; docs/delegations.md names every limit."


class ScriptUnavailableError(ScriptError):
    """A verifier's script stopped at a system that could not be reached. The script is sound; nothing was judged."""

    code = "delegation.script-unavailable"
    remedy_default = "Make the folder or database available; the result is read again until the deadline."


class ScriptsForkedError(ScriptUnavailableError):
    """Scripts ran in this process's parent before the fork. What runs them keeps threads that a fork does not copy."""

    code = "delegation.scripts-forked"
    remedy_default = "Start child processes with `spawn` or `forkserver`, or fork before the first delegation."


class ScriptCompileError(ContractError):
    """A verifier's script that cannot be used as it is written. Found before the delegate runs."""

    code = "delegation.script-compile"
    kind = KIND_FAILED
    remedy_default = "Correct the script: it defines the function that is asked for, and calls nothing while it loads."


class DelegationHookError(ContractError):
    """A hook that cannot be used as it is written. `details["problems"]` holds every fault of its file."""

    code = "delegation.hook"
    remedy_default = "Correct all that is named; docs/delegations.md has every key."


class ScriptsMissingError(SettingsError):
    """There is a script, and what runs scripts is not installed."""

    code = "delegation.scripts-missing"
    remedy_default = "Install readback-ai[scripts], or verify by a Python function or by postconditions."
