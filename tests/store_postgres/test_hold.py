"""A database that was put back by its own tools: what was in flight in it is held, and not executed again."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from readback import Context, Readback, Reading, action
from readback.canon import parse_json
from readback.cli.cli import main
from readback.domain.state import State
from readback.testing.postgres_server import PRIMARY, STANDBY, PostgresPair
from tests.postgres import url_of

pytestmark = [pytest.mark.slow, pytest.mark.requirement("RESTORE-in-flight-held")]
Sent = dict[str, list[str]]


def _send(sent: Sent) -> object:
    @action(
        name="send", kind="create", side_effect="low_risk_internal", target="{requested.text}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure={"there": "authoritative.id == requested.text"}, within="1s", polls=["0s"],
    )  # fmt: skip
    def send(ctx: Context, text: str) -> object:
        sent.setdefault(text, []).append(ctx.stamp)
        return {"sent": text}

    @send.read(source="out", consistency="strong", independence="other_client", attributes=True)
    def row(ctx: Context, text: str) -> Reading:
        there = sent.get(text)
        return Reading.of({"id": text, "tenant": "acme"}, stamp=there[-1]) if there else Reading.absent()

    return send


def _held(url: str) -> Result:
    return CliRunner().invoke(
        main, ["ledger", "hold", "--url", url, "--who", "human:eve", "--json"], catch_exceptions=False
    )


def test_an_attempt_that_a_standby_lacks_which_took_over_is_not_made_again() -> None:
    sent: Sent = {}
    send = _send(sent)
    given = {"tenant": "acme", "principal": "agent:a", "actions": [send]}
    with PostgresPair() as pair:
        with Readback.open(url_of(pair, "ledger"), **given) as rb:  # type: ignore[arg-type]
            id_ = rb.submit(send(text="a"), operation="op")  # type: ignore[operator]
            pair.catch_up()
            pair.run("ALTER SYSTEM SET primary_conninfo = ''", STANDBY)
            pair.run("SELECT pg_reload_conf()", STANDBY)
            pair._until("SELECT count(*) = 0 FROM pg_stat_wal_receiver")
            assert [each.state for each in rb.resume()] == [State.RECONCILED_SUCCESS]
        pair.end()
        pair.run("SELECT pg_promote()", STANDBY)
        url = url_of(pair, "ledger").replace(f"port={PRIMARY}", f"port={STANDBY}")
        held = _held(url)
        assert held.exit_code == 0, held.output
        assert parse_json(held.stdout.encode()) == {"held": {"actions": 1, "sagas": 0}}
        with Readback.open(url, **given) as rb:  # type: ignore[arg-type]
            assert rb.resume() == []
            found = rb.run(send(text="a"), operation="op", wait=0)  # type: ignore[operator]
            assert (found.id, found.state, found.review) == (id_, State.REVIEW_REQUIRED, "restored")
            assert not found.may_repeat
    assert [len(stamps) for stamps in sent.values()] == [1]


def test_a_ledger_that_is_not_there_is_not_made(ledger_url: str) -> None:
    missing = _held(ledger_url)
    assert missing.exit_code == 6
    assert "store.absent" in missing.output
