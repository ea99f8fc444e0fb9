"""Where incidents are told: a real command and a real HTTP server, what they are given, and what counts as taken."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from readback import bootstrap
from readback.adapters.sink_command import CommandSink
from readback.adapters.sink_webhook import ID_HEADER, SIGNATURE_HEADER, TIME_HEADER, WebhookSink, signature
from readback.config import Settings
from readback.domain.errors import SettingsError, SinkError
from readback.ports.sink import IncidentNotice
from readback.testing.runtime_virtual import VirtualRuntime
from tests.adapters.web import Said, Web, serving

NOTICE = IncidentNotice("inc-a1-7", "acme", "critical", "action:a1:wrong_target", "a1", 17, 2, "ship", "order/`id`")
SECRET = b"0123456789abcdef"


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as one:
        yield one


def command(code: str, *more: str) -> CommandSink:
    return CommandSink([sys.executable, "-c", code, *more], timeout_s=20)


def test_a_command_gets_the_notice_on_its_standard_input_and_nothing_of_it_as_an_argument(tmp_path: Path) -> None:
    said = tmp_path / "said.json"
    code = "import sys, json; json.dump([sys.argv[1:], json.load(sys.stdin)], open(sys.argv[1], 'w'))"
    command(code, str(said), "$(id)").tell(NOTICE)
    arguments, told = json.loads(said.read_text())
    assert arguments == [str(said), "$(id)"]
    assert told == NOTICE.as_json()
    assert told["next"] == "readback review show a1"


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_a_command_that_fails_has_not_taken_it(code: str) -> None:
    with pytest.raises(SinkError, match="ended with"):
        command(code).tell(NOTICE)


def test_a_command_that_reads_nothing_and_ends_well_has_taken_it() -> None:
    command("pass").tell(NOTICE)


def test_a_command_that_cannot_be_started_has_not_taken_it(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="cannot be started"):
        CommandSink([str(tmp_path / "nothing")]).tell(NOTICE)


@pytest.mark.parametrize("argv", [[], [""]])
def test_a_command_without_a_program_is_refused(argv: list[str]) -> None:
    with pytest.raises(SettingsError):
        CommandSink(argv)


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "child"
    code = (
        "import subprocess, sys, threading;"
        "p = subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()']);"
        "open(sys.argv[1], 'w').write(str(p.pid)); threading.Event().wait()"
    )
    sink = CommandSink([sys.executable, "-c", code, str(note)], timeout_s=2)
    with pytest.raises(SinkError, match="took over 2 s"):
        sink.tell(NOTICE)
    child = int(note.read_text())
    tries = (threading.Event().wait(0.05) for _ in range(400))
    assert any(not _runs(child) or next(tries) for _ in range(400)), "what the command started is left behind"


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_webhook_gets_a_signed_body_under_an_id_that_stays_the_same(web: Web) -> None:
    web.answers["/hook"] = Said(202)
    sink = WebhookSink(f"{web.url}/hook", SECRET, now_us=lambda: 1_000)
    sink.tell(NOTICE)
    sink.tell(NOTICE)
    first, second = web.asked
    assert json.loads(first.body) == NOTICE.as_json()
    headers = {name.lower(): value for name, value in first.headers.items()}
    assert headers[SIGNATURE_HEADER.lower()] == signature(SECRET, "1000", first.body)
    assert headers[TIME_HEADER.lower()] == "1000"
    assert headers[ID_HEADER.lower()] == "inc-a1-7"
    assert {name.lower(): value for name, value in second.headers.items()}[ID_HEADER.lower()] == "inc-a1-7"
    assert SECRET.decode() not in str(first.headers) + first.body.decode()


def test_another_secret_time_or_body_has_another_signature() -> None:
    signed = signature(SECRET, "1000", b"{}")
    others = (signature(b"x" * 16, "1000", b"{}"), signature(SECRET, "1001", b"{}"), signature(SECRET, "1000", b"[]"))
    assert len({signed, *others}) == 4
    assert len(signed) == 64


@pytest.mark.parametrize(
    "said", [Said(500), Said(404), Said(302, headers={"Location": "http://127.0.0.1:1/"}), Said(drop=True)]
)
def test_a_webhook_that_does_not_say_yes_has_not_taken_it(web: Web, said: Said) -> None:
    web.answers["/hook"] = said
    with pytest.raises(SinkError):
        WebhookSink(f"{web.url}/hook", SECRET, now_us=lambda: 1).tell(NOTICE)
    assert len(web.asked) == 1


def test_a_webhook_that_hangs_or_is_not_there_has_not_taken_it(web: Web) -> None:
    web.answers["/hook"] = Said(hang=True)
    with pytest.raises(SinkError):
        WebhookSink(f"{web.url}/hook", SECRET, now_us=lambda: 1, timeout_s=0.2).tell(NOTICE)
    with pytest.raises(SinkError):
        WebhookSink("http://127.0.0.1:1/hook", SECRET, now_us=lambda: 1, timeout_s=2).tell(NOTICE)


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://example.org/hook", SECRET),
        ("ftp://127.0.0.1/hook", SECRET),
        ("https://user:word@example.org/hook", SECRET),
        ("https:///hook", SECRET),
        ("", SECRET),
        ("https://example.org/hook", b"short"),
    ],
)
def test_a_webhook_that_could_leak_or_be_forged_is_refused(url: str, secret: bytes) -> None:
    with pytest.raises(SettingsError):
        WebhookSink(url, secret, now_us=lambda: 1)


def test_the_settings_choose_the_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = VirtualRuntime()
    assert bootstrap.incident_sinks(Settings(), runtime) == ()
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    both = Settings(
        incident_command=("true",), incident_webhook="https://example.org/h", incident_secret=f"file:{secret}"
    )
    command, webhook = bootstrap.incident_sinks(both, runtime)
    assert isinstance(command, CommandSink)
    assert isinstance(webhook, WebhookSink)
    monkeypatch.setenv("HOOK_SECRET", SECRET.decode())
    named = Settings(incident_webhook="https://example.org/h", incident_secret="env:HOOK_SECRET")
    assert isinstance(bootstrap.incident_sinks(named, runtime)[0], WebhookSink)


@pytest.mark.parametrize(
    "reference", ["", "hunter2", "env:", "env:NOT_THERE_AT_ALL", "file:/nowhere/at/all", "vault:x"]
)
def test_a_secret_is_a_reference_to_something_that_is_there(reference: str) -> None:
    assert "NOT_THERE_AT_ALL" not in os.environ
    with pytest.raises(SettingsError) as refused:
        bootstrap.incident_sinks(
            Settings(incident_webhook="https://example.org/h", incident_secret=reference), VirtualRuntime()
        )
    assert "hunter2" not in str(refused.value)
