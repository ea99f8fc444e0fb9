"""`/metrics` and `/healthz` over HTTP, the commands, the doctor's lines, and the log records."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from readback.drivers.commit_log import level_of
from readback.errors import MetricsPortError, StoreCorruptError
from readback.ports.storage.store import Incident, LedgerStore, SealedEvent
from readback.stores.sqlite import open_sqlite_store
from readback.telemetry import health
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.health import answer, health_json, health_of
from readback.telemetry.prometheus import MetricsServer, exposition
from readback.testing.store_samples import sample_creation
from tests.cli.conftest import CONTRACTS, Desk
from tests.cli.conftest import desk as desk
from tests.telemetry.history import NOW_US, START_US, S, nineteen

READY_S = 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LedgerStore]:
    found = open_sqlite_store(f"sqlite:///{tmp_path}/ledger.db")
    nineteen().write(found)
    yield found
    found.close()


@pytest.fixture
def metrics(store: LedgerStore) -> LedgerMetrics:
    return LedgerMetrics(store, lambda: NOW_US)


@pytest.fixture
def server(metrics: LedgerMetrics) -> Iterator[MetricsServer]:
    one = MetricsServer(metrics, lambda: answer(metrics), port=0)
    assert one.wait_ready(READY_S)
    yield one
    one.close()


def get(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=READY_S)
    connection.request(method, path)
    said = connection.getresponse()
    body = said.read().decode()
    connection.close()
    return said.status, said.getheader("Content-Type", ""), body


def test_a_scrape_is_the_exposition_of_all_series(server: MetricsServer, metrics: LedgerMetrics) -> None:
    status, media, body = get(server, "/metrics")
    assert (status, media) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body == exposition(metrics.families())
    labels = 'kind="create",side_effect="medium_risk_write"'
    assert re.search(rf'readback_executed_total\{{ledger="[0-9a-f]{{8}}",contract="pay",{labels}\}} 13\n', body)
    assert re.search(rf'contract="pay",{labels},over_sla="true"\}} 1\n', body)
    assert 'le="+Inf"} 9\n' in body


def test_a_scrape_has_what_was_appended_since_the_last(
    server: MetricsServer, store: LedgerStore, metrics: LedgerMetrics
) -> None:
    before = metrics.refresh().position
    history = nineteen()
    done = len(history.appends)
    history.action("late", 300).done(300)
    history.write(store, done)
    _, _, body = get(server, "/metrics")
    assert 'contract="late",kind="create",side_effect="medium_risk_write",verdict="verified"} 1\n' in body
    assert re.search(rf'readback_ledger_position\{{ledger="\w+"\}} {before + 5}\n', body)


def test_the_format_escapes_what_a_label_may_hold(metrics: LedgerMetrics) -> None:
    (family, *_) = metrics.families()
    family.samples = [({"contract": 'a"b\\c\nd'}, 1)]
    assert exposition([family]).endswith('readback_actions_total{contract="a\\"b\\\\c\\nd"} 1\n')


def test_only_reading_is_answered_and_only_at_two_paths(server: MetricsServer) -> None:
    assert get(server, "/")[0] == 404
    assert get(server, "/metrics/../ledger.db")[0] == 404
    assert get(server, "/metrics", "POST")[0] == 501
    status, _, body = get(server, "/metrics", "HEAD")
    assert (status, body) == (200, "")


def test_the_server_listens_on_loopback_by_default(server: MetricsServer) -> None:
    assert server.host == "127.0.0.1"


def test_a_port_in_use_is_named_with_a_next_step(server: MetricsServer, metrics: LedgerMetrics) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MetricsPortError) as caught:
            MetricsServer(metrics, lambda: answer(metrics), port=port)
    assert caught.value.code == "metrics.port"
    assert str(port) in caught.value.message
    with pytest.raises(MetricsPortError):
        MetricsServer(metrics, lambda: answer(metrics), port=0, host="192.0.2.1")


def test_a_ledger_that_cannot_be_read_is_a_503_with_its_code(
    server: MetricsServer, store: LedgerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(after_seq: int = 0) -> object:
        raise StoreCorruptError("Entry 7 is damaged.")

    monkeypatch.setattr(store, "scan", broken)
    status, _, body = get(server, "/metrics")
    assert (status, body) == (503, "store.corrupt: Entry 7 is damaged.\n")
    status, _, body = get(server, "/healthz")
    assert status == 503
    assert json.loads(body) == {"status": "failing", "code": "store.corrupt", "message": "Entry 7 is damaged."}


def test_before_the_first_fold_nothing_partial_is_told(metrics: LedgerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    one = MetricsServer(metrics, lambda: answer(metrics), port=0)
    try:
        assert one.wait_ready(READY_S)
        one._ready.clear()
        assert get(one, "/metrics")[0] == 503
        assert json.loads(get(one, "/healthz")[2]) == {"status": "starting"}
        one._ready.set()
    finally:
        one.close()


# --- health ---


def test_health_has_rates_latencies_and_what_is_stuck(metrics: LedgerMetrics) -> None:
    fold = metrics.refresh()
    told = health_json(health_of(fold, lambda name: metrics.over_window(fold.pending()[name])))
    pay = told["contracts"]["pay"]  # type: ignore[index,call-overload]
    assert pay["false_success_rate"] == round(2 / 13, 6)
    assert pay["unknown_rate"] == round(1 / 13, 6)
    assert pay["verification_us"] == {"count": 9, "p50": 1_048_575, "p95": 3 * S, "p99": 3 * S}
    assert pay["last_verified_us"] == START_US + 123 * S
    assert pay["stuck"] == {"pending": 1, "review_required": 2, "unknown": 1}
    tool = told["tools"]["pay"]  # type: ignore[index,call-overload]
    assert (tool["calls"], tool["false_success_rate"]) == (14, round(3 / 8, 6))
    bank = told["sources"]["bank"]  # type: ignore[index,call-overload]
    assert (bank["verifier_errors"], bank["last_read_us"]) == (1, START_US + 132 * S)
    stuck = told["stuck"]
    assert isinstance(stuck, list)
    assert [(one["state"], (one["since_us"] - START_US) // S) for one in stuck] == [
        ("review_required", 36),
        ("unknown", 50),
        ("review_required", 62),
        ("pending", 112),
    ]


def test_healthz_names_no_action_and_answers_for_the_process(server: MetricsServer, metrics: LedgerMetrics) -> None:
    status, media, body = get(server, "/healthz")
    assert (status, media) == (200, "application/json")
    told = json.loads(body)
    assert told["status"] == "ok"
    assert told["stuck"] == {"count": 4, "oldest_since_us": START_US + 36 * S}
    assert "01a0" not in body
    well, details = answer(metrics, alive=lambda: False)
    assert (well, details["status"]) == (False, "failing")


def test_a_share_of_nothing_is_no_number() -> None:
    assert health.share(0, 0) is None
    assert health.share(1, 3) == 0.333333


# --- commands ---


def test_the_command_prints_the_series_and_keeps_a_checkpoint(desk: Desk) -> None:
    desk.ship("op-1")
    desk.ship("op-2", how="lie", carrier="c")
    text = desk("metrics", code=0).out
    assert re.search(r'readback_verifications_total\{ledger="\w+",contract="ship".*verdict="verified"\} 1\n', text)
    told = desk("metrics", "--json", "--label", "environment=test", code=0).json
    by_id = {one["id"]: one["contracts"]["ship"] for one in told["metrics"]}
    assert len(told["metrics"]) == 19
    assert (by_id["verification-success"]["over"], by_id["verification-success"]["under"]) == (1, 2)
    assert all(one["labels"]["environment"] == "test" for one in told["series"])
    assert told["entries"] == told["position"]


def test_a_tenant_sees_its_own_numbers(desk: Desk) -> None:
    desk.ship("op-1")
    assert "ship" not in desk("metrics", "--tenant", "other", code=0).out
    assert 'tenant="default"' in desk("metrics", "--all-tenants", "--tenant-label", code=0).out
    assert "tenant=" not in desk("metrics", "--all-tenants", code=0).out


@pytest.mark.parametrize(
    ("given", "code"),
    [(["--label", "contract=x"], 2), (["--label", "x"], 2), (["--label", "a=1", "--label", "a=2"], 2)],
)
def test_a_wrong_label_is_refused_by_name(desk: Desk, given: list[str], code: int) -> None:
    desk.ship("op-1")
    told = desk("metrics", "--json", *given, code=code).json
    assert told["error"]["code"] == "metrics.label"


def test_without_a_ledger_the_command_says_so_and_creates_none(desk: Desk) -> None:
    assert desk("metrics", "--json", code=6).json["error"]["code"] == "store.cannot-open"
    assert not desk.ledger.exists()


def test_a_ledger_of_a_newer_schema_is_refused_by_name(desk: Desk) -> None:
    import apsw

    desk.ship("op-1")
    connection = apsw.Connection(str(desk.ledger))
    connection.execute("INSERT INTO migration (number, name, sha256) VALUES (999, 'later', 'x')")
    connection.pragma("user_version", 999)
    connection.close()
    error = desk("metrics", "--json", code=6).json["error"]
    assert error["code"] == "store.version"
    assert error["remedy"]


def test_a_damaged_checkpoint_is_a_warning_and_the_series_are_whole(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.ship("op-1")
    before = desk("metrics", code=0).out
    for path in desk.folder.glob("*metrics.json"):
        path.unlink()
    choice = next(iter({p.name for p in desk.folder.iterdir() if p.name.startswith("readback.db")} or {""}))
    assert choice
    from readback.telemetry import fold_checkpoint

    class Beside:
        path = desk.ledger

    place = fold_checkpoint.path_of("sqlite:///readback.db", Beside(), ("default",), by_tenant=False)  # type: ignore[arg-type]
    assert place is not None
    place.write_text("no checkpoint")
    with caplog.at_level(logging.WARNING, "readback.metrics"):
        assert desk("metrics", code=0).out == before
    assert [record.readback_code for record in caplog.records] == ["metrics.checkpoint"]  # type: ignore[attr-defined]


def test_the_rules_are_written_to_a_folder(desk: Desk) -> None:
    desk("metrics", "--rules", "ops", code=0)
    assert sorted(path.name for path in (desk.folder / "ops").iterdir()) == [
        "readback.dashboard.json",
        "readback.rules.yml",
    ]
    (desk.folder / "file").write_text("")
    assert desk("metrics", "--rules", "file", "--json", code=5).json["error"]["code"] == "settings"


def test_the_doctor_names_rates_and_what_is_stuck(desk: Desk) -> None:
    desk.ship("op-1")
    desk.ship("op-2", how="lie", carrier="c")
    told = desk("doctor", "--json", code=0).json["findings"]
    lines = {(one["details"]["kind"], one["details"]["name"]) for one in told if one["name"] == "health"}
    assert {("contract", "ship"), ("tool", "ship"), ("source", "orders-file")} <= lines
    (one,) = [each for each in told if each["name"] == "health" and each["details"]["kind"] == "contract"]
    assert one["said"].startswith("contract ship: 1 of 2 verified, false success 0.0%, unknown 50.0%")


@pytest.mark.slow
def test_a_worker_serves_its_metrics_until_it_is_stopped(desk: Desk) -> None:
    import signal

    desk.ship("op-1")
    worker = desk.process("worker", "--contracts", CONTRACTS, "--metrics-port", "0")
    assert worker.stderr is not None
    said = worker.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)\.", said)
    assert found, said
    connection = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=READY_S)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    assert worker.stderr.readline().startswith("Working for"), "from here on the worker handles signals"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(READY_S) == 0


# --- log records ---

RECORDED = {
    "action", "tenant", "run", "saga", "contract", "kind", "side_effect", "event", "state", "verdict", "discrepancy",
    "row", "review", "version", "position",
}  # fmt: skip


def records(caplog: pytest.LogCaptureFixture, desk: Desk, level: int) -> list[logging.LogRecord]:
    with caplog.at_level(level, "readback.actions"):
        desk.ship("op-1")
        desk.ship("op-2", how="lie", carrier="secret-carrier")
    return [record for record in caplog.records if record.name == "readback.actions"]


def test_a_record_has_codes_and_names_and_no_payload(caplog: pytest.LogCaptureFixture, desk: Desk) -> None:
    found = records(caplog, desk, logging.DEBUG)
    assert {record.levelno for record in found} == {logging.DEBUG, logging.INFO, logging.WARNING}
    for record in found:
        own = {name.removeprefix("readback_"): value for name, value in vars(record).items() if "readback_" in name}
        assert set(own) == RECORDED
        text = record.getMessage() + json.dumps(own)
        for payload in ("o-17", "shipped", "agent:local", "order/", "dhl", "secret-carrier", "op-1"):
            assert payload not in text


def test_a_settled_action_is_information_and_an_unknown_one_a_warning(
    caplog: pytest.LogCaptureFixture, desk: Desk
) -> None:
    found = records(caplog, desk, logging.INFO)
    told = [(record.levelname, record.readback_contract, record.readback_state) for record in found]  # type: ignore[attr-defined]
    assert told[0] == ("INFO", "ship", "reconciled_success")
    assert told[-1] == ("WARNING", "ship", "unknown")


@pytest.mark.parametrize(
    ("state", "more", "kind", "level"),
    [
        ("reconciled_success", {}, "judged", logging.INFO),
        ("compensated", {"verdict": "refuted"}, "compensation", logging.WARNING),
        ("review_required", {"review": "compensation_failed"}, "compensation", logging.ERROR),
        ("failed", {"verdict": "refuted"}, "judged", logging.WARNING),
        ("failed", {}, "rejected", logging.INFO),
        ("pending", {"verdict": "undetermined"}, "judged", logging.DEBUG),
        ("reconciled_success", {}, "watched", logging.DEBUG),
        ("unknown", {}, "resumed", logging.DEBUG),
    ],
)
def test_the_level_follows_from_the_state(state: str, more: dict[str, str], kind: str, level: int) -> None:
    append = sample_creation("a1", state=state, **{"verdict": "", "review": "", "discrepancy": "", **more})
    event = SealedEvent(kind, append.events[0].at_us, append.events[0].envelope, append.events[0].leaf)
    assert level_of(replace(append, events=(event,))) == level
    incident = Incident("acme", "i", "x", "high", "a1", 1)
    assert level_of(replace(append, events=(event,), incidents=(incident,))) == logging.ERROR


@pytest.mark.slow
def test_nothing_is_printed_without_a_handler(desk: Desk) -> None:
    told = desk.spawn(
        "run", "ship", "--contracts", CONTRACTS, "--arg", "order_id=o-17", "--arg", "carrier=x", "--arg", "how=lie"
    )
    assert "readback.actions" not in told.err
    assert "(no_op_failure)" not in told.err
