"""Public: errors that agents meet: of the gateway, of hooks, of delegations and of decision types. See `errors`."""

from __future__ import annotations

from typing import Final, cast

from readback.errors import (
    ContractError,
    InputError,
    NotDispatchedError,
    ReadbackError,
    SettingsError,
    ToolError,
    VerifierError,
)


class EnvelopeError(ContractError):
    """An envelope that cannot be enforced. `details["problems"]` holds every fault, each with its place.

    Nothing runs under it.
    """

    code = "decision.envelope"
    remedy_default = "Correct all that is named; `readback decisions check` names all faults."


class BindingError(ContractError):
    """A contract that does not offer what the envelope demands of an action. `details["problems"]` holds all of it."""

    code = "decision.binding"
    remedy_default = "Give the contract what is named, or let another decision type govern the action."


class VerifierLoadError(ContractError):
    """A custom verifier that cannot be used: no file, no `verify`, an import that fails, a name that is taken."""

    code = "decision.verifier"
    remedy_default = "Put NAME.py with a function `verify(context)` into the folder of verifiers."


class DecisionOrderError(InputError):
    """The steps of a decision were taken out of their order, or one was taken twice. Nothing was done by it."""

    code = "decision.order"
    remedy_default = "First the context, then the plan, then act, abstain or bypass, once each."


class ForeignFileError(InputError):
    """A file of another system that breaks its own format. `details["problems"]` holds every reason.

    Nothing of it was used.
    """

    code = "import.file"
    remedy_default = "Ask whoever wrote the file for one that keeps its own format; nothing is guessed here."


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


class UpstreamLostError(ToolError):
    """The server behind the gateway went away, hung, or answered with what is no answer.

    Whether the call had its effect is not known; it is read back.
    """

    code = "gateway.upstream-lost"
    remedy_default = "Do not repeat; the result is unknown and being verified. Look whether the server still runs."


class ToolRefusedError(ToolError):
    """The server answered a call with a protocol error: its code and words are evidence, as a tool's answer is."""

    code = "gateway.tool-refused"
    remedy_default = "Read what the server said; whether anything was changed is read back."


class ToolChangedError(InputError):
    """A tool is not the one that its contract was checked against: its schema, description or hints are others."""

    code = "gateway.tool-changed"
    remedy_default = "Let a person look at the tool, run `readback contracts check`, and load the contracts again."


class ToolDeniedError(InputError):
    """No contract governs the tool, and the gateway lets no such tool through."""

    code = "gateway.tool-denied"
    remedy_default = "Write a contract for it, or let ungoverned tools pass with --ungoverned unverified."


class GovernedTaskError(InputError):
    """A governed tool was asked for as a task: its verdict is the answer to the call itself. Nothing was sent."""

    code = "gateway.no-task"
    remedy_default = (
        "Call it without `task`: after the hold the answer is that it is pending; readback_wait has its end."
    )


class GatewayBusyError(InputError):
    """As many calls are in flight as the gateway takes, or it is ending. Nothing was sent."""

    code = "gateway.busy"
    remedy_default = "Wait for calls that are in flight, then call again."


class GatewayEndedError(ToolError):
    """The gateway was told to end while a call was under way. What it did is unknown; the next gateway settles it."""

    code = "gateway.ended"
    remedy_default = "Do not repeat; ask for the action when a gateway runs again over the same ledger."


class OwnToolError(SettingsError):
    """A server has a tool of a name that the gateway's own tools bear."""

    code = "gateway.own-tool"
    remedy_default = "Give the server a key, so that its tools bear that before their names."


class NoSuchToolError(SettingsError):
    """A contract governs a tool that no server behind the gateway lists, or that several list."""

    code = "gateway.no-such-tool"
    remedy_default = "Correct the contract's name, or name the tool and its server under `execute`."


class ForeignRequestError(InputError):
    """An HTTP request was addressed to another host, or comes from a page of another origin. Nothing of it was read."""

    code = "gateway.foreign-request"
    remedy_default = "Address the gateway by the name that it listens at (127.0.0.1, localhost or [::1]), once."


class TooManySessionsError(InputError):
    """As many sessions over HTTP are open as the gateway takes. None was opened."""

    code = "gateway.too-many-sessions"
    remedy_default = "End a session (DELETE), wait until one has idled long enough, or raise --sessions-max."


class TooManyServersError(NotDispatchedError):
    """As many processes of a server run for client sessions as may. None was started, and nothing was sent."""

    code = "gateway.too-many-servers"
    remedy_default = "End a session, wait until one has idled long enough, or raise --servers-max."


class UpstreamDeniedError(NotDispatchedError):
    """The server answers with HTTP 401 or 403: it wants credentials, or others. Nothing was called."""

    code = "gateway.upstream-denied"
    remedy_default = "Give credentials with --header NAME=@FILE, or as `headers` in the contract file's server section."


class HookInputError(InputError):
    """What the agent handed to a hook is not what its hooks are documented to be handed. The tool is held back."""

    code = "hook.input"
    remedy_default = "Look whether the agent is recent enough, and whether this hook is set up for this event."


class HookFileError(SettingsError):
    """The file that says which tools are governed cannot be used. Nothing of it is, and the tool is held back."""

    code = "hook.file"
    remedy_default = "Correct what is named; docs/coding-agents.md has every key."


class HookOrderError(InputError):
    """A tool was called, and no attempt of the call is on record: the hook before it did not run, or was given up."""

    code = "hook.unrecorded"
    remedy_default = "Take its result for unknown: read what it was to change, and tell nobody that it is done."
