"""The scenario list: what every framework is put through. Each scenario judges by the shop's tables and by the ledger.

`Verdict.false_successes` counts successes that were told and that the system of record does not show.
`Verdict.second_effects` counts calls of tools beyond the intended ones. Both have to be 0 in each scenario.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from readback import Readback
from tests.frameworks import shop
from tests.frameworks.driver import Call, Driver, Played, Result, Seen, Setting, Turn

LIE = "I have shipped both orders."
CORRECTIONS_MAX = 4
"""A model that repeats its lie is asked this often at most in these scenarios."""

HAZARDS = "the_frameworks_own_hazards"
"""The scenario of which each driver has its own."""
WAITS_MAX = 8
"""Calls of `readback_wait` after which the model gives up."""

SHIP = Call("ship_order", {"order_id": "o-17"}, "c1")
LIED = Call("ship_order", {"order_id": "o-18", "carrier": "dhl"}, "c2")
PAY = Call("pay", {"to": "s1", "amount": 900}, "p1")
CRASH = Call("open_ticket", {"queue": "crash", "title": "T"}, "k1")

FEATURES = {
    "tools": "Own actions as tools, with the framework's error flag",
    "foreign": "Foreign tools governed by a contract file",
    "operation": "The same operation over retries, crash and resume",
    "pause": "Parked and pending actions, through the framework's own pause",
    "final": "The final answer held back, corrected, at last replaced",
    "closed": "Async, streams, parallel calls; failure closed",
}


@dataclass
class Verdict:
    """What a scenario found."""

    faults: list[str] = field(default_factory=list)
    false_successes: int = 0
    second_effects: int = 0
    acts: dict[str, int] = field(default_factory=dict)

    def expect(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.append(fault)


Judge = Callable[["Bed"], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    name: str
    feature: str
    judge: Judge


SCENARIOS: list[Scenario] = []


def scenario(feature: str) -> Callable[[Judge], Judge]:
    def enrol(judge: Judge) -> Judge:
        SCENARIOS.append(Scenario(judge.__name__, feature, judge))
        return judge

    return enrol


@dataclass
class Bed:
    """One scenario's own shop and ledger, the driver, and the verdict in the making."""

    home: Path
    driver: Callable[..., Driver]
    framework: str
    verdict: Verdict = field(default_factory=Verdict)

    def open(self, **options: Any) -> Driver:
        """The driver over a new kit of this shop."""
        from readback.kit import Kit

        chosen = {"wait": 5.0, "contracts": [self.home / "book.yaml"], **options}
        return self.driver(Kit.open(**shop.opening(), **chosen))

    def client(self) -> Readback:
        """Another process's client, as far as the ledger can tell: people and workers."""
        return Readback.open(**shop.opening())

    def told(self, calls: Sequence[Call], played: Played) -> list[bool]:
        """Compare each result with the system of record. Count the false successes, and return the flags."""
        for call, result in zip(calls, played.results, strict=False):
            truth = isinstance(call.arguments, Mapping) and shop.holds(call.name, call.arguments)
            if result.ok and not truth:
                self.verdict.false_successes += 1
        if LIE in played.final and not all(shop.holds(c.name, c.arguments) for c in calls):
            self.verdict.false_successes += 1
        self.verdict.expect(not played.raised, f"the run raised {played.raised}")
        return [result.ok for result in played.results]

    def acted(self, **expected: int) -> None:
        """Count the calls of each tool. More than expected are second effects."""
        for tool in ("ship_order", "open_ticket", "pay", "enter"):
            found, wanted = shop.acted(tool), expected.get(tool, 0)
            if found or wanted:
                self.verdict.acts[tool] = found
            self.verdict.second_effects += max(0, found - wanted)
            self.verdict.expect(found == wanted, f"{tool} was called {found} times, expected {wanted}")

    async def close(self, driver: Driver) -> None:
        await driver.kit.aclose()


async def _results(bed: Bed, calls: Sequence[Call], flags: list[bool], setting: Setting, **acted: int) -> Played:
    """One model turn of calls and a short end, judged."""
    driver = bed.open()
    try:
        played = await driver.play([calls, "The run ends here."], setting)
    finally:
        await bed.close(driver)
    found = bed.told(calls, played)
    bed.verdict.expect(found == flags, f"the success flags are {found}, expected {flags}: {_texts(played.results)}")
    bed.acted(**acted)
    return played


