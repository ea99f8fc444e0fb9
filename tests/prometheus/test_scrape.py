"""A real Prometheus scrapes a real worker: every rule, every alert and every query of the dashboard gets an answer."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from readback.telemetry.metrics import METRICS
from readback.telemetry.prometheus_files import ALERTS, RULES_FILE, dashboard, write_files
from tests.architecture.tree import ROOT
from tests.cli.conftest import CONTRACTS, Desk
from tests.cli.conftest import desk as desk
from tests.demo.waiting import eventually

PROMETHEUS: Final = ROOT / ".venv" / "prometheus" / "usr" / "bin" / "prometheus"
READBACK: Final = str(Path(sys.executable).with_name("readback"))
TURNS: Final = 6_000
"""A minute: Prometheus scrapes and evaluates once a second here."""
VERIFIED_MORE: Final = 5


def ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    if process.stderr is not None:
        process.stderr.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Prometheus:
    """A running server, asked over its API."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **asked: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)
        except OSError:
            return {"status": "starting"}

    def values(self, query: str) -> list[float]:
        found = self.get("query", query=query)
        return [float(one["value"][1]) for one in found["data"]["result"]] if found["status"] == "success" else []


@pytest.fixture
def scraped(desk: Desk) -> Iterator[tuple[Desk, Prometheus]]:
    """A worker on a ledger with a verified and an unknown action, and a server that scrapes the worker."""
    desk.ship("op-1")
    desk.ship("op-2", how="lie", carrier="c")
    with ExitStack() as stack:
        worker = subprocess.Popen(
            [READBACK, "worker", "--contracts", CONTRACTS, "--metrics-port", "0"],
            cwd=desk.folder,
            env=desk.environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(ended, worker)
        assert worker.stderr is not None
        found = re.search(r"http://(127\.0\.0\.1:\d+)\.", worker.stderr.readline())
        assert found
        assert worker.stderr.readline().startswith("Working for")
        write_files(desk.folder)
        rules = (desk.folder / RULES_FILE).read_text(encoding="utf-8").replace("interval: 30s", "interval: 1s")
        (desk.folder / RULES_FILE).write_text(rules, encoding="utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [RULES_FILE],
            "scrape_configs": [{"job_name": "readback", "static_configs": [{"targets": [found.group(1)]}]}],
        }
        (desk.folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        port = free_port()
        server = subprocess.Popen(
            [
                PROMETHEUS,
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=tsdb",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            ],
            cwd=desk.folder,
            text=True,
        )
        stack.callback(ended, server)
        yield desk, Prometheus(port)


def test_every_rule_and_every_panel_is_answered_from_a_real_scrape(scraped: tuple[Desk, Prometheus]) -> None:
    desk, server = scraped
    position = eventually(lambda: server.values("readback_ledger_position"), turns=TURNS)[0]
    for number in range(VERIFIED_MORE):
        desk.ship(f"more-{number}")
    eventually(lambda: server.values(f"readback_ledger_position > {position}"), turns=TURNS)
    wanted = 'readback_verifications_total{contract="ship",verdict="verified"} == 6'
    eventually(lambda: server.values(wanted), turns=TURNS)

    eventually(lambda: server.values('readback:verification_success:ratio{contract="ship"}'), turns=TURNS)
    ratio = server.values('readback:verification_success:ratio{contract="ship"}')
    # Since the first scrape, five of five were verified. Prometheus extrapolates each counter to the whole hour.
    assert ratio == [pytest.approx(1.0, abs=0.3)]

    groups = server.get("rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(METRICS) + 1 + len(ALERTS)
    assert {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] != "ok"} == {}

    for one in METRICS:
        assert server.get("query", query=one.expression("1h"))["status"] == "success", one.id
    empty = []
    for panel in dashboard()["panels"]:
        (target,) = panel["targets"]
        query = target["expr"].replace("$ledger", ".*").replace("$contract", ".*")
        found = server.get("query", query=query)
        assert found["status"] == "success", panel["title"]
        if not found["data"]["result"]:
            empty.append(panel["title"])
    # What this run has no case of: no repeated dispatch, no reversal, one version, no incident, no failed reading.
    assert set(empty) <= {
        "Idempotency recovery rate",
        "Compensation success rate",
        "Failed compensation rate",
        "Verifier regression rate",
        "Pending-too-long rate",
        "Reviews by reason",
        "Failed readings by source",
        "Incidents by severity",
    }, empty
    assert "ship" in server.get("label/contract/values")["data"]
    firing = {one["labels"]["alertname"] for one in server.get("alerts")["data"]["alerts"] if one["state"] == "firing"}
    assert "ReadbackMetricsAbsent" not in firing
    assert "ReadbackFalseSuccess" not in firing


def test_promtool_accepts_the_exposition_of_a_real_ledger(desk: Desk) -> None:
    desk.ship("op-1")
    desk.ship("op-2", how="lie", carrier="c")
    text = desk("metrics", code=0).out
    promtool = PROMETHEUS.with_name("promtool")
    ran = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout + ran.stderr == ""
