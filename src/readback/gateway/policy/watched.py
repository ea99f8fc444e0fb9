"""Calls watched in shadow mode: tools without a contract, with readings of the same server before and after.

Called by the gate. A watched call is an action of one contract that nothing can verify. The readings are evidence for
the report (`readback shadow report`), and the client receives the server's own answer. Only reading tools named by the
operator are called: a server's own hints are not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

from readback.agent_errors import NoSuchToolError, ToolRefusedError, UpstreamLostError
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.client.authoring.action import ActionDefinition
from readback.client.proposal import Proposal
from readback.contracts.functions.callables import reader_of
from readback.contracts.problems import did_you_mean
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.drivers.group_commit import holding
from readback.errors import NotDispatchedError, SettingsError
from readback.gateway.call import Call, Toolserver
from readback.gateway.policy.catalogue import Catalogue, ToolKey
from readback.gateway.policy.servers import IN_HAND, InFlightCall, Servers, Window, cleared
from readback.gateway.policy.ungoverned import TIMEOUT, kept
from readback.gateway.wire.verbatim import is_faithful
from readback.ports.runtime import Runtime
from readback.shadow.pairs import AllowedRead, pairs_of, reads_for, says_it_writes
from readback.shadow.watched import WATCHED

READ_TIMEOUT_S: Final = 10.0
LOOK_AGAIN_S: Final = (0.2, 0.6, 1.2)
"""Pauses before further readings of an unchanged state. A change may become visible a moment after the answer."""
PAIRS_TOLD_MAX: Final = 40
WatchedContract: TypeAlias = "ActionDefinition[[str, str, Any, Any]]"
_STATE: Final = ("content", "structuredContent", "isError")
"""The parts of an answer that count as the state. The rest (`_meta`) may differ in every answer."""


@dataclass(slots=True)
class Traffic:
    """The calls under way at one server, without the readings of watched calls."""

    begun: int = 0
    flying: int = 0


@dataclass(slots=True)
class Watching:
    """The watched tools of one gateway. `names`: the reading tools of the operator (`TOOL`, or `TOOL=READING`)."""

    servers: Servers
    catalogue: Catalogue
    names: Sequence[str]
    say: Callable[[str], None]
    allowed: dict[str, list[AllowedRead]] = field(default_factory=dict)
    """The reading tools of each server."""
    traffic: dict[str, Traffic] = field(default_factory=dict)
    contract: WatchedContract | None = None

    def begin(self) -> WatchedContract:
        """Resolve the operator's names against the listed tools, print what is proposed, and return the contract.

        Raises NoSuchToolError for an unknown tool, and SettingsError for a malformed name.
        """
        for named in self.names:
            writing, _, reading = named.rpartition("=")
            key = self._key(reading)
            shows = self._key(writing)[1] if writing else ""
            if says_it_writes(self.catalogue.tool(key) or {}):
                self.say(f"The reading tool {key[1]!r:.200} says of itself that it writes; it is not called.")
            self.allowed.setdefault(key[0], []).append(AllowedRead(key[1], shows))
        if not self.names:
            self._propose()
        self.contract = self._contract()
        return self.contract

    def is_reading(self, key: ToolKey) -> bool:
        """Return whether the operator named the tool as a reading tool, so that its calls are not watched."""
        return any(each.name == key[1] for each in self.allowed.get(key[0], ()))

    def proposed(self, call: Call) -> Proposal:
        """Return a watched call as a proposal of the contract, with its readings."""
        assert self.contract is not None
        whole = is_faithful(call.arguments)
        arguments = kept(call.arguments)
        tool = self.catalogue.tool((call.server, call.name))
        reads: list[dict[str, Json]] = []
        if whole and tool is not None and arguments == dict(call.arguments):
            known = self.catalogue.tools(call.server)
            reads = reads_for(tool, call.arguments, known, self.allowed.get(call.server, ()))
            for each in reads:
                each["writes"] = says_it_writes(known[str(each["tool"])])
        return self.contract(call.server or "-", call.name or "-", arguments, reads)

    def enter(self, key: ToolKey) -> Callable[[], None]:
        """Count a call at the server, and return a function for the end. A reading tool's call is not counted."""
        if self.is_reading(key):
            return _nothing
        traffic = self.traffic.setdefault(key[0], Traffic())
        traffic.begun += 1
        traffic.flying += 1

        def leave() -> None:
            traffic.flying -= 1

        return leave

    # --- parts ---

    def _key(self, name: str) -> ToolKey:
        """Return a tool's key by the name that clients use."""
        name = name.strip()
        keys = self.servers.keys
        for server in keys:
            own = name.removeprefix(f"{server}__") if len(keys) > 1 and server else name
            known = self.catalogue.tools(server)
            if own in known and (len(keys) == 1 or name.startswith(f"{server}__")):
                return server, own
        if not name:
            raise SettingsError("--reads has an empty name.", remedy="Write --reads TOOL,TOOL or TOOL=READING.")
        listed = [
            f"{server}__{tool}" if len(keys) > 1 else tool for server in keys for tool in self.catalogue.tools(server)
        ]
        raise NoSuchToolError(
            f"--reads names the tool {name!r:.200}, and no server has such a tool.{did_you_mean(name, listed)}",
            remedy="Name listed tools; `readback shadow pairs` prints a proposal.",
        )

    def _propose(self) -> None:
        """Print the proposed reading tools. None is called before the operator names them."""
        for server in self.servers.keys:
            pairs = pairs_of([*self.catalogue.tools(server).values()])
            prefix = f"{server}__" if len(self.servers.keys) > 1 else ""
            reads = sorted({f"{prefix}{pair.read}" for pair in pairs})
            if reads:
                named = ",".join(reads[:PAIRS_TOLD_MAX])
                self.say(
                    f"No reading tool is allowed, so no call is judged. Proposed, if they only read: --reads {named}"
                )

    def _contract(self) -> WatchedContract:
        runtime = self.servers.runtime

        async def call(ctx: Context, server: str, tool: str, arguments: Any, reads: Any) -> object:
            flight = IN_HAND.get()
            if flight is None:
                raise NotDispatchedError("The caller is gone, and nothing permits a second call.")
            return kept(cleared(flight.server, await flight.send(flight.call.arguments, runtime)))

        async def look(ctx: Context, server: str, reads: Any) -> Reading:
            flight = IN_HAND.get()
            if flight is None:  # another process made the call: what happened meanwhile is not known
                return Reading.of({"target": ctx.target, "looks": [], "overlapped": True})
            return Reading.of({"target": ctx.target, **await self._looked(ctx, flight, reads, runtime)})

        return ActionDefinition(
            call,
            {
                "name": WATCHED,
                "version": "1",
                "kind": "set",
                "side_effect": "low_risk_internal",
                "target": "tool/{requested.server}/{requested.tool}",
                "mode": "shadow",
                "identity": {"target": "authoritative.target", "tenant": "not_offered"},
                "ensure": {"both readings exist": "before != null && authoritative != null"},
                "readers": [reader_of(look, source="the same server", timeout="2m", name="watched")],
                "execute": {"timeout": TIMEOUT},
                "late_window": "0s",
            },
        )

    async def _looked(
        self, ctx: Context, flight: InFlightCall, reads: Sequence[Mapping[str, Any]], runtime: Runtime
    ) -> dict[str, Json]:
        """Return one reading: the answers of the reading tools, and whether another call overlapped."""
        traffic = self.traffic.setdefault(flight.key[0], Traffic())
        if ctx.attempt == 0:
            window = flight.window = Window(traffic.begun, traffic.flying <= 1)
            first = await self._answers(flight.server, reads)
            second = first if _lacks(first) else await self._answers(flight.server, reads)
            looks = [_steady(one, other) for one, other in zip(first, second, strict=True)]
            return {"looks": [*looks], "overlapped": not window.alone}
        looks = await self._answers(flight.server, reads)
        before = [_answer_of(each) for each in _looks(ctx.before)]
        for pause_s in LOOK_AGAIN_S:
            if [_answer_of(each) for each in looks] != before or not reads or _lacks(looks):
                break  # a change, or no answer: a hanging reading is not waited for again
            await runtime.sleep_async(pause_s)
            looks = await self._answers(flight.server, reads)
        seen = flight.window
        overlapped = seen is None or not seen.alone or traffic.begun != seen.begun or traffic.flying > 1
        return {"looks": [*looks], "overlapped": overlapped}

    async def _answers(self, server: Toolserver, reads: Sequence[Mapping[str, Any]]) -> list[dict[str, Json]]:
        return [await self._answer(server, each) for each in reads]

    async def _answer(self, server: Toolserver, read: Mapping[str, Any]) -> dict[str, Json]:
        """Call one reading tool, and return the answer, or the reason for none. Skip a tool with writing hints."""
        named: dict[str, Json] = {"tool": str(read["tool"]), "answer": None, "reason": ""}
        if read.get("writes"):
            return named
        params: dict[str, Json] = {"name": str(read["tool"]), "arguments": dict(read["arguments"])}
        try:
            with holding(self.servers.runtime):
                raw = cleared(server, await server.call(params, timeout_s=READ_TIMEOUT_S))
        except (NotDispatchedError, UpstreamLostError, ToolRefusedError) as error:
            return {**named, "reason": f"The reading tool {read['tool']!r:.200} gave no answer: {error.message:.300}"}
        return {**named, "answer": kept({key: raw[key] for key in _STATE if key in raw})}


def _nothing() -> None:
    """Leave an uncounted call."""


def _steady(one: dict[str, Json], other: dict[str, Json]) -> dict[str, Json]:
    return {**other, "steady": one == other}


def _lacks(looks: Sequence[Mapping[str, Json]]) -> bool:
    """Return whether a reading tool gave no answer."""
    return any(_answer_of(each) is None for each in looks)


def _looks(reading: Json) -> Iterable[Mapping[str, Json]]:
    found = reading.get("looks") if isinstance(reading, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _answer_of(look: Mapping[str, Json]) -> Json:
    return look.get("answer")