def _texts(results: Sequence[Result]) -> str:
    return " | ".join(result.text[:160].replace("\n", " ") for result in results)


# --- own actions as tools


@scenario("tools")
async def verified(bed: Bed) -> None:
    await _results(bed, [SHIP], [True], Setting(), ship_order=1)


@scenario("tools")
async def a_lying_tool(bed: Bed) -> None:
    await _results(bed, [LIED], [False], Setting(), ship_order=1)


@scenario("tools")
async def a_broken_reader(bed: Bed) -> None:
    call = Call("ship_order", {"order_id": "o-13"}, "c1")
    driver = bed.open()
    try:
        played = await driver.play([[call], "The run ends here."], Setting())
    finally:
        await bed.close(driver)
    bed.verdict.false_successes += sum(result.ok for result in played.results)
    bed.verdict.expect([result.ok for result in played.results] == [False], f"not held: {_texts(played.results)}")
    bed.acted(ship_order=1)


@scenario("tools")
async def arguments_that_do_not_fit(bed: Bed) -> None:
    call = Call("ship_order", {"order": 1}, "c1")
    played = await _results(bed, [call], [False], Setting())
    _refused(bed, played)


@scenario("tools")
async def arguments_that_are_no_object(bed: Bed) -> None:
    """Some frameworks answer such a call themselves, or leave the call out. Nothing may act."""
    driver = bed.open()
    try:
        played = await driver.play([[Call("ship_order", "[1, 2]", "c1")], "The run ends here."], Setting())
    finally:
        await bed.close(driver)
    bed.verdict.false_successes += sum(result.ok for result in played.results)
    bed.acted()
    _refused(bed, played)


def _refused(bed: Bed, played: Played) -> None:
    text = played.results[0].text if played.results else ""
    bed.verdict.expect(
        "unknown" not in text.partition("\n")[0].lower(), f"told as unknown, and not as refused: {text[:80]}"
    )
    with bed.client() as rb:
        bed.verdict.expect(all(not outcome.verified for outcome in rb.list()), "the ledger holds a success")


@scenario("tools")
async def an_unknown_tool(bed: Bed) -> None:
    driver = bed.open()
    try:
        played = await driver.play([[Call("ship_everything", {}, "c1")], "The run ends here."], Setting())
    finally:
        await bed.close(driver)
    bed.verdict.false_successes += sum(result.ok for result in played.results)
    bed.verdict.expect(
        bool(played.raised) or [r.ok for r in played.results] in ([], [False]), "an unknown tool ended well"
    )
    bed.acted()


# --- foreign tools


def _entries() -> list[Call]:
    return [Call("enter", {"name": "rent", "amount": 3}, "e1"), Call("enter", {"name": "lost", "amount": 3}, "e2")]


@scenario("foreign")
async def a_foreign_tool(bed: Bed) -> None:
    played = await _results(bed, _entries(), [True, False], Setting(foreign="local"), enter=2)
    _content(bed, played)


@scenario("foreign")
async def a_foreign_tool_without_async(bed: Bed) -> None:
    played = await _results(bed, _entries(), [True, False], Setting(foreign="local", way="sync"), enter=2)
    _content(bed, played)


@scenario("foreign")
async def a_foreign_tool_over_mcp(bed: Bed) -> None:
    played = await _results(bed, _entries(), [True, False], Setting(foreign="mcp"), enter=2)
    _content(bed, played)


def _content(bed: Bed, played: Played) -> None:
    """The tool's own words reach the model for a verified call only."""
    texts = [result.text for result in played.results]
    bed.verdict.expect("Successfully entered 3 under rent" in texts[0], f"the content is missing: {texts[0][:200]}")
    bed.verdict.expect("Successfully entered" not in texts[-1], f"the lie was passed on: {texts[-1][:200]}")


