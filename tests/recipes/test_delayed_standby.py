"""A standby that is really late, in real time: what it shows is never taken for strong, and a wait for the write makes
it as good as the session that wrote.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from readback import Context, Readback, Reading, action
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Presence
from readback.errors import ReaderFailedError
from readback.systems import SqlExecutor, SqlSource
from readback.testing.postgres_server import STANDBY, PostgresPair

DELAY_MS = 700
WAIT_S = 20.0
QUERY = "select id, tenant, status from parcel where id = %s"
SQL = {
    "make": "create table if not exists parcel (id text, tenant text not null, status text, stamp text)",
    "put": "insert into parcel (id, tenant, status, stamp) values (%s, 'acme', 'sent', %s)",
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def late(postgres_pair: PostgresPair) -> Iterator[PostgresPair]:
    """The pair, whose standby replays each commit no sooner than so much later."""
    postgres_pair.run(SQL["make"])
    postgres_pair.catch_up()
    _delayed(postgres_pair, DELAY_MS)
    yield postgres_pair
    _delayed(postgres_pair, 0)


def _delayed(pair: PostgresPair, milliseconds: int) -> None:
    pair.run(f"alter system set recovery_min_apply_delay = '{milliseconds}ms'", STANDBY)
    pair.run("select pg_reload_conf()", STANDBY)
    pair._until(f"select setting = '{milliseconds}' from pg_settings where name = 'recovery_min_apply_delay'")


@pytest.fixture
def writer(late: PostgresPair) -> SqlExecutor:
    return SqlExecutor("parcels", late.primary)


def _written(writer: SqlExecutor) -> tuple[str, str]:
    """A new parcel, and the token of the commit that made it."""
    name = f"p{next(_numbers)}"
    said = writer.execute_recorded(_context(), SQL["put"], [name, "s1"])
    assert isinstance(said, dict)
    return name, str(said["commit_token"])


def _context() -> Context:
    return Context("a", "acme", "agent:desk", "op", "parcel/x", "key", "rb-1")


def _until(wanted: Callable[[], bool]) -> None:
    give_up = time.perf_counter() + WAIT_S
    while not wanted():
        assert time.perf_counter() < give_up


@pytest.mark.slow
@pytest.mark.requirement("DRILL-delayed-standby")
@pytest.mark.parametrize("declared", [None, "strong", "session", "replica"])
def test_what_a_standby_shows_is_a_replicas_whatever_it_was_declared(
    late: PostgresPair, writer: SqlExecutor, declared: str | None
) -> None:
    source = SqlSource("near", late.standby, consistency=declared)
    name, token = _written(writer)
    stale = source.one(QUERY, [name], commit_token=token)
    assert (stale.presence, stale.consistency, stale.commit_token_honoured) == (
        Presence.ABSENT, Consistency.REPLICA, False,
    )  # fmt: skip
    with pytest.raises(ReaderFailedError, match="is a standby"):
        source.all(QUERY, [name])
    _until(lambda: source.one(QUERY, [name], commit_token=token).commit_token_honoured is True)
    level = source.one(QUERY, [name], commit_token=token)
    assert (level.presence, level.consistency) == (Presence.PRESENT, Consistency.SESSION)
    without = source.one(QUERY, [name])
    assert (without.presence, without.consistency) == (Presence.PRESENT, Consistency.REPLICA)
    assert [each.consistency for each in source.all(QUERY, [name])] == [Consistency.REPLICA]
    assert source.scalar("select count(*) from parcel").consistency is Consistency.REPLICA


@pytest.mark.slow
@pytest.mark.requirement("DRILL-delayed-standby")
def test_a_strong_reader_that_was_led_to_a_standby_neither_confirms_nor_denies(
    late: PostgresPair, tmp_path: Path
) -> None:
    """The line was switched over: what the contract takes for the primary is a standby, and late."""
    executor = SqlExecutor("parcels", late.primary)
    wrongly = SqlSource("records", late.standby)

    @action(
        name=f"ship_{next(_numbers)}", kind="set", side_effect="high_risk_external", target="parcel/{requested.parcel}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "account": "not_offered"},
        ensure={"sent": "authoritative.status == 'sent'"}, within="300ms", deadline="300ms", polls=["0s", "100ms"],
    )  # fmt: skip
    def ship(ctx: Context, parcel: str) -> object:
        return executor.execute_recorded(ctx, SQL["put"], [parcel, ctx.stamp])

    @ship.read(source="records", consistency="strong", independence="other_client")
    def row(ctx: Context, parcel: str) -> Reading:
        return wrongly.one(QUERY, [parcel])

    name = f"p{next(_numbers)}"
    with Readback.open(f"sqlite:///{tmp_path}/ledger.db", tenant="acme", principal="agent:desk") as rb:
        told = rb.run(ship(parcel=name), operation=name, wait=1)
        assert not told.verified
        assert told.state.value != "failed", "its silence is no proof that nothing was sent"
        assert not told.may_repeat
    with closing(late.primary()) as connection:
        assert connection.execute("select count(*) from parcel where id = %s", [name]).fetchone() == (1,)
