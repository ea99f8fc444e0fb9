"""The kit: governed tools for any agent loop or framework, without a dependency beyond Readback.

One kit serves one ledger. Threads, event loops and `run_sync` of a framework share the kit. After construction no
method raises for a failed call or check: each failure is a result. Only cancellation and exits of the program pass.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from os import PathLike
from types import MappingProxyType, TracebackType
from typing import Any, Final

from readback.agent_errors import UnknownToolError
from readback.client.approving import TokenLike
from readback.client.client import Readback
from readback.client.files import FileAction
from readback.client.proposal import Definition
from readback.client.session import check_id
from readback.contracts.problems import did_you_mean
from readback.domain.contract.approval import ApprovalToken
from readback.errors import UsageError
from readback.kit.asking import ASKING, AskingTool
from readback.kit.calls import Arguments, Callee, Calls
from readback.kit.clients import RUN, Clients, SyncClient
from readback.kit.content import CONTENT_MAX_BYTES
from readback.kit.final import MODES, Corrections, FinalAnswer, Mode, believed, checked
from readback.kit.foreign import ForeignTools, Way
from readback.kit.operations import ShownCall
from readback.kit.results import Terms, ToolResult
from readback.kit.sagas import SagaDefinition
from readback.kit.tools import Tool
from readback.kit.wording import ASK

WAIT_S: Final = 20.0
"""Seconds to wait for a settled outcome, unless the kit or the call says."""
BELIEF_MAX_BYTES: Final = 4_096
CONTENT_MIN_BYTES: Final = 256
Path = str | PathLike[str]


class UngovernedToolsWarning(RuntimeWarning):
    """An agent has tools without a contract: their effects are neither verified nor recorded.

    Example:
        >>> import warnings
        >>> from readback.kit import Kit, UngovernedToolsWarning
        >>> with warnings.catch_warnings(record=True) as caught, Kit.open("memory:") as kit:
        ...     warnings.simplefilter("always", UngovernedToolsWarning)
        ...     ungoverned = kit.warn_ungoverned("my loop", ["search"])
        >>> print(ungoverned, caught[0].category.__name__)
        ('search',) UngovernedToolsWarning
    """


class Kit:
    """Governed tools over one ledger. Open a kit with `Kit.open`, and close it with `close` or a `with` block.

    Example:
        >>> from readback import verified
        >>> from readback.kit import Kit
        >>> order = {"status": "open"}
        >>> def ship_order(order_id: str) -> str:
        ...     "Ship an order."
        ...     return "shipped"  # a lie: nothing changed
        >>> expected = {"status": "shipped"}
        >>> ship = verified(ship_order, read=lambda: order, strong=True, expect=expected, within="50ms")
        >>> with Kit.open("memory:", actions=[ship], run="chat-1") as kit:
        ...     result = kit.tool("ship_order").run({"order_id": "o-17"})
        ...     final = kit.final("I have shipped the order.")
        >>> result.status, final.ok
        ('not_verified', False)
    """

    def __init__(
        self, clients: Clients, actions: Iterable[object], contracts: Iterable[Path], run: str, options: _Options
    ) -> None:
        self._clients, self._options = clients, options
        self._foreign = ForeignTools([*contracts])
        terms = Terms(options.cite, ASK if options.asking else "", options.content_max)
        self._calls = Calls(clients, self._foreign, terms, run, options.wait)
        self._run = run
        self._tools: dict[str, Tool] = {}
        self._warned: set[str] = set()
        for each in actions:
            self._add(each)
        for action in self._foreign.actions:
            clients.know(action.plan)

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        actions: Iterable[object] = (),
        contracts: Iterable[Path] = (),
        run: str = "",
        wait: float = WAIT_S,
        final: Mode = "replace",
        cite: bool = True,
        asking: bool = True,
        content_max: int = CONTENT_MAX_BYTES,
        **opened: Any,
    ) -> Kit:
        """Open the ledger at `url`, or create it, and return a kit with these tools.

        Args:
            url: The ledger's URL; READBACK_URL where left out.
            actions: Decorated actions, actions of contract files, and sagas made with `saga`.
            contracts: Contract files for foreign tools; see `govern`.
            run: The conversation of calls that name none. Left out, a fresh id that does not survive a restart.
            wait: Seconds to wait for a settled outcome. After that the result is pending.
            final: How `final` treats an answer: "replace", "append", "cite" or "off".
            cite: Whether verified results and beliefs carry citations.
            asking: Whether the tools include readback_wait and readback_status.
            content_max: The limit, in bytes, of a foreign tool's own content in a result's text.
            opened: Further parameters of `Readback.open`, such as `tenant`, `principal` and `approvers`.

        Raises:
            UsageError: a parameter has a wrong type or value, or two tools have one name.
            ContractError: an action, or a contract file, has faults.
            SettingsError: a setting is missing, or a file cannot be read.
            StoreError: the ledger cannot be opened.
        """
        options = _Options.checked(wait, final, content_max, cite=cite, asking=asking)
        listed, paths = _listed("actions", actions), _paths(contracts)
        clients = Clients.opened(url, {**opened, "run": run})
        return cls._made(clients, listed, paths, run, options)

    @classmethod
    def over(
        cls,
        client: Readback,
        *,
        actions: Iterable[object] = (),
        contracts: Iterable[Path] = (),
        run: str = "",
        wait: float = WAIT_S,
        final: Mode = "replace",
        cite: bool = True,
        asking: bool = True,
        content_max: int = CONTENT_MAX_BYTES,
    ) -> Kit:
        """Return a kit over an open client's ledger. The client stays open when the kit closes.

        The parameters are those of `open`, and so are the errors.
        """
        if not isinstance(client, Readback):
            raise UsageError(
                f"A kit needs an open Readback (got {type(client).__name__}).", remedy="Pass Readback.open(...)."
            )
        options = _Options.checked(wait, final, content_max, cite=cite, asking=asking)
        listed, paths = _listed("actions", actions), _paths(contracts)
        return cls._made(Clients.over(client), listed, paths, run, options)

    @classmethod
    def _made(cls, clients: Clients, actions: list[object], contracts: list[Path], run: str, options: _Options) -> Kit:
        try:
            session = clients.session
            session.check_open()
            check_id("run", run, UsageError, may_be_empty=True)
            own = run or session.scope.run or f"kit-{session.runtime.new_id()}"
            return cls(clients, actions, contracts, own, options)
        except BaseException:
            clients.close()
            raise

    # --- tools -----------------------------------------------------------------------------------------------------

    @property
    def client(self) -> SyncClient:
        """The sync client of the same ledger, a Readback, for people and programs."""
        return self._clients.sync

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name: own actions and sagas, governed tools, and the asking tools last."""
        asking = {name: AskingTool(self._calls, name, self._options.wait) for name in self._asking}
        return MappingProxyType({**self._tools, **asking})

    @property
    def own_tools(self) -> tuple[Tool, ...]:
        """The tools without those of the host: own actions, sagas, and the asking tools last."""
        return tuple(each for each in self.tools.values() if not each.foreign)

    def tool(self, name: str) -> Tool:
        """Return a tool by name. Raises UnknownToolError."""
        found = self._tools.get(name) or self.tools.get(name)
        if found is None:
            raise UnknownToolError(f"The kit has no tool {name!r:.80}.{did_you_mean(str(name), self.tools)}")
        return found

    def governs(self, name: str) -> bool:
        """Return whether a contract file governs the foreign tool of this name."""
        return name in self._foreign.names

    def govern(
        self,
        name: str,
        schema: Mapping[str, Any] | None = None,
        call: Way | None = None,
        *,
        description: str = "",
        definition: Mapping[str, Any] | None = None,
    ) -> Tool:
        """Govern a foreign tool by its contract file. The foreign tool itself is not changed.

        Args:
            name: The foreign tool's name, as the contract names it.
            schema: The JSON Schema of the arguments. Left out, the contract's own arguments count.
            call: The way to the tool: a sync or async callable of the arguments as one dict. Left out, each run
                passes its own `call`, or the host uses `Tool.begin` and `Tool.end`.
            description: The foreign tool's description.
            definition: The whole definition of the Model Context Protocol in place of `schema` and `description`.
                Hints of the definition make a contract stricter.

        Raises:
            UnknownToolError: no contract file of the kit governs the tool.
            UsageError: the contract acts by itself, the name belongs to an own tool, or a parameter has a wrong type.
            ContractFileError: the contract does not fit the schema.
        """
        defined = _definition(name, schema, description, definition)
        if call is not None and not callable(call):
            raise UsageError(f"call must be a callable (got {type(call).__name__}).", remedy="Pass a function.")
        known = self._tools.get(name)
        if (known is not None and not known.foreign) or name in self._asking:
            raise UsageError(f"The kit has a tool {name!r:.80} of its own.", remedy="Rename one of the two tools.")
        action = self._foreign.govern(name, defined, call)
        self._clients.know(action.plan)
        callee = Callee(name, action, foreign=name)
        self._calls.by_contract[action.name] = callee
        shown = str(defined.get("description") or "") or action.description
        self._tools[name] = tool = Tool(self._calls, callee, shown, action.arguments.schema)
        return tool

    def add_reader_tool(self, name: str, call: Way, *, server: str = "") -> None:
        """Register a foreign tool that contract files read with. Raises UsageError for anything but a callable.

        `server`: the server's name in the contract files; "" for the file's own.
        """
        given: object = name
        if not isinstance(given, str) or not callable(call):
            raise UsageError("A reader tool needs a name and a callable.", remedy="Pass add_reader_tool(name, call).")
        self._foreign.reads(server, name, call)

    def ungoverned(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names that are neither tools of the kit nor governed by a contract file, each once, in order."""
        return tuple(name for name in dict.fromkeys(names) if name not in self.tools and not self.governs(name))

    def warn_ungoverned(self, framework: str, names: Iterable[str]) -> tuple[str, ...]:
        """Warn once of each tool without a contract, and return the ungoverned names; see `ungoverned`."""
        found = self.ungoverned(names)
        fresh = sorted(set(found) - self._warned)
        if fresh:
            self._warned |= set(fresh)
            warnings.warn(
                f"{framework}: no contract governs {', '.join(map(repr, fresh))}. Readback neither verifies nor records"
                " these tools. Write contracts for them, or tell the user that their results are unverified.",
                UngovernedToolsWarning,
                stacklevel=3,
            )
        return found

    # --- runs and operations ---------------------------------------------------------------------------------------

    @contextmanager
    def session(self, run: str) -> Iterator[Kit]:
        """Name the run of the calls in this block, where a framework does not say the run at each call."""
        token = RUN.set(run)
        try:
            yield self
        finally:
            RUN.reset(token)

    @property
    def current_run(self) -> str:
        """The run of a call that names none: the session's, or the kit's own."""
        return self._calls.run_named(None)

    def operation(
        self,
        tool: str | Tool,
        arguments: Arguments,
        *,
        run: str | None = None,
        named: str = "",
        call_id: str = "",
        message_id: str = "",
        shown: Iterable[ShownCall] | None = None,
        ordinal: int = 0,
    ) -> str | None:
        """Return the name of a call's operation, for `Tool.run`. The same call gets the same name after a crash.

        The contract's own operation comes first (None is returned), then `named`. With `shown`, the name has the run,
        the tool, the SHA-256 of the arguments, and the number of results of that very call in the history. A call
        joins an earlier occurrence in doubt. Without `shown`, the ids of the framework count, never the call id alone.

        Args:
            tool: The tool, or its name.
            arguments: The arguments, as for `Tool.run`.
            run: The conversation.
            named: The caller's own business id for the intent.
            call_id: The framework's id of the call.
            message_id: The framework's id of the model's message with the call.
            shown: The results in the history that the model saw when it made the call.
            ordinal: The position among equal calls of one message, from 0.
        """
        callee = self._callee(tool)
        if callee is None:
            return named or None
        return self._calls.operation(
            callee,
            arguments,
            run,
            named=named,
            call_id=call_id,
            message_id=message_id,
            shown=shown,
            ordinal=ordinal,
        )

    async def aoperation(
        self,
        tool: str | Tool,
        arguments: Arguments,
        *,
        run: str | None = None,
        named: str = "",
        call_id: str = "",
        message_id: str = "",
        shown: Iterable[ShownCall] | None = None,
        ordinal: int = 0,
    ) -> str | None:
        """Return the name of a call's operation without blocking the event loop; see `operation`."""
        name_of = partial(
            self.operation,
            tool,
            arguments,
            run=run,
            named=named,
            call_id=call_id,
            message_id=message_id,
            shown=shown,
            ordinal=ordinal,
        )
        # Only a call with an earlier result needs the ledger. The first one stays in this thread: a hop to another
        # thread costs more than the name.
        wanted = tool.name if isinstance(tool, Tool) else tool
        if isinstance(shown, list) and all(isinstance(each, ShownCall) and each.tool != wanted for each in shown):
            return name_of()
        return await asyncio.to_thread(name_of)

    # --- pauses ----------------------------------------------------------------------------------------------------

    def resume(self, action: str, *, wait: float | None = None, call: Way | None = None) -> ToolResult:
        """Wait for an action, continue it where due, and return the result. A parked action returns at once.

        `call`: this process's way to the foreign tool, where `govern` has none.
        """
        return self._calls.resume(action, wait, call)

    async def aresume(self, action: str, *, wait: float | None = None, call: Way | None = None) -> ToolResult:
        """Wait for an action on the running event loop; see `resume`."""
        return await self._calls.aresume(action, wait, call)

    def approve(self, action: str, token: TokenLike) -> ToolResult:
        """Record an approver's signed token. Nothing is executed; `resume` or a worker continues."""
        return self._approved(action, token)[0]

    async def aapprove(self, action: str, token: TokenLike) -> ToolResult:
        """Record an approver's signed token without blocking the event loop; see `approve`."""
        return await asyncio.to_thread(self.approve, action, token)

    def reject(self, action: str, reason: str = "") -> ToolResult:
        """Cancel a parked action: a later signature is refused, and no worker acts. The ledger holds the reason.

        An action with an attempt stays as it is; the result is its outcome.
        """
        return self._calls.decided(action, lambda held: self.client.withdraw(held, reason=reason))[0]

    async def areject(self, action: str, reason: str = "") -> ToolResult:
        """Cancel a parked action without blocking the event loop; see `reject`."""
        return await asyncio.to_thread(self.reject, action, reason)

    async def areject_held(
        self, tool: Tool, arguments: Arguments, reason: str = "", *, operation: str | None = None
    ) -> None:
        """Cancel the parked action of this very call, where there is one; see `reject`."""
        if (held := await tool.aheld(arguments, operation=operation)) is not None:
            await self.areject(held.action, reason)

    def decide(self, action: str, answer: object, *, wait: float | None = None, call: Way | None = None) -> ToolResult:
        """Act on the answer of a framework's pause about a parked action, and return the action's result.

        A token approves, and the action continues. False, or a mapping with "approve" or "approved" False, rejects.
        Every other answer is no signature, and nothing acts without one: the action stays parked, unless a person has
        signed elsewhere.
        """
        token, is_rejected, reason = _answer(answer)
        if is_rejected:
            return self.reject(action, reason)
        found, counts = (None, True) if token is None else self._approved(action, token)
        resumed = self.resume(action, wait=wait, call=call)
        # A token that is recorded already counts no second time: the action may continue all the same.
        return resumed if counts or found is None or resumed.status != "parked" else found

    async def adecide(
        self, action: str, answer: object, *, wait: float | None = None, call: Way | None = None
    ) -> ToolResult:
        """Act on the answer of a framework's pause on the running event loop; see `decide`."""
        token, is_rejected, reason = _answer(answer)
        if is_rejected:
            return await self.areject(action, reason)
        found, counts = (None, True) if token is None else await asyncio.to_thread(self._approved, action, token)
        resumed = await self.aresume(action, wait=wait, call=call)
        return resumed if counts or found is None or resumed.status != "parked" else found

    def settle(
        self,
        tool: Tool,
        arguments: Arguments,
        ask: Callable[[ToolResult], object],
        *,
        run: str | None = None,
        call: Way | None = None,
        **named: Any,
    ) -> ToolResult:
        """Run a call of a framework that pauses for a person, and that runs the call again after the answer.

        The parked action of this very call comes first, so that a signed action waits for the framework's answer too.

        Args:
            tool: The tool.
            arguments: The arguments, as for `Tool.run`.
            ask: Receives a parked result. Returns the person's answer for `decide`, or leaves by the framework's own
                exception, which passes.
            run: The conversation.
            call: This call's own way to a foreign tool.
            named: The further parameters of `operation`.
        """
        operation = self.operation(tool, arguments, run=run, **named)
        result = tool.run_unless_held(arguments, operation=operation, run=run, call=call)
        return self.decide(result.action, ask(result), call=call) if result.status == "parked" else result

    async def asettle(
        self,
        tool: Tool,
        arguments: Arguments,
        ask: Callable[[ToolResult], object],
        *,
        run: str | None = None,
        call: Way | None = None,
        **named: Any,
    ) -> ToolResult:
        """Run a call on the running event loop; see `settle`. `ask` may be async."""
        operation = await self.aoperation(tool, arguments, run=run, **named)
        result = await tool.arun_unless_held(arguments, operation=operation, run=run, call=call)
        if result.status != "parked":
            return result
        answer = ask(result)
        if inspect.isawaitable(answer):
            answer = await answer
        return await self.adecide(result.action, answer, call=call)

    # --- the user and the model ------------------------------------------------------------------------------------

    def final(self, text: str, *, run: str | None = None, about: Collection[str] | None = None) -> FinalAnswer:
        """Check the final answer of a run, before a user sees the answer.

        Args:
            text: The answer.
            run: The conversation.
            about: The actions of this answer, by `ToolResult.action`. Ended failures of other actions do not count;
                open actions always do. Left out, the whole run counts.
        """
        return checked(self.client, text, self._calls.run_named(run), self._options.final, about)

    async def afinal(self, text: str, *, run: str | None = None, about: Collection[str] | None = None) -> FinalAnswer:
        """Check the final answer without blocking the event loop; see `final`."""
        return await asyncio.to_thread(self.final, text, run=run, about=about)

    def corrections(self, most: int, *, run: str | None = None, about: Collection[str] | None = None) -> Corrections:
        """Return the checks of one final answer that the model may correct `most` times; see `final`."""
        named: Any = {"run": self._calls.run_named(run), "about": about}
        return Corrections(most, partial(self.final, **named), partial(self.afinal, **named))

    def belief(self, run: str | None = None, max_bytes: int = BELIEF_MAX_BYTES) -> str:
        """Return the reconciled state of a run for the model's next context; "" for a run without actions.

        The text has at most `max_bytes` bytes.
        """
        return believed(self.client, self._calls.run_named(run), max_bytes, cite=self._options.cite)

    async def abelief(self, run: str | None = None, max_bytes: int = BELIEF_MAX_BYTES) -> str:
        """Return the state of a run without blocking the event loop; see `belief`."""
        return await asyncio.to_thread(self.belief, run, max_bytes)

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release files and threads. Unsettled actions stay in the ledger."""
        self._foreign.close()
        self._clients.close()

    async def aclose(self) -> None:
        """Release files and threads without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Kit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Kit:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- parts -----------------------------------------------------------------------------------------------------

    def _approved(self, action: str, token: TokenLike) -> tuple[ToolResult, bool]:
        return self._calls.decided(action, lambda held: self.client.approve(held, token))

    @property
    def _asking(self) -> tuple[str, ...]:
        return ASKING if self._options.asking else ()

    def _callee(self, name: str | Tool) -> Callee | None:
        tool = self._tools.get(name.name if isinstance(name, Tool) else name)
        return None if tool is None else tool.callee

    def _add(self, action: object) -> None:
        known = hasattr(type(action), "plan") and hasattr(type(action), "arguments")
        if not known and not isinstance(action, SagaDefinition):
            raise UsageError(
                f"A kit takes actions and sagas (got {type(action).__name__}).",
                remedy="Decorate the function with @action, verified or @saga, and pass the result.",
            )
        defined: Any = action
        if defined.name in self._tools or defined.name in self._asking:
            raise UsageError(f"Two tools of the kit have the name {defined.name!r}.", remedy="Rename one of them.")
        if isinstance(action, FileAction) and action.written.uncallable:
            raise UsageError(
                f"The action {action.name!r} of a contract file cannot be called here: {action.written.uncallable}.",
                remedy="Pass the file as contracts=, and the tool to Kit.govern.",
            )
        plans: list[Definition] = [*defined.actions] if isinstance(action, SagaDefinition) else [defined]
        for each in plans:
            self._clients.know(each.plan)
        self._tools[defined.name] = Tool(
            self._calls, Callee(defined.name, defined), defined.description or defined.name, defined.arguments.schema
        )


class _Options:
    """The checked options of a kit."""

    __slots__ = ("asking", "cite", "content_max", "final", "wait")

    def __init__(self, wait: float, final: Mode, content_max: int, *, cite: bool, asking: bool) -> None:
        self.wait, self.final, self.content_max, self.cite, self.asking = wait, final, content_max, cite, asking

    @classmethod
    def checked(cls, wait: object, final: object, content_max: object, *, cite: bool, asking: bool) -> _Options:
        """Raises UsageError for a wrong type or value."""
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < float("inf"):
            raise UsageError(f"wait must be a number of seconds (got {wait!r:.40}).", remedy="Pass wait=20.")
        if final not in MODES:
            raise UsageError(
                f"final must be one of {', '.join(MODES)} (got {final!r:.40}).", remedy='Pass final="replace".'
            )
        if isinstance(content_max, bool) or not isinstance(content_max, int) or content_max < CONTENT_MIN_BYTES:
            raise UsageError(
                f"content_max must be a number of bytes, at least {CONTENT_MIN_BYTES} (got {content_max!r:.40}).",
                remedy=f"Pass content_max={CONTENT_MAX_BYTES}.",
            )
        mode: Any = final
        return cls(float(wait), mode, content_max, cite=bool(cite), asking=bool(asking))


def _listed(name: str, given: object) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"{name} must be a list (got {type(given).__name__}).", remedy=f"Pass {name}=[...].")
    return [*given]


