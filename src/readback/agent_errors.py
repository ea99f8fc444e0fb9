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

    Example:
        >>> from readback.agent_errors import EnvelopeError
        >>> from readback.decisions.contracts.load import load_envelope
        >>> try:
        ...     load_envelope(b"{}", "pay.yaml")
        ... except EnvelopeError as error:
        ...     print(error.code, len(error.details["problems"]) > 1)
        ...     print(error.remedy)
        decision.envelope True
        Correct every listed fault; `readback decisions check` lists all of them.
    """

    code = "decision.envelope"
    remedy_default = "Correct every listed fault; `readback decisions check` lists all of them."


class BindingError(ContractError):
    """A contract does not offer what the envelope demands of an action. `details["problems"]` holds every gap.

    Example:
        >>> from readback.agent_errors import BindingError
        >>> from readback.decisions.contracts.binding import bound
        >>> def gaps(action, envelope) -> list[object]:
        ...     try:
        ...         bound(action.plan, envelope)
        ...     except BindingError as error:
        ...         return list(error.details["problems"])
        ...     return []
        >>> print(BindingError.code)
        decision.binding
        >>> print(BindingError.remedy_default)
        Add the listed parts to the contract, or use another decision type for the action.
    """

    code = "decision.binding"
    remedy_default = "Add the listed parts to the contract, or use another decision type for the action."


class VerifierLoadError(ContractError):
    """A custom verifier cannot be used: no file, no `verify`, a failing import, or a name already in use.

    Example:
        >>> from readback.agent_errors import VerifierLoadError
        >>> from readback.decisions.contracts.verifiers import found_verifier
        >>> try:
        ...     found_verifier("stock_is_free", None)
        ... except VerifierLoadError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        decision.verifier
        Put NAME.py with a function `verify(context)` into the folder of verifiers.
    """

    code = "decision.verifier"
    remedy_default = "Put NAME.py with a function `verify(context)` into the folder of verifiers."


class DecisionOrderError(InputError):
    """The steps of a decision came out of order, or a step came twice. The step changed nothing.

    Example:
        >>> from readback import Readback
        >>> from readback.agent_errors import DecisionOrderError
        >>> from readback.decisions import DecisionType
        >>> def begin(decision_type: DecisionType, rb: Readback) -> str:
        ...     try:
        ...         decision_type.begin(rb)
        ...     except DecisionOrderError as error:
        ...         return f"{error.code}: {error.remedy}"
        ...     return "begun"
        >>> print(DecisionOrderError.code)
        decision.order
        >>> print(DecisionOrderError.remedy_default)
        Take the steps in order, once each: the context, the plan, then act, abstain or bypass.
    """

    code = "decision.order"
    remedy_default = "Take the steps in order, once each: the context, the plan, then act, abstain or bypass."


class ForeignFileError(InputError):
    """A file of another system breaks its own format. `details["problems"]` holds every reason.

    Nothing of the file was used.

    Example:
        >>> from readback.agent_errors import ForeignFileError
        >>> from readback.decisions.interop.imported import import_claims
        >>> try:
        ...     import_claims(b"{}", "claims.json")
        ... except ForeignFileError as error:
        ...     print(error.code, len(error.details["problems"]))
        ...     print(error.remedy)
        import.file 1
        Ask the file's author for a valid file; nothing is guessed here.
    """

    code = "import.file"
    remedy_default = "Ask the file's author for a valid file; nothing is guessed here."


KIND_FAILED: Final = "verification_failed"
"""The kind by which callers sort these errors, as the delegation specification names it."""


class DelegationFailedError(ReadbackError):
    """The delegate used every allowed attempt, and each reading refuted the delegate's statement.

    `attempts` and `reason` give the count and the last refutation; `delegated`, once set, is the whole record.

    Example:
        >>> from readback import Readback, Turn, delegation
        >>> from readback.agent_errors import DelegationFailedError
        >>> def check(result): return {"verified": False, "reason": "no order is named"}
        >>> @delegation(name="writer", verify=check, max_verify_retries=0, within="10ms")
        ... def writer(turn: Turn) -> str: return "Done."
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         writer.run(rb, "Name the order.")
        ...     except DelegationFailedError as error:
        ...         print(error.code, error.attempts, error.reason)
        ...         print(error.remedy)
        delegation.verification-failed 1 no order is named
        Read the reason: the work is not done. Review each attempt in the ledger.
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

    Example:
        >>> from readback import Readback, Turn, delegation
        >>> from readback.agent_errors import ScriptError
        >>> @delegation(name="writer", verify=lambda result: "yes", within="10ms")
        ... def writer(turn: Turn) -> str: return "Done."
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         writer.run(rb, "Name the order.")
        ...     except ScriptError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        delegation.script
        Correct the verifier, then run `readback explain` for the action. The action was not judged.
    """

    code = "delegation.script"
    kind = KIND_FAILED
    remedy_default = "Correct the verifier, then run `readback explain` for the action. The action was not judged."
    delegated: object = None


class ScriptLimitError(ScriptError):
    '''A verifier's script exceeded its limit of time, memory, depth or host calls, and was stopped.

    Example:
        >>> from readback import Readback, Turn, delegation
        >>> from readback.agent_errors import ScriptError
        >>> endless = """
        ... def run(result):
        ...     while True:
        ...         pass
        ... """
        >>> @delegation(name="writer", verify=endless, within="10ms")
        ... def writer(turn: Turn) -> str: return "Done."
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         writer.run(rb, "Name the order.")
        ...     except ScriptError as error:
        ...         print(error.message.partition(":")[0])
        delegation.script-limit
    '''

    code = "delegation.script-limit"
    remedy_default = "Reduce the script's work; docs/delegations.md lists every limit."


class ScriptUnavailableError(ScriptError):
    """A verifier's script stopped at an unreachable system. The script is sound; nothing was judged.

    Example:
        >>> from readback import Readback
        >>> from readback.agent_errors import ScriptUnavailableError
        >>> def delegate(writer, rb: Readback) -> str:
        ...     try:
        ...         return writer.run(rb, "Name the order.").response
        ...     except ScriptUnavailableError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(ScriptUnavailableError.code)
        delegation.script-unavailable
        >>> print(ScriptUnavailableError.remedy_default)
        Make the folder or database available; reading continues until the deadline.
    """

    code = "delegation.script-unavailable"
    remedy_default = "Make the folder or database available; reading continues until the deadline."


class ScriptsForkedError(ScriptUnavailableError):
    """Scripts ran in this process's parent before the fork.

    The script engine keeps threads that a fork does not copy.

    Example:
        >>> from readback import Readback
        >>> from readback.agent_errors import ScriptsForkedError
        >>> def delegate(writer, rb: Readback) -> str:
        ...     try:
        ...         return writer.run(rb, "Name the order.").response
        ...     except ScriptsForkedError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(ScriptsForkedError.code)
        delegation.scripts-forked
        >>> print(ScriptsForkedError.remedy_default)
        Start child processes with `spawn` or `forkserver`, or fork before the first delegation.
    """

    code = "delegation.scripts-forked"
    remedy_default = "Start child processes with `spawn` or `forkserver`, or fork before the first delegation."


class ScriptCompileError(ContractError):
    """A verifier's script does not compile. Found before the delegate runs.

    Example:
        >>> from readback import Readback, Turn, delegation
        >>> from readback.agent_errors import ScriptCompileError
        >>> @delegation(name="writer", verify="def run(result) return True")
        ... def writer(turn: Turn) -> str: return "Done."
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         writer.run(rb, "Name the order.")
        ...     except ScriptCompileError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        delegation.script-compile
        Correct the script: define the required function, and call nothing at load.
    """

    code = "delegation.script-compile"
    kind = KIND_FAILED
    remedy_default = "Correct the script: define the required function, and call nothing at load."


class DelegationHookError(ContractError):
    """A hook is malformed. `details["problems"]` holds every fault of the hook's file.

    Example:
        >>> from pathlib import Path
        >>> from readback import Turn, delegation
        >>> from readback.agent_errors import DelegationHookError
        >>> _ = Path("check.yaml").write_text("event: none")
        >>> try:
        ...     @delegation(name="writer", verify=lambda result: True, hooks=["check.yaml"])
        ...     def writer(turn: Turn) -> str: return "Done."
        ...     writer.check()
        ... except DelegationHookError as error:
        ...     print(error.code, error.message)
        delegation.hook The hook 'check' does not begin with a head between two lines of '---'.
    """

    code = "delegation.hook"
    remedy_default = "Correct every listed fault; docs/delegations.md lists every key."


class ScriptsMissingError(SettingsError):
    """A script was given, and the script engine is not installed.

    Example:
        >>> from readback import Readback
        >>> from readback.agent_errors import ScriptsMissingError
        >>> def delegate(writer, rb: Readback) -> str:
        ...     try:
        ...         return writer.run(rb, "Name the order.").response
        ...     except ScriptsMissingError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(ScriptsMissingError.code)
        delegation.scripts-missing
        >>> print(ScriptsMissingError.remedy_default)
        Install readback-ai[scripts], or verify by a Python function or by postconditions.
    """

    code = "delegation.scripts-missing"
    remedy_default = "Install readback-ai[scripts], or verify by a Python function or by postconditions."


class UpstreamLostError(ToolError):
    """The server behind the gateway went away, hung, or sent an invalid answer.

    The call's effect is unknown; the state is read back.

    Example:
        >>> from readback.agent_errors import UpstreamLostError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return UpstreamLostError.remedy_default if data["code"] == UpstreamLostError.code else ""
        >>> print(next_step({"code": "gateway.upstream-lost"}))
        Do not repeat; the result is unknown and being verified. Check that the server still runs.
    """

    code = "gateway.upstream-lost"
    remedy_default = "Do not repeat; the result is unknown and being verified. Check that the server still runs."


class ToolRefusedError(ToolError):
    """The server answered a call with a protocol error.

    The error's code and text are evidence, as a tool's answer is.

    Example:
        >>> from readback.agent_errors import ToolRefusedError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return ToolRefusedError.remedy_default if data["code"] == ToolRefusedError.code else ""
        >>> print(next_step({"code": "gateway.tool-refused"}))
        Read the server's message; any change is read back.
    """

    code = "gateway.tool-refused"
    remedy_default = "Read the server's message; any change is read back."


class ToolChangedError(InputError):
    """A tool differs from the tool checked against the contract: schema, description or hints have changed.

    Example:
        >>> from readback.agent_errors import ToolChangedError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return ToolChangedError.remedy_default if data["code"] == ToolChangedError.code else ""
        >>> print(next_step({"code": "gateway.tool-changed"}))
        Ask a person to check the tool, run `readback contracts check`, and load the contracts again.
    """

    code = "gateway.tool-changed"
    remedy_default = "Ask a person to check the tool, run `readback contracts check`, and load the contracts again."


class ToolDeniedError(InputError):
    """No contract governs the tool, and the gateway blocks ungoverned tools.

    Example:
        >>> from readback.agent_errors import ToolDeniedError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return ToolDeniedError.remedy_default if data["code"] == ToolDeniedError.code else ""
        >>> print(next_step({"code": "gateway.tool-denied"}))
        Write a contract for the tool, or allow ungoverned tools with --ungoverned unverified.
    """

    code = "gateway.tool-denied"
    remedy_default = "Write a contract for the tool, or allow ungoverned tools with --ungoverned unverified."


class GovernedTaskError(InputError):
    """A governed tool was called as a task. The verdict is the answer to the call itself. Nothing was sent.

    Example:
        >>> from readback.agent_errors import GovernedTaskError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return GovernedTaskError.remedy_default if data["code"] == GovernedTaskError.code else ""
        >>> print(next_step({"code": "gateway.no-task"}))
        Call the tool without `task`. After the hold the answer is pending; readback_wait gives the end.
    """

    code = "gateway.no-task"
    remedy_default = "Call the tool without `task`. After the hold the answer is pending; readback_wait gives the end."


class GatewayBusyError(InputError):
    """The gateway has the maximum number of calls in flight, or is stopping. Nothing was sent.

    Example:
        >>> from readback.agent_errors import GatewayBusyError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return GatewayBusyError.remedy_default if data["code"] == GatewayBusyError.code else ""
        >>> print(next_step({"code": "gateway.busy"}))
        Wait for calls in flight to end, then call again.
    """

    code = "gateway.busy"
    remedy_default = "Wait for calls in flight to end, then call again."


class GatewayEndedError(ToolError):
    """The gateway was stopped during a call. The call's effect is unknown; the next gateway settles the action.

    Example:
        >>> from readback.agent_errors import GatewayEndedError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return GatewayEndedError.remedy_default if data["code"] == GatewayEndedError.code else ""
        >>> print(next_step({"code": "gateway.ended"}))
        Do not repeat; query the action once a gateway runs again on the same ledger.
    """

    code = "gateway.ended"
    remedy_default = "Do not repeat; query the action once a gateway runs again on the same ledger."


class OwnToolError(SettingsError):
    """A server's tool has the name of a built-in tool of the gateway.

    Example:
        >>> from readback.agent_errors import OwnToolError
        >>> from readback.mcp import Gateway
        >>> async def serve(gateway: Gateway) -> str:
        ...     try:
        ...         async with gateway:
        ...             return "served"
        ...     except OwnToolError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(OwnToolError.code)
        gateway.own-tool
        >>> print(OwnToolError.remedy_default)
        Give the server a key; the key becomes the prefix of its tools' names.
    """

    code = "gateway.own-tool"
    remedy_default = "Give the server a key; the key becomes the prefix of its tools' names."


class NoSuchToolError(SettingsError):
    """A contract governs a tool listed by no server behind the gateway, or by several.

    Example:
        >>> from readback.agent_errors import NoSuchToolError
        >>> from readback.mcp import Gateway
        >>> async def serve(gateway: Gateway) -> str:
        ...     try:
        ...         async with gateway:
        ...             return "served"
        ...     except NoSuchToolError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(NoSuchToolError.code)
        gateway.no-such-tool
        >>> print(NoSuchToolError.remedy_default)
        Correct the contract's name, or name the tool and its server under `execute`.
    """

    code = "gateway.no-such-tool"
    remedy_default = "Correct the contract's name, or name the tool and its server under `execute`."


class ForeignRequestError(InputError):
    """An HTTP request named another host, or came from a page of another origin. Nothing of the request was read.

    Example:
        >>> from readback.agent_errors import ForeignRequestError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return ForeignRequestError.remedy_default if data["code"] == ForeignRequestError.code else ""
        >>> print(next_step({"code": "gateway.foreign-request"}))
        Address the gateway by its own name (127.0.0.1, localhost or [::1]), in one Host header.
    """

    code = "gateway.foreign-request"
    remedy_default = "Address the gateway by its own name (127.0.0.1, localhost or [::1]), in one Host header."


class TooManySessionsError(InputError):
    """The gateway has the maximum number of open HTTP sessions. No session was opened.

    Example:
        >>> from readback.agent_errors import TooManySessionsError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return TooManySessionsError.remedy_default if data["code"] == TooManySessionsError.code else ""
        >>> print(next_step({"code": "gateway.too-many-sessions"}))
        End a session (DELETE), wait for an idle session to expire, or raise --sessions-max.
    """

    code = "gateway.too-many-sessions"
    remedy_default = "End a session (DELETE), wait for an idle session to expire, or raise --sessions-max."


class TooManyServersError(NotDispatchedError):
    """A server has the maximum number of processes for client sessions.

    No process was started, and nothing was sent.

    Example:
        >>> from readback.agent_errors import TooManyServersError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return TooManyServersError.remedy_default if data["code"] == TooManyServersError.code else ""
        >>> print(next_step({"code": "gateway.too-many-servers"}))
        End a session, wait for an idle session to expire, or raise --servers-max.
    """

    code = "gateway.too-many-servers"
    remedy_default = "End a session, wait for an idle session to expire, or raise --servers-max."


class UpstreamDeniedError(NotDispatchedError):
    """The server answers with HTTP 401 or 403: credentials are missing or wrong. Nothing was called.

    Example:
        >>> from readback.agent_errors import UpstreamDeniedError
        >>> def next_step(data: dict[str, str]) -> str:
        ...     "Return the remedy for the `data` of an error in an MCP client."
        ...     return UpstreamDeniedError.remedy_default if data["code"] == UpstreamDeniedError.code else ""
        >>> print(next_step({"code": "gateway.upstream-denied"}))
        Pass credentials with --header NAME=@FILE, or as `headers` in the contract file's server section.
    """

    code = "gateway.upstream-denied"
    remedy_default = "Pass credentials with --header NAME=@FILE, or as `headers` in the contract file's server section."


class HookInputError(InputError):
    """The agent's input to a hook differs from the documented form. The tool is held back.

    Example:
        >>> from readback.agent_errors import HookInputError
        >>> from readback.hooks.protocol import read_call
        >>> try:
        ...     read_call(b'{"hook_event_name": "PreToolUse"}', "pre")
        ... except HookInputError as error:
        ...     print(error.code, error.message)
        ...     print(error.remedy)
        hook.input `tool_input` is missing or not an object.
        Check the agent's version, and that this hook is configured for this event.
    """

    code = "hook.input"
    remedy_default = "Check the agent's version, and that this hook is configured for this event."


class HookFileError(SettingsError):
    """The file of governed tools cannot be used. Nothing of the file applies, and the tool is held back.

    Example:
        >>> from readback.agent_errors import HookFileError
        >>> from readback.hooks.hook_file import read_hook_file
        >>> try:
        ...     read_hook_file("missing.yaml")
        ... except HookFileError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        hook.file
        Correct the named fault; docs/coding-agents.md lists every key.
    """

    code = "hook.file"
    remedy_default = "Correct the named fault; docs/coding-agents.md lists every key."


class HookOrderError(InputError):
    """A tool was called without a recorded attempt: the hook before the call did not run, or was abandoned.

    Example:
        >>> from readback.agent_errors import HookOrderError
        >>> def report(code: str, path: str) -> str:
        ...     if code == HookOrderError.code:
        ...         return f"{path} is unverified. {HookOrderError.remedy_default}"
        ...     return f"{path} is verified."
        >>> print(report("hook.unrecorded", "orders.csv"))
        orders.csv is unverified. Treat the result as unknown: read the target, and do not report the work as done.
    """

    code = "hook.unrecorded"
    remedy_default = "Treat the result as unknown: read the target, and do not report the work as done."


class UnknownToolError(InputError):
    """The kit has no tool of this name, or no contract file governs the foreign tool. Nothing was called.

    Example:
        >>> from readback.agent_errors import UnknownToolError
        >>> from readback.kit import Kit
        >>> with Kit.open("memory:") as kit:
        ...     try:
        ...         kit.tool("ship_order")
        ...     except UnknownToolError as error:
        ...         print(error.code, error.message)
        ...         print(error.remedy)
        kit.unknown-tool The kit has no tool 'ship_order'. There are: readback_status, readback_wait.
        Name a tool of the kit, or pass the contract file that governs the tool to Kit.open.
    """

    code = "kit.unknown-tool"
    remedy_default = "Name a tool of the kit, or pass the contract file that governs the tool to Kit.open."


class CallFailedError(ReadbackError):
    """A call through the kit ended in an unexpected error before any attempt. Nothing was sent.

    Example:
        >>> from readback.agent_errors import CallFailedError
        >>> from readback.kit import ToolResult
        >>> def needs_operator(result: ToolResult) -> bool:
        ...     return result.code == CallFailedError.code
        >>> print(CallFailedError.code)
        kit.failed
        >>> print(CallFailedError.remedy_default)
        Do not call again as it is; tell the operator the name of the error.
    """

    code = "kit.failed"
    exit_code = 6
    remedy_default = "Do not call again as it is; tell the operator the name of the error."


class MissingFrameworkError(SettingsError):
    """An adapter was imported, and the adapter's framework is not installed.

    Example:
        >>> from readback.agent_errors import MissingFrameworkError
        >>> from readback.frameworks.versions import of_framework
        >>> try:
        ...     with of_framework("langchain", "LangChain"):
        ...         import langchain_core_is_missing
        ... except MissingFrameworkError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        framework.missing
        Install readback-ai[langchain].
    """

    code = "framework.missing"
    remedy_default = "Install the adapter's extra: readback-ai[NAME]."
