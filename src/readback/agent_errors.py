"""Public: errors met by agents, from the gateway, hooks, delegations and decision types. See `errors`."""

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
    """An envelope cannot be enforced. `details["problems"]` holds every fault, each with its place.

    Nothing runs under the envelope.
    """

    code = "decision.envelope"
    remedy_default = "Correct every listed fault; `readback decisions check` lists all of them."


class BindingError(ContractError):
    """A contract does not offer what the envelope demands of an action. `details["problems"]` holds every gap."""

    code = "decision.binding"
    remedy_default = "Add the listed parts to the contract, or use another decision type for the action."


class VerifierLoadError(ContractError):
    """A custom verifier cannot be used: no file, no `verify`, a failing import, or a name already in use."""

    code = "decision.verifier"
    remedy_default = "Put NAME.py with a function `verify(context)` into the folder of verifiers."


class DecisionOrderError(InputError):
    """The steps of a decision came out of order, or a step came twice. The step changed nothing."""

    code = "decision.order"
    remedy_default = "Take the steps in order, once each: the context, the plan, then act, abstain or bypass."


class ForeignFileError(InputError):
    """A file of another system breaks its own format. `details["problems"]` holds every reason.

    Nothing of the file was used.
    """

    code = "import.file"
    remedy_default = "Ask the file's author for a valid file; nothing is guessed here."


KIND_FAILED: Final = "verification_failed"
"""The kind by which callers sort these errors, as the delegation specification names it."""


class DelegationFailedError(ReadbackError):
    """The delegate used every allowed attempt, and each reading refuted the delegate's statement.

    `attempts` and `reason` give the count and the last refutation; `delegated`, once set, is the whole record.
    """

    code = "delegation.verification-failed"
    exit_code = 1
    kind = KIND_FAILED
    remedy_default = "Read the reason: the work is not done. Review each attempt in the ledger."

    delegated: object = None

    @classmethod
    def after(cls, attempts: int, reason: str, delegated: object) -> DelegationFailedError:
        """Return the error of a delegation, with the number of refutations and the last reason."""
        made = cls(
            f"delegation verification failed after {attempts} attempt(s): {reason}",
            details={"kind": cls.kind, "attempts": attempts, "reason": reason},
        )
        made.delegated = delegated
        return made

    @property
    def attempts(self) -> int:
        """The number of verified attempts of the delegate."""
        return cast("int", self.details.get("attempts", 0))

    @property
    def reason(self) -> str:
        """The reason of the last refutation."""
        return str(self.details.get("reason", ""))


class ScriptError(VerifierError):
    """A verifier broke: it raised, gave no verdict, or exceeded a limit. The run accepts nothing and refutes nothing.

    `delegated`, once set, is the record of the judged delegation.
    """

    code = "delegation.script"
    kind = KIND_FAILED
    remedy_default = "Correct the verifier, then run `readback explain` for the action. The action was not judged."
    delegated: object = None


class ScriptLimitError(ScriptError):
    """A verifier's script exceeded its limit of time, memory, depth or host calls, and was stopped."""

    code = "delegation.script-limit"
    remedy_default = "Reduce the script's work; docs/delegations.md lists every limit."


class ScriptUnavailableError(ScriptError):
    """A verifier's script stopped at an unreachable system. The script is sound; nothing was judged."""

    code = "delegation.script-unavailable"
    remedy_default = "Make the folder or database available; reading continues until the deadline."


class ScriptsForkedError(ScriptUnavailableError):
    """Scripts ran in this process's parent before the fork.

    The script engine keeps threads that a fork does not copy.
    """

    code = "delegation.scripts-forked"
    remedy_default = "Start child processes with `spawn` or `forkserver`, or fork before the first delegation."


class ScriptCompileError(ContractError):
    """A verifier's script does not compile. Found before the delegate runs."""

    code = "delegation.script-compile"
    kind = KIND_FAILED
    remedy_default = "Correct the script: define the required function, and call nothing at load."


class DelegationHookError(ContractError):
    """A hook is malformed. `details["problems"]` holds every fault of the hook's file."""

    code = "delegation.hook"
    remedy_default = "Correct every listed fault; docs/delegations.md lists every key."


class ScriptsMissingError(SettingsError):
    """A script was given, and the script engine is not installed."""

    code = "delegation.scripts-missing"
    remedy_default = "Install readback-ai[scripts], or verify by a Python function or by postconditions."


