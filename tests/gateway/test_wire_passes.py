"""What the gateway does not govern passes unchanged: a client is told the same with it and without it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from readback.gateway.serving.serve import sdk_server
from readback.gateway.upstream.upstream import Upstream
from tests.gateway.passing import Passing
from tests.gateway.processes import EVERYTHING, gateway, listening, stdio
from tests.gateway.transcript import SOON_S, Answers, told, transcript
from tests.workers.forks import launched

pytestmark = [pytest.mark.slow, pytest.mark.requirement("WIRE-unchanged")]

OF_THE_ERA = {"about", "capabilities", "calls", "honoured"}
"""What a server tells differently in each era; a stateless one is called again with each answer."""
FEATURES = (
    "about", "capabilities", "tools", "more tools", "resources", "templates", "resource", "no resource", "prompts",
    "prompt", "completion", "resource completion", "unknown", "not there", "echo", "fail", "refuse", "stepped", "steps",
    "logged", "logs", "sample", "elicit", "roots", "told of change", "told of update", "calls",
)  # fmt: skip
MODES = ("legacy", "auto")


@cache
def plain(mode: str) -> Answers:
    """Without the gateway."""
    return told(lambda: stdio(EVERYTHING), mode)


@cache
def through(mode: str) -> Answers:
    """With the gateway between, as a process of its own."""
    return told(lambda: stdio(gateway([{"command": launched(EVERYTHING)}])), mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_client_is_told_the_same_with_the_gateway_between(feature: str, mode: str) -> None:
    assert through(mode)[feature] == plain(mode)[feature]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_else_is_said_either(mode: str) -> None:
    assert set(through(mode)) == set(plain(mode)) >= set(FEATURES)
    assert through(mode)["sample"]["content"][0]["text"] == "said"
    assert through(mode)["steps"] == [[0.0, 3.0, "step 0"], [1.0, 3.0, "step 1"], [2.0, 3.0, "step 2"]]


@pytest.mark.requirement("WIRE-eras")
@pytest.mark.parametrize(("mode", "era"), [("auto", "handshake"), ("legacy", "stateless")])
def test_a_client_of_one_era_is_told_the_same_by_a_server_of_the_other(mode: str, era: str) -> None:
    upstream = {"command": launched(EVERYTHING), "env": {"ERA": era}}
    found = told(lambda: stdio(gateway([upstream])), mode)
    expected = dict(plain(mode))
    if era == "stateless":
        expected["logs"] = []  # such a server is to be asked for its log, and this client did not ask
    differing = {name for name in expected if found.get(name) != expected[name]}
    assert differing <= OF_THE_ERA
    assert found["about"] == expected["about"]
    assert found["capabilities"]["tools"]


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with listening([*EVERYTHING, "--http"]) as url:
        yield url


@pytest.fixture(scope="module")
def gateway_url(server_url: str) -> Iterator[str]:
    with listening(gateway([{"url": server_url}], serve="http")) as url:
        yield url


@pytest.mark.requirement("WIRE-http")
@pytest.mark.parametrize("mode", MODES)
def test_the_same_holds_over_http_on_both_sides(server_url: str, gateway_url: str, mode: str) -> None:
    expected = told(lambda: server_url, mode)
    found = told(lambda: gateway_url, mode)
    for answers in (expected, found):
        del answers["calls"]  # counted by the one server for all
    assert found == expected


@pytest.mark.requirement("WIRE-http")
@pytest.mark.parametrize("mode", MODES)
def test_a_client_in_the_same_program_is_told_the_same(mode: str) -> None:
    async def run() -> Any:
        upstream = Upstream.command(launched(EVERYTHING))
        try:
            async with asyncio.timeout(SOON_S * 2):
                return await transcript(sdk_server(Passing(), [upstream], one_client=True), mode)
        finally:
            await upstream.aclose()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = asyncio.run(run())
    differing = {name for name in plain(mode) if found.get(name) != plain(mode)[name]}
    assert differing <= {"calls"}
    assert len(found["steps"]) > 1
