"""Errors of the gateway in front of tool servers. Drawn into the tree at the top of `errors`."""

from __future__ import annotations

from readback.domain.errors import InputError, NotDispatchedError, SettingsError, ToolError


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