class UpstreamLostError(ToolError):
    """The server behind the gateway went away, hung, or sent an invalid answer.

    The call's effect is unknown; the state is read back.
    """

    code = "gateway.upstream-lost"
    remedy_default = "Do not repeat; the result is unknown and being verified. Check that the server still runs."


class ToolRefusedError(ToolError):
    """The server answered a call with a protocol error.

    The error's code and text are evidence, as a tool's answer is.
    """

    code = "gateway.tool-refused"
    remedy_default = "Read the server's message; any change is read back."


class ToolChangedError(InputError):
    """A tool differs from the tool checked against the contract: schema, description or hints have changed."""

    code = "gateway.tool-changed"
    remedy_default = "Ask a person to check the tool, run `readback contracts check`, and load the contracts again."


class ToolDeniedError(InputError):
    """No contract governs the tool, and the gateway blocks ungoverned tools."""

    code = "gateway.tool-denied"
    remedy_default = "Write a contract for the tool, or allow ungoverned tools with --ungoverned unverified."


class GovernedTaskError(InputError):
    """A governed tool was called as a task. The verdict is the answer to the call itself. Nothing was sent."""

    code = "gateway.no-task"
    remedy_default = "Call the tool without `task`. After the hold the answer is pending; readback_wait gives the end."


class GatewayBusyError(InputError):
    """The gateway has the maximum number of calls in flight, or is stopping. Nothing was sent."""

    code = "gateway.busy"
    remedy_default = "Wait for calls in flight to end, then call again."


class GatewayEndedError(ToolError):
    """The gateway was stopped during a call. The call's effect is unknown; the next gateway settles the action."""

    code = "gateway.ended"
    remedy_default = "Do not repeat; query the action once a gateway runs again on the same ledger."


class OwnToolError(SettingsError):
    """A server's tool has the name of a built-in tool of the gateway."""

    code = "gateway.own-tool"
    remedy_default = "Give the server a key; the key becomes the prefix of its tools' names."


class NoSuchToolError(SettingsError):
    """A contract governs a tool listed by no server behind the gateway, or by several."""

    code = "gateway.no-such-tool"
    remedy_default = "Correct the contract's name, or name the tool and its server under `execute`."


class ForeignRequestError(InputError):
    """An HTTP request named another host, or came from a page of another origin. Nothing of the request was read."""

    code = "gateway.foreign-request"
    remedy_default = "Address the gateway by its own name (127.0.0.1, localhost or [::1]), in one Host header."


class TooManySessionsError(InputError):
    """The gateway has the maximum number of open HTTP sessions. No session was opened."""

    code = "gateway.too-many-sessions"
    remedy_default = "End a session (DELETE), wait for an idle session to expire, or raise --sessions-max."


class TooManyServersError(NotDispatchedError):
    """A server has the maximum number of processes for client sessions.

    No process was started, and nothing was sent.
    """

    code = "gateway.too-many-servers"
    remedy_default = "End a session, wait for an idle session to expire, or raise --servers-max."


class UpstreamDeniedError(NotDispatchedError):
    """The server answers with HTTP 401 or 403: credentials are missing or wrong. Nothing was called."""

    code = "gateway.upstream-denied"
    remedy_default = "Pass credentials with --header NAME=@FILE, or as `headers` in the contract file's server section."


class HookInputError(InputError):
    """The agent's input to a hook differs from the documented form. The tool is held back."""

    code = "hook.input"
    remedy_default = "Check the agent's version, and that this hook is configured for this event."


class HookFileError(SettingsError):
    """The file of governed tools cannot be used. Nothing of the file applies, and the tool is held back."""

    code = "hook.file"
    remedy_default = "Correct the named fault; docs/coding-agents.md lists every key."


class HookOrderError(InputError):
    """A tool was called without a recorded attempt: the hook before the call did not run, or was abandoned."""

    code = "hook.unrecorded"
    remedy_default = "Treat the result as unknown: read the target, and do not report the work as done."


class UnknownToolError(InputError):
    """The kit has no tool of this name, or no contract file governs the foreign tool. Nothing was called."""

    code = "kit.unknown-tool"
    remedy_default = "Name a tool of the kit, or pass the contract file that governs the tool to Kit.open."


class CallFailedError(ReadbackError):
    """A call through the kit ended in an unexpected error before any attempt. Nothing was sent."""

    code = "kit.failed"
    exit_code = 6
    remedy_default = "Do not call again as it is; tell the operator the name of the error."


class MissingFrameworkError(SettingsError):
    """An adapter was imported, and the adapter's framework is not installed."""

    code = "framework.missing"
    remedy_default = "Install the adapter's extra: readback-ai[NAME]."