def _paths(given: object) -> list[Path]:
    paths = _listed("contracts", given)
    for each in paths:
        if not isinstance(each, str | PathLike):
            raise UsageError(
                f"contracts takes paths of files (got {type(each).__name__}).", remedy='Pass contracts=["tools.yaml"].'
            )
    return paths


def _definition(name: object, schema: object, description: object, definition: object) -> dict[str, Any]:
    """Return a foreign tool's definition. Raises UsageError for wrong types."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"A tool's name must be text (got {name!r:.40}).", remedy="Pass the foreign tool's name.")
    for what, value in (("schema", schema), ("definition", definition)):
        if value is not None and not isinstance(value, Mapping):
            raise UsageError(
                f"{what} must be a mapping (got {type(value).__name__}).", remedy="Pass the JSON Schema as a dict."
            )
    if not isinstance(description, str):
        raise UsageError("description must be text.", remedy="Pass description='...'.")
    if isinstance(definition, Mapping):
        return {**definition, "name": name}
    whole: dict[str, Any] = {"name": name, "inputSchema": dict(schema) if isinstance(schema, Mapping) else {}}
    return {**whole, "description": description} if description else whole


def _answer(answer: object) -> tuple[TokenLike | None, bool, str]:
    """Return the token in an answer, whether the answer rejects, and the reason of a rejection."""
    if isinstance(answer, ApprovalToken | bytes):
        return answer, False, ""
    if isinstance(answer, str):
        return (answer, False, "") if answer.lstrip().startswith("{") else (None, False, "")
    if isinstance(answer, Mapping):
        said = answer.get("approve", answer.get("approved"))
        if said is False or "rejected" in answer:
            return None, True, str(answer.get("reason") or answer.get("rejected") or "")
        if "signature" in answer:
            return answer, False, ""
        token = answer.get("token")
        return (token, False, "") if isinstance(token, ApprovalToken | bytes | str | Mapping) else (None, False, "")
    return None, answer is False, ""
