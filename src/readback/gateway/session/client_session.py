"""One client's session: forwards requests to the servers, and the servers' requests and notifications to the client.

The session decides nothing about tools: calls and lists go through the gate. Unknown methods are forwarded unchanged.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, LOG_LEVEL_META_KEY, METHOD_NOT_FOUND

from readback.agent_errors import GovernedTaskError
from readback.canon.fault import ReadbackError
from readback.gateway.call import Call, ToolGate
from readback.gateway.session import lists
from readback.gateway.session.listening import ACKNOWLEDGED, Listening
from readback.gateway.session.lists import Names
from readback.gateway.upstream import handshake
from readback.gateway.upstream.attachment import Attachment
from readback.gateway.upstream.connection import PROGRESS, UNTOLD, OnProgress
from readback.gateway.upstream.handshake import ClientInfo, ServerInfo
from readback.gateway.upstream.request_context import Context, Exchange, ask, tell
from readback.gateway.wire.cancellation import CANCELLED
from readback.gateway.wire.client_roots import permitted_in
from readback.gateway.wire.jsonl import is_json
from readback.gateway.wire.text_marks import unmarked

# Suspended requests of stateless clients. Each waits for the client's answers to a server's questions.

WAITS_S: Final = 600.0
WAITING_MAX: Final = 1000
"""Most suspended requests. Beyond, the oldest is abandoned."""
PREFIX: Final = "readback:"


class Waiting:
    """Suspended requests, by the state returned to the client."""

    def __init__(self) -> None:
        self._by_state: dict[str, tuple[Exchange, asyncio.TimerHandle]] = {}

    @property
    def exchanges(self) -> list[Exchange]:
        """All suspended requests, newest last."""
        return [exchange for exchange, _ in self._by_state.values()]

    def suspended(self, exchange: Exchange) -> dict[str, Any]:
        """Return the interim answer with the server's questions. The state is a secret, so that no other client can
        answer.
        """
        while len(self._by_state) >= WAITING_MAX:
            self._give_up(next(iter(self._by_state)))
        state = PREFIX + secrets.token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(WAITS_S, self._give_up, state)
        self._by_state[state] = exchange, timer
        return {"resultType": "input_required", "inputRequests": exchange.questions(), "requestState": state}

    def claimed(self, state: object) -> Exchange | None:
        """Return the suspended request of this state, or None for a new request or a server's own state.

        Raises MCPError for an expired state of ours; nothing is started again.
        """
        if not isinstance(state, str) or not state.startswith(PREFIX):
            return None
        found = self._by_state.pop(state, None)
        if found is None:
            raise MCPError(code=INVALID_PARAMS, message="The request no longer waits for input. Check its outcome.")
        exchange, timer = found
        timer.cancel()
        return exchange

    def close(self) -> None:
        """Abandon all suspended requests."""
        for state in tuple(self._by_state):
            self._give_up(state)

    def _give_up(self, state: str) -> None:
        found = self._by_state.pop(state, None)
        if found is not None:
            exchange, timer = found
            timer.cancel()
            exchange.abandon()


log = logging.getLogger(__name__)

Suspend = Callable[[dict[str, Any]], None]
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
FORWARDED: Final = frozenset({"notifications/roots/list_changed"})
"""Client notifications forwarded to every server."""


class ClientSession:
    """A client's session; the `Peer` of its servers. `private`: no other client uses the same connections."""

    def __init__(
        self, gate: ToolGate, attachments: Sequence[Attachment], *, modern: bool, private: bool = True
    ) -> None:
        self._gate = gate
        self._attachments = attachments
        self._names = Names([each.key for each in attachments])
        self._own_names = frozenset(own.get("name") for own in gate.own_tools())
        self._modern = modern
        self._private = private
        self._exchanges: dict[int, Exchange] = {}
        self._context: Context | None = None
        self._lists = lists.Lists(attachments, self._names)
        self._listening = Listening(attachments, private=private)
        self._waiting = Waiting()
        self._level: str | None = None
        self._introduced = False
        self._tokens = itertools.count(1)
        self._reports: dict[str, OnProgress] = {}
        """Progress callbacks for servers' requests to the client, by the client's progress token."""
        self._telling: set[asyncio.Task[None]] = set()
        gate.listeners.add(self._tools_changed)
        self._told: tuple[ServerInfo | None, Mapping[str, Any]] = (None, {})
        """The last server greeting, and the info made from it."""
        self._routes: dict[str, Callable[[Exchange, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._ping,
            "tools/list": self._tools,
            "tools/call": self._call,
            "prompts/list": self._lists.prompts,
            "prompts/get": self._prompt,
            "resources/list": self._lists.resources,
            "resources/templates/list": self._lists.templates,
            "resources/read": self._resource,
            "resources/subscribe": self._subscription,
            "resources/unsubscribe": self._subscription,
            "completion/complete": self._completion,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
            "tasks/list": self._lists.tasks,
            "tasks/get": self._task,
            "tasks/result": self._task,
            "tasks/cancel": self._task,
            "tasks/update": self._task,
        }
        if modern:
            self._routes.update(dict.fromkeys(handshake.HANDSHAKE_ONLY, self._removed))

    # --- from the client --------------------------------------------------------------------------------

    async def answer(self, context: Context, suspend: Suspend | None = None) -> dict[str, Any]:
        """Return the raw result of a client's request. Raises MCPError.

        `suspend`: for a caller whose task may continue after the answer. If a server asks first, `suspend` receives the
        interim answer, and the task's result answers the client's next request.
        """
        # The way to the client: the latest request of the handshake era, the first of the stateless era.
        if self._context is None or not self._modern:
            self._context = context
        # No question can come first: answer directly.
        if not self._modern or context.method not in handshake.INPUT_METHODS:
            return await self._shaped(Exchange(context, modern=self._modern))
        state = context.params.get("requestState") if context.params else None
        waiting = None if state is None else self._waiting.claimed(state)
        if waiting is not None:  # the client returns with answers to a suspended request
            return await self._interruptible(context, waiting)
        exchange = Exchange(context, modern=True)
        if exchange.may_be_asked:
            # Over HTTP the request's task ends with its response: the work gets a task of its own.
            if suspend is None:
                return await self._interruptible(context, exchange)
            # Over pipes the request's task may continue after the interim answer.
            exchange.suspend = lambda asked: suspend(self._asked_first(asked))
            exchange.task = asyncio.current_task()
        return await self._shaped(exchange)

    async def hear(self, context: Context) -> None:
        """Handle a client's notification."""
        if context.method == "notifications/initialized":
            for attachment in self._attachments:
                await attachment.introduced()
        elif context.method == CANCELLED:
            self.cancelled(context.params or {})
        elif context.method == PROGRESS:
            report = context.params or {}
            token = report.get("progressToken")
            if isinstance(token, str) and (on_progress := self._reports.get(token)) is not None and is_json(report):
                await on_progress(report)
        elif context.method in self._routes:
            log.warning("A client's %s without an id asks for nothing, and goes to no server.", context.method)
        elif context.method in FORWARDED or len(self._attachments) == 1:
            for attachment in self._attachments:
                if not attachment.modern:
                    await attachment.notify(context.method, context.params)

    def cancelled(self, params: Mapping[str, Any]) -> None:
        """Note the client's cancellation text for the server working on the request. Ends nothing by itself."""
        wanted = as_request_id(params.get("requestId"))
        if wanted is None or not self._private or not is_json(params):
            return
        key = coerce_request_id(wanted)
        for attachment in self._attachments:
            for _, exchange in attachment.under_way:
                number = None if exchange is None else exchange.context.request_id
                if exchange is not None and number is not None and coerce_request_id(number) == key:
                    exchange.cancelled = params

    async def _interruptible(self, context: Context, exchange: Exchange) -> dict[str, Any]:
        """Answer a request with its result or with a server's questions. `exchange`: a new or a resumed request."""
        if exchange.task is not None:
            try:
                exchange.resume(context, (context.params or {}).get("inputResponses"))
            except MCPError:
                exchange.abandon()  # the state is used up, so no client could answer
                raise
        else:
            exchange.task = asyncio.create_task(self._shaped(exchange))
        self._exchanges[id(exchange)] = exchange
        try:
            result = await exchange.outcome()
            return self._asked_first(exchange) if result is None else result
        finally:
            self._exchanges.pop(id(exchange), None)

    def _asked_first(self, exchange: Exchange) -> dict[str, Any]:
        """Suspend the request until the client returns, and return the interim answer with the server's questions."""
        self._exchanges.pop(id(exchange), None)
        asked = self._waiting.suspended(exchange)
        return handshake.stateless(exchange.context.method, asked, self._info())

    async def _shaped(self, exchange: Exchange) -> dict[str, Any]:
        context = exchange.context
        meta = (context.params or {}).get("_meta")
        if not (meta is None or isinstance(meta, Mapping)):
            raise MCPError(code=INVALID_PARAMS, message="_meta must be an object.")
        if not self._introduced:
            self._introduce(exchange)
        route = self._routes.get(context.method, self._other)
        self._exchanges[id(exchange)] = exchange
        try:
            result = await route(exchange, permitted_in(unmarked(context.params or {})))
        except ReadbackError as error:
            raise protocol_error(error) from error
        finally:
            self._exchanges.pop(id(exchange), None)
        if self._modern:
            return handshake.stateless(context.method, result, self._info())
        return handshake.handshake(result) if any(each.modern for each in self._attachments) else result

    def _introduce(self, exchange: Exchange) -> None:
        """Introduce the client to the servers, from its first request."""
        self._introduced = True
        hello = ClientInfo()
        if self._modern:
            hello = ClientInfo.of_envelope(exchange.meta)
            if not self._private:  # shared by all clients: a question is refused if its client cannot answer
                hello = ClientInfo(
                    True, hello.version, ClientInfo().info, {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
                )
        elif exchange.context.method == "initialize":
            hello = ClientInfo.of_initialize(exchange.context.params or {})
        for attachment in self._attachments:
            attachment.introduce(hello, self)

    @property
    def _greetings(self) -> list[tuple[str, ServerInfo]]:
        found = [(each.key, each.greeting) for each in self._attachments]
        return [(key, greeting) for key, greeting in found if greeting is not None] or [("", ServerInfo(False, "", {}))]

    def _info(self) -> Mapping[str, Any]:
        """Return the server info of the answer."""
        attachments, (of, info) = self._attachments, self._told
        greeting = attachments[0].greeting if len(attachments) == 1 else None
        if greeting is None:
            return handshake.info(self._greetings)
        if greeting is not of:
            info = greeting.info
            self._told = greeting, info
        return info

    async def _reached(self) -> list[tuple[str, ServerInfo]]:
        """Return the greetings of all reachable servers. Raises NotDispatchedError if none is reachable."""
        opened = await asyncio.gather(*(each.connection() for each in self._attachments), return_exceptions=True)
        faults = [each for each in opened if isinstance(each, BaseException)]
        for fault in faults:
            log.warning("%s", fault)
        if len(faults) == len(opened):
            raise faults[0]
        return self._greetings

    async def _initialize(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        greetings = await self._reached()
        for attachment in self._attachments:
            if attachment.modern:
                self._listening.follow(attachment)
        return handshake.initialized(greetings, str(params.get("protocolVersion")), bool(self._gate.own_tools()))

    async def _discover(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        return handshake.discovered(await self._reached(), bool(self._gate.own_tools()))

    async def _removed(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        """Reject a method removed from the stateless protocol, for any kind of server."""
        raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=exchange.context.method)

    async def _ping(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def _tools(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        result, pages = await self._lists.pages("tools/list", exchange, params)
        tools: list[dict[str, Any]] = []
        for index, page in pages:
            found = page.get("tools")
            shown = await self._gate.listed(self._attachments[index].key, found if isinstance(found, list) else [])
            tools += self._names.renamed(index, shown)
        if params.get("cursor") is None:
            tools += self._gate.own_tools()
        return {**result, "tools": tools}

    async def _call(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        tool, arguments = params.get("name"), params.get("arguments")
        if not isinstance(tool, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(code=INVALID_PARAMS, message="tools/call requires a name, and arguments as an object.")
        if tool in self._own_names:
            return await self._gate.own_call(Call(tool, "", tool, arguments or {}, params, exchange))
        found = self._names.owner(tool)
        if found is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {tool}")
        index, name = found
        attachment = self._attachments[index]
        if self._modern and LOG_LEVEL_META_KEY in exchange.meta:
            await self._wants_logs(attachment, exchange)
        call = Call(tool, attachment.key, name, arguments or {}, {**params, "name": name}, exchange)
        result = await self._gate.call(call, attachment)
        if "task" in result:
            self._lists.began(index, result)
        return result

    def header_schema(self, tool: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, by its client-side name, if calls repeat arguments in headers."""
        found = self._names.owner(tool)
        return None if found is None else self._attachments[found[0]].header_schema(found[1])

    async def _prompt(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        index, name = self._of_prompt(params.get("name"))
        return await self._forward(self._attachments[index], exchange, {**params, **name})

    async def _resource(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        owners = await self._lists.owners(str(params.get("uri")))
        return await self._first(owners, exchange, params)

    async def _task(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        found = await self._first(self._lists.at_work(params.get("taskId")), exchange, params)
        if exchange.context.method == "tasks/result":
            return self._gate.of_task(found)
        inside = found.get("result")  # `tasks/get` of the stateless era
        return {**found, "result": self._gate.of_task(inside)} if isinstance(inside, Mapping) else found

    async def _subscription(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        uri, method = str(params.get("uri")), exchange.context.method
        owners = await self._lists.owners(uri)
        modern = [each for each in owners if each.modern]
        for attachment in modern:
            self._listening.follow(attachment, uri, wanted=method == "resources/subscribe")
        rest = [each for each in owners if not each.modern]
        return await self._first(rest, exchange, params) if rest else {}

    async def _completion(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        ref = params.get("ref")
        if not self._names.several:  # a single server completes prompts and resources alike
            return await self._forward(self._attachments[0], exchange, params)
        ref = ref if isinstance(ref, dict) else {}
        if ref.get("type") == "ref/resource":
            return await self._first(await self._lists.owners(str(ref.get("uri"))), exchange, params)
        index, name = self._of_prompt(ref.get("name"))
        return await self._forward(self._attachments[index], exchange, {**params, "ref": {**ref, **name}})

    def _of_prompt(self, shown: object) -> tuple[int, dict[str, str]]:
        """Return the prompt's server, and the changed parameters if the server uses another name. Raises MCPError."""
        found = self._names.owner(str(shown))
        if found is None:
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt: {shown}")
        return found[0], {"name": found[1]} if self._names.several else {}

    async def _set_level(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        level = params.get("level")
        willing = []
        for attachment in self._attachments:
            connection = await attachment.connection()
            if connection.greeting.modern:
                connection.log_level = level if isinstance(level, str) else None
            elif not self._names.several or "logging" in connection.greeting.capabilities:
                willing.append(attachment)
        for attachment in willing:
            await self._forward(attachment, exchange, params)
        return {}

    async def _wants_logs(self, attachment: Attachment, exchange: Exchange) -> None:
        """Set the log level on an older server. Stateless clients send the level with each request, older servers
        expect it once.
        """
        level = exchange.meta.get(LOG_LEVEL_META_KEY)
        if level is None or level == self._level:
            return
        connection = await attachment.connection()
        if not connection.greeting.modern and "logging" in connection.greeting.capabilities:
            self._level = str(level)
            await attachment.request("logging/setLevel", {"level": level})

    async def _listen(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        if not self._modern:
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data="subscriptions/listen")
        await self._reached()
        return await self._listening.stream(exchange, params, self._lists.owners)

    async def _other(self, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        """Forward an unknown method if the gateway has a single server."""
        if self._names.several:
            raise MCPError(
                code=METHOD_NOT_FOUND,
                message="Several servers are behind this gateway, and the method names none of them.",
                data=exchange.context.method,
            )
        return await self._forward(self._attachments[0], exchange, params)

    async def _first(self, owners: Sequence[Attachment], exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        """Return the first successful answer, or raise the first error if all fail."""
        errors: list[Exception] = []
        for attachment in owners:
            try:
                return await self._forward(attachment, exchange, params)
            except (MCPError, ReadbackError) as error:
                errors.append(error)
        raise errors[0]

    async def _forward(self, attachment: Attachment, exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        had = exchange.context.params is not None
        drive = not self._modern  # stateless clients answer a server's questions themselves
        return await attachment.request(
            exchange.context.method, params if had else None, exchange=exchange, drive=drive
        )

    # --- from the servers -------------------------------------------------------------------------------

    async def asked(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """Forward a server's request to the client; see `Peer`."""
        if on_progress is None or self._modern:
            return await self._asked(method, params)
        token = f"rb-{next(self._tokens)}"  # two servers may use the same token
        self._reports[token] = on_progress
        meta = {**(params or {}).get("_meta", {}), "progressToken": token}
        try:
            return await self._asked(method, {**(params or {}), "_meta": meta})
        finally:
            del self._reports[token]

    async def _asked(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        exchange = self._asked_within()
        # A stateless client is asked only through an interim answer to an open request.
        if self._modern:
            if exchange is None:
                raise MCPError(code=METHOD_NOT_FOUND, message=f"No open request of the client can ask {method}.")
            return await exchange.ask(method, params)
        # A handshake client is asked on the request's stream, else on the session's own stream.
        try:
            if exchange is not None:
                return await exchange.ask(method, params)
        except NoBackChannelError:
            log.debug("asked on the session's own stream")
        if self._context is None:
            raise MCPError(code=METHOD_NOT_FOUND, message="No client is connected.")
        return await ask(self._context, method, params, within=False)

    def _asked_within(self) -> Exchange | None:
        """Return the request most likely behind a server's question: the latest one able to take long."""
        if not self._private:
            return self._only(handshake.INPUT_METHODS)
        found = [each for each in self._exchanges.values() if each.context.method in handshake.INPUT_METHODS]
        found = found or self._waiting.exchanges
        return found[-1] if found else None

    def _only(self, methods: Container[str] | None = None) -> Exchange | None:
        """Return the single request (of these methods) in work at shared servers, if its client still waits.

        With shared connections, a server's question about another client's request must never reach this client. The
        same holds for a request of a disconnected client.
        """
        every = [noted for each in self._attachments for noted in each.under_way]
        found = [exchange for method, exchange in every if methods is None or method in methods]
        here = [*self._exchanges.values(), *self._waiting.exchanges]
        return next((each for each in here if found == [each]), None)

    async def told(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Forward a server's notification; see `Peer`."""
        if method == TOOLS_CHANGED:
            for attachment in self._attachments:  # the notification does not name the server
                self._gate.tools_changed(attachment.key)
        if self._listening.take(method, params):
            # Delivered by open streams, or the acknowledgement of our own stream.
            if self._modern or method == ACKNOWLEDGED:
                return
        elif self._modern and method == "notifications/message":
            # Logs reach only a request with a matching log level, and with shared connections only a sole request.
            level = (params or {}).get("level")
            hearing = self._exchanges.values() if self._private else [each for each in (self._only(),) if each]
            takers = [each for each in hearing if handshake.opted_in(each.meta, level)]
            if takers:
                await takers[-1].tell(method, params)
            return
        elif exchange := self._asked_within():  # most likely about this request
            await exchange.tell(method, params)
            return
        if self._context is not None and self._private:
            await tell(self._context, method, params, within=False)

    def _tools_changed(self) -> None:
        """Notify the client of tools changed by the gate, without a server's notification."""
        task = asyncio.create_task(self._changed(TOOLS_CHANGED, {}))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _changed(self, method: str, params: Mapping[str, Any]) -> None:
        self._listening.take(method, params)
        if not self._modern and self._context is not None:
            with suppress(*UNTOLD):
                await tell(self._context, method, params, within=False)

    def close(self) -> None:
        """End the session of a disconnected client. Started calls continue."""
        self._gate.listeners.discard(self._tools_changed)
        for task in self._telling:
            task.cancel()
        self._listening.close()
        self._waiting.close()


def protocol_error(error: ReadbackError) -> MCPError:
    """Return the client's error: a server's own error unchanged, or our error with its code."""
    code, message = error.details.get("code"), error.details.get("message")
    if isinstance(code, int) and isinstance(message, str) and error.code == "gateway.tool-refused":
        return MCPError(code=code, message=message, data=error.details.get("data"))
    ours = METHOD_NOT_FOUND if isinstance(error, GovernedTaskError) else INTERNAL_ERROR  # required by the protocol
    return MCPError(code=ours, message=str(error), data={"code": error.code})