@scenario("foreign")
async def an_ungoverned_tool_is_listed(bed: Bed) -> None:
    from readback.kit import UngovernedToolsWarning

    driver = bed.open()
    try:
        with _warnings() as caught:
            await driver.play(["The run ends here."], Setting(foreign="local", ungoverned=True))
    finally:
        await bed.close(driver)
    texts = [str(each.message) for each in caught if issubclass(each.category, UngovernedToolsWarning)]
    bed.verdict.expect(any("peek" in text for text in texts), f"no warning names the tool: {texts}")
    bed.verdict.expect(
        not any("enter" in text.replace("entered", "") for text in texts), f"governed, yet listed: {texts}"
    )


def _warnings() -> Any:
    import warnings

    class Caught(warnings.catch_warnings):
        def __enter__(self) -> Any:
            found = super().__enter__()
            warnings.simplefilter("always")
            return found

    return Caught(record=True)


# --- the same operation


@scenario("operation")
async def raise_after_write(bed: Bed) -> None:
    await _results(bed, [Call("open_ticket", {"queue": "boom", "title": "T"}, "c1")], [True], Setting(), open_ticket=1)


@scenario("operation")
async def the_framework_runs_the_turn_again(bed: Bed) -> None:
    call = Call("open_ticket", {"queue": "q", "title": "T"}, "c1")
    driver = bed.open()
    try:
        played = await driver.replay([[call], "The run ends here."], Setting())
    finally:
        await bed.close(driver)
    bed.told([call], played)
    bed.verdict.expect(bool(played.results), "the second run shows no result")
    bed.acted(open_ticket=1)


@scenario("operation")
async def the_same_call_id_twice(bed: Bed) -> None:
    calls = [Call("open_ticket", {"queue": "q", "title": title}, "call_0") for title in "AB"]
    await _two_turns(bed, calls)


@scenario("operation")
async def the_same_call_again_on_purpose(bed: Bed) -> None:
    calls = [Call("open_ticket", {"queue": "q", "title": "A"}, id_) for id_ in ("c1", "c2")]
    await _two_turns(bed, calls)


async def _two_turns(bed: Bed, calls: Sequence[Call]) -> None:
    driver = bed.open()
    try:
        played = await driver.play([[calls[0]], [calls[1]], "The run ends here."], Setting())
    finally:
        await bed.close(driver)
    flags = bed.told(calls, played)
    bed.verdict.expect(flags == [True, True], f"the success flags are {flags}: {_texts(played.results)}")
    bed.acted(open_ticket=2)


