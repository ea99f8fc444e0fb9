"""A database that is silent stops no server: health is answered, nothing is half done, and service goes on after it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from urllib.parse import parse_qs, urlsplit

import pytest

from readback.server.ledgers import CHECK_S
from tests.server.bed import Bed, run, running
from tests.server.contracts import calls
from tests.server.relay import Relay

LOOKS = 3
SLACK_S = 10.0
"""What a loaded machine may add to a time limit, in seconds."""


@pytest.fixture
def relay(ledger_url: str) -> Iterator[tuple[Relay, str]]:
    """A relay, and the ledger's URL by way of it. The folder's name is short, as the path of a socket must be."""
    (home,) = parse_qs(urlsplit(ledger_url).query)["host"]
    with tempfile.TemporaryDirectory() as folder, Relay(Path(folder), Path(home)) as relay:
        yield relay, ledger_url.replace(home, folder)


def look(bed: Bed, path: str) -> tuple[int, float]:
    """The status of an answer, and its time in seconds."""
    begun = perf_counter()
    return bed.client().get(path).status_code, perf_counter() - begun


@pytest.mark.requirement("SERVER-silence")
@pytest.mark.slow
def test_a_silent_database_stops_neither_health_nor_the_event_loop(place: Path, relay: tuple[Relay, str]) -> None:
    network, url = relay
    folder = place / "silent"
    folder.mkdir()
    with running(folder, url=url) as bed, ThreadPoolExecutor(4) as pool:
        assert run(bed.client(), "before-1").json()["verified"] is True
        assert look(bed, "/healthz")[0] == 200
        network.passes.clear()
        pending = [pool.submit(run, bed.client(), f"silent-{n}", wait=1) for n in range(2)]
        listed = pool.submit(look, bed, "/v1/actions")
        for _ in range(LOOKS):
            status, took = look(bed, "/healthz")
            assert (status, took < CHECK_S + SLACK_S) == (503, True), took
            status, took = look(bed, "/openapi.json")
            assert (status, took < SLACK_S) == (200, True), took
        assert not any(each.done() for each in (*pending, listed))
        network.passes.set()
        answers = [each.result(120) for each in pending]
        assert listed.result(120)[0] in (200, 503)
        for number, answer in enumerate(answers):
            assert answer.status_code in (200, 202, 503), answer.text
            after = run(bed.client(), f"silent-{number}", wait=20).json()
            assert after["verified"] is True, after
            assert calls().count(f"silent-{number}") == 1
        assert look(bed, "/healthz")[0] == 200