@scenario("operation")
async def a_crash_inside_the_tool(bed: Bed) -> None:
    """`os._exit` after the write, and a new process that resumes from the framework's own store."""
    for phase, code in (("crash", 9), ("resume", 0)):
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.frameworks.run",
            bed.framework,
            "--phase",
            phase,
            "--home",
            str(bed.home),
            env={**os.environ, **({"READBACK_BED_CRASH": "1"} if phase == "crash" else {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(child.communicate(), 120)
        text = output.decode(errors="replace")
        bed.verdict.expect(child.returncode == code, f"phase {phase} ended with {child.returncode}: {text[-600:]}")
    bed.acted(open_ticket=1)
    # The resumed process prints one line: how many results were flagged a success, and how many results there were.
    told = text.strip().rpartition("\n")[2] if not bed.verdict.faults else ""
    bed.verdict.expect(told == "1/1" or bool(bed.verdict.faults), f"the resumed run told {told!r}, expected 1/1")


async def crash_phase(framework: str, driver: Driver, home: Path, *, again: bool) -> str:
    """Play one phase of the crash in a process of its own, and return what the results told."""

    def once(seen: Seen) -> str | Sequence[Call]:
        """The call, unless the model has already been shown its result. After a crash the id may be new."""
        return "The run ends here." if seen.results else [replace(CRASH, id="k2" if again else "k1")]

    turns: list[Turn] = [once, "The run ends here."]
    store = home / "store"
    store.mkdir(exist_ok=True)
    played = await driver.play(turns, Setting(run="crashed", store=store, again=again))
    if played.raised:
        raise RuntimeError(played.raised)
    await driver.kit.aclose()
    assert shop.holds(CRASH.name, CRASH.arguments)
    return f"{sum(result.ok for result in played.results)}/{len(played.results)}"


# --- pauses


@scenario("pause")
async def pending_then_waited(bed: Bed) -> None:
    """The model waits with `readback_wait`, at most a second at a time, until the action is verified."""
    call = Call("open_ticket", {"queue": "slow", "title": "T"}, "c1")

    def wait_for_it(seen: Seen) -> str | Sequence[Call]:
        with bed.client() as rb:
            [outcome] = rb.list()
        if len(seen.results) == 1:
            bed.verdict.false_successes += int(outcome.verified)
            shop.settle()
        elif outcome.verified or len(seen.results) > WAITS_MAX:
            return "The run ends here."
        return [Call("readback_wait", {"action": outcome.id}, f"w{len(seen.results)}")]

    driver = bed.open(wait=1.0)
    try:
        played = await driver.play([[call], wait_for_it], Setting())
    finally:
        await bed.close(driver)
    bed.verdict.expect(not played.raised, f"the run raised {played.raised}")
    flags = [result.ok for result in played.results]
    bed.verdict.expect(len(flags) > 1 and flags[-1] and not any(flags[:-1]), f"the flags are {flags}")
    bed.acted(open_ticket=1)


async def _parked(bed: Bed, *, signed: bool, accept: bool, worker: bool = False) -> Played:
    """A payment that needs a person, beside a shipment. The framework pauses, and resumes after the person's answer."""
    driver = bed.open()
    calls, setting = [PAY, SHIP], Setting(run="paid")
    try:
        paused = await driver.play([calls, "The run ends here."], setting)
        bed.verdict.expect(not paused.raised, f"the run raised {paused.raised}")
        bed.verdict.expect(len(paused.actions) == 1, f"the pause names {paused.actions}, expected one action")
        bed.verdict.expect(shop.acted("pay") == 0, "paid without an approval")
        with bed.client() as rb:
            [held] = [outcome for outcome in rb.list() if outcome.hold == "approval"]
            bed.verdict.expect(paused.actions == (held.id,), f"the pause names {paused.actions}, the ledger {held.id}")
            if signed:
                rb.approve(held.id, shop.alice().approve(rb.approval(held.id), "alice"))
        resumed = await driver.resume(paused, ["The run ends here."], setting, accept=accept)
        if worker:
            with bed.client() as rb:
                rb.resume()
    finally:
        await bed.close(driver)
    bed.verdict.expect(not resumed.raised, f"the resumed run raised {resumed.raised}")
    flags = {result.name: result.ok for result in resumed.results}
    if flags.get("pay") and not shop.holds("pay", PAY.arguments):
        bed.verdict.false_successes += 1
    bed.verdict.expect("pay" in flags, "the resumed run has no result of the payment")
    bed.verdict.expect(bool(flags.get("pay")) == (signed and accept), f"the payment was told as {flags.get('pay')}")
    bed.acted(ship_order=1, pay=int(signed and accept))
    return resumed


@scenario("pause")
async def parked_then_signed(bed: Bed) -> None:
    await _parked(bed, signed=True, accept=True)


@scenario("pause")
async def parked_and_accepted_without_a_signature(bed: Bed) -> None:
    await _parked(bed, signed=False, accept=True)


@scenario("pause")
async def parked_then_rejected(bed: Bed) -> None:
    await _parked(bed, signed=False, accept=False)


@scenario("pause")
async def signed_yet_rejected_with_a_worker_running(bed: Bed) -> None:
    await _parked(bed, signed=True, accept=False, worker=True)


# --- the final answer


def _honest(seen: Seen) -> str:
    import re

    cites = re.findall(r"\[readback:[^\]]+\]", "\n".join(seen.results))
    return f"## Done\n\n- o-17 is shipped {cites[0] if cites else ''}\n\n## Open\n\n- o-18\n"


async def _final(bed: Bed, turns: Sequence[Turn], **options: Any) -> Played:
    driver = bed.open(**options)
    try:
        played = await driver.play([[SHIP, LIED], *turns], Setting())
    finally:
        await bed.close(driver)
    bed.told([SHIP, LIED], played)
    bed.acted(ship_order=2)
    return played


@scenario("final")
async def a_lying_answer_corrected_by_the_model(bed: Bed) -> None:
    played = await _final(bed, [LIE, _honest])
    bed.verdict.expect(
        played.final.startswith("## Done"), f"the corrected answer was not passed on: {played.final[:120]}"
    )


@scenario("final")
async def a_lying_answer_at_last_replaced(bed: Bed) -> None:
    played = await _final(bed, [LIE] * CORRECTIONS_MAX)
    bed.verdict.expect(bool(played.final.strip()), "no final answer is left")


@scenario("final")
async def an_ordinary_answer_passes(bed: Bed) -> None:
    driver = bed.open()
    try:
        played = await driver.play(["Good morning. How can I help?"], Setting())
    finally:
        await bed.close(driver)
    bed.verdict.expect(played.final == "Good morning. How can I help?", f"changed to {played.final[:120]!r}")
    bed.acted()


@scenario("final")
async def a_lying_answer_in_a_stream(bed: Bed) -> None:
    driver = bed.open()
    try:
        played = await driver.play([[SHIP, LIED], *[LIE] * CORRECTIONS_MAX], Setting(way="stream"))
    finally:
        await bed.close(driver)
    bed.told([SHIP, LIED], played)
    bed.verdict.expect(LIE not in played.streamed, "the stream passed the lie on before the check")
    bed.acted(ship_order=2)


# --- async, streams, parallel calls, failure closed


def _five() -> list[Call]:
    return [Call("open_ticket", {"queue": f"q{i}", "title": "T"}, f"a{i}") for i in range(5)]


@scenario("closed")
async def five_in_parallel(bed: Bed) -> None:
    await _results(bed, _five(), [True] * 5, Setting(), open_ticket=5)


@scenario("closed")
async def five_in_parallel_without_async(bed: Bed) -> None:
    await _results(bed, _five(), [True] * 5, Setting(way="sync"), open_ticket=5)


@scenario("closed")
async def five_in_a_stream(bed: Bed) -> None:
    await _results(bed, _five(), [True] * 5, Setting(way="stream"), open_ticket=5)


@scenario("closed")
async def two_equal_calls_in_one_turn(bed: Bed) -> None:
    calls = [Call("open_ticket", {"queue": "q", "title": "T"}, id_) for id_ in ("a", "b")]
    await _results(bed, calls, [True, True], Setting(), open_ticket=2)


@scenario("closed")
async def the_frameworks_own_hazards(bed: Bed) -> None:
    driver = bed.open()
    try:
        bed.verdict.faults += await driver.hazards()
    finally:
        await bed.close(driver)


@scenario("closed")
async def each_hook_raises(bed: Bed) -> None:
    """A hook that raises may end the run or become a tool error. The tool is not called, and no success is told."""
    for hook in bed.driver.hooks:  # type: ignore[attr-defined]
        driver = bed.open()
        before = {tool: shop.acted(tool) for tool in ("ship_order", "enter")}
        # A final answer that lies: where the framework passes the answer on, the check is repeated outside.
        calls = [SHIP, LIED] if hook.startswith("final") else [SHIP, _entries()[0]]
        turns: list[Turn] = [calls, *[LIE] * CORRECTIONS_MAX] if hook.startswith("final") else [calls, "The run ends."]
        try:
            played = await driver.play(turns, Setting(run=f"broken-{hook}", foreign="local", broken=hook))
        finally:
            await bed.close(driver)
        if hook.startswith("final"):
            passed = LIE in played.final
            bed.verdict.false_successes += int(passed)
            bed.verdict.expect(not passed, f"{hook} raised, and the answer was passed on")
            continue
        # The hook of a tool may be of one kind of tools alone, so only the tool that it guards has to stay untouched.
        guarded = (
            ("enter",) if hook.startswith("foreign") else ("ship_order",) if hook.startswith("own") else tuple(before)
        )
        for tool in guarded:
            bed.verdict.expect(shop.acted(tool) == before[tool], f"{hook} raised, and {tool} was called")
        told = [result for result in played.results if result.name in guarded and result.ok]
        bed.verdict.false_successes += len(told)
        bed.verdict.expect(not told, f"{hook} raised, and a success was told: {_texts(told)}")
