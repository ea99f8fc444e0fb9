"""Writes to a real PostgreSQL with a standby that can fall behind: neither may deny or confirm what it cannot know."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from readback import Attribution, Context, Discrepancy, Outcome, Verdict
from readback.domain.side_effect import Consistency
from readback.domain.verification.observation import Observation
from readback.domain.verification.reading import Presence
from readback.errors import ContractFieldError, ReaderFailedError, UsageError
from readback.recipes import RowAction, Table, verified_row
from readback.recipes.rows import written_as_asked
from readback.systems import SqlExecutor, SqlSource
from readback.testing.postgres_server import STANDBY, PostgresPair
from tests.fleet.database import crash
from tests.recipes.conftest import Desk

PRICES = Table("price", "sku", ("amount", "note"), version="version", tenant="tenant")
MAKE = """
create table price (
  sku text, tenant text not null, amount numeric(10, 2), note text, stamp text, version int not null default 1
)
"""
Fresh = Callable[[str], str]


class Losing(psycopg.Connection[Any]):
    """A connection whose commit goes wrong in the way that was ordered."""

    how = ""
    crash: ClassVar[Callable[[], None]]
    left_open: ClassVar[list[psycopg.Connection[Any]]] = []

    def commit(self) -> None:
        how, Losing.how = Losing.how, ""
        match how:
            case "says yes":
                self.rollback()
            case "lands":
                super().commit()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            case "dies":
                self.rollback()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            case "hangs":
                self.left_open.append(self)
                raise psycopg.OperationalError("timeout expired")
            case "crashes":
                Losing.crash()
                super().commit()
            case _:
                super().commit()

    def close(self) -> None:
        if self not in self.left_open:
            super().close()

    @classmethod
    def finish(cls, *, land: bool) -> None:
        """What still hangs is committed, or given up."""
        for connection in cls.left_open:
            (super(Losing, connection).commit if land else super(Losing, connection).rollback)()
            super(Losing, connection).close()
        cls.left_open.clear()


class Office:
    """Prices in a database with whoever writes and whoever reads them."""

    def __init__(self, pair: PostgresPair) -> None:
        self.pair = pair
        self.shop = SqlExecutor("shop", lambda: Losing.connect(pair.address()), sole=True)
        self.primary = SqlSource("primary", pair.primary)
        self.replica = SqlSource("replica", pair.standby, consistency="replica")

    def price(self, sku: str, amount: str = "10.00", stamp: str = "") -> None:
        values = f"('{sku}', 'acme', {amount}, 'old', '{stamp}')"
        self.pair.run(f"insert into price (sku, tenant, amount, note, stamp) values {values}")

    def action(self, **how: Any) -> RowAction:
        return verified_row(self.shop, self.primary, PRICES, **{"replica": self.replica, **how})

    def write(self, desk: Desk, sku: str, amount: float = 12.5, **how: Any) -> Outcome:
        action = self.action(**how)
        with desk.open() as rb:
            return rb.run(action(row=sku, values={"amount": amount, "note": "new"}), operation=f"price {sku}")

    def amounts(self, sku: str) -> list[str]:
        with closing(self.pair.primary()) as connection:
            return [str(row[0]) for row in connection.execute("select amount from price where sku = %s", [sku])]


@pytest.fixture(scope="module")
def made(postgres_pair: PostgresPair) -> PostgresPair:
    postgres_pair.run(MAKE)
    return postgres_pair


@pytest.fixture
def office(made: PostgresPair, postgres: PostgresPair) -> Iterator[Office]:
    postgres.catch_up()
    yield Office(postgres)
    Losing.how = ""
    Losing.finish(land=False)


def context(stamp: str = "rb-1") -> Context:
    return Context("a", "acme", "agent:desk", "op", "price/x", "key", stamp)


def source_of(desk: Desk, outcome: Outcome) -> list[str]:
    """Which readers looked after the action, in their order."""
    from readback.domain.events import EventKind, open_envelope

    events = [open_envelope(each.envelope).event for each in desk.store.reopened().events(outcome.id)]
    return [str(e.data["reader"]) for e in events if e.kind is EventKind.READ and e.data["role"] == "check"]


@pytest.mark.requirement("RECIPE-row")
def test_a_write_is_verified_by_a_replica_that_has_replayed_its_commit(
    office: Office, desk: Desk, fresh: Fresh
) -> None:
    sku = fresh("tea")
    office.price(sku)
    office.pair.catch_up()
    told = office.write(desk, sku)
    assert told.verified
    assert told.attribution is Attribution.OURS
    assert office.amounts(sku) == ["12.50"]
    assert source_of(desk, told) == ["near"]


@pytest.mark.requirement("RECIPE-row", "L14")
def test_l14_a_replica_that_is_behind_is_passed_over_and_the_primary_read_in_the_same_look(
    office: Office, desk: Desk, fresh: Fresh
) -> None:
    """It denies what landed: it shows the old price still."""
    sku = fresh("milk")
    office.price(sku)
    office.pair.catch_up()
    office.pair.fall_behind()
    told = office.write(desk, sku)
    assert told.verified
    assert len(source_of(desk, told)) == 1
    stale = office.replica.one("select amount from price where sku = %s", [sku])
    assert stale.value == {"amount": "10.00"}
    assert stale.consistency is Consistency.REPLICA


@pytest.mark.requirement("RECIPE-row", "HS-07")
def test_a_replica_that_is_behind_does_not_confirm_what_no_longer_is(office: Office, desk: Desk, fresh: Fresh) -> None:
    """It shows the wanted price of yesterday; since then it was changed, and our write was lost."""
    sku = fresh("salt")
    office.price(sku, "12.50")
    office.pair.catch_up()
    office.pair.fall_behind()
    office.pair.run(f"update price set amount = 99, version = 2 where sku = '{sku}'")
    Losing.how = "says yes"
    told = office.write(desk, sku)
    assert not told.verified
    assert told.discrepancy is Discrepancy.NO_OP_FAILURE
    assert office.amounts(sku) == ["99.00"]


@pytest.mark.requirement("RECIPE-row")
def test_a_commit_that_says_yes_and_rolls_back_is_refuted(office: Office, desk: Desk, fresh: Fresh) -> None:
    sku = fresh("oil")
    office.price(sku)
    Losing.how = "says yes"
    told = office.write(desk, sku)
    assert told.verdict is Verdict.REFUTED
    assert told.observation is not None
    assert told.observation.claims_success
    assert office.amounts(sku) == ["10.00"]


@pytest.mark.requirement("RECIPE-row", "L07")
@pytest.mark.parametrize(("how", "verified"), [("lands", True), ("dies", False)])
def test_l07_a_commit_whose_reply_was_lost_is_settled_by_what_became_of_the_transaction(
    office: Office, desk: Desk, fresh: Fresh, how: str, verified: bool
) -> None:
    sku = fresh(how)
    office.price(sku)
    Losing.how = how
    told = office.write(desk, sku)
    assert told.verified is verified
    assert told.observation is not None
    assert told.observation.code == "tool.commit-open"
    assert isinstance(told.observation.body, dict)
    lookup = office.primary.settled(str(told.observation.body["xid"]))
    assert lookup.status == ("landed" if verified else "failed")
    assert office.amounts(sku) == (["12.50"] if verified else ["10.00"])
    if not verified:
        assert told.verdict is Verdict.REFUTED  # aborted is final: nothing can land any more


@pytest.mark.requirement("RECIPE-row")
@pytest.mark.parametrize("land", [True, False])
def test_a_commit_that_hangs_stays_open_until_it_is_settled(
    office: Office, desk: Desk, fresh: Fresh, land: bool
) -> None:
    sku = fresh("hangs")
    office.price(sku)
    Losing.how = "hangs"
    action = office.action()
    with desk.open() as rb:
        told = rb.run(action(row=sku, values={"amount": 12.5}), operation="hangs", wait=1)
        assert not told.verified
        assert not told.may_repeat
        xid = str(told.observation.body["xid"])  # type: ignore[union-attr,index,call-overload]
        assert office.primary.settled(xid).status == "pending"
        Losing.finish(land=land)
        told = rb.wait(told.id)
    assert told.verified is land
    assert office.amounts(sku) == (["12.50"] if land else ["10.00"])


@pytest.mark.requirement("RECIPE-row")
def test_a_part_of_what_was_asked_for_is_not_all_of_it(office: Office, desk: Desk, fresh: Fresh) -> None:
    sku = fresh("part")
    office.price(sku)
    office.pair.run(
        "create or replace function keep() returns trigger language plpgsql as "
        f"$$ begin if new.sku = '{sku}' then new.note = old.note; end if; return new; end $$;"
        "create or replace trigger keep before update on price for each row execute function keep()"
    )
    told = office.write(desk, sku)
    assert told.discrepancy is Discrepancy.VALUE_MISMATCH
    assert told.observation is not None
    assert told.observation.claims_success


@pytest.mark.requirement("RECIPE-row")
def test_an_update_of_nothing_is_no_success(office: Office, desk: Desk, fresh: Fresh) -> None:
    told = office.write(desk, fresh("nobody"))
    assert not told.verified
    assert told.observation is not None
    assert told.observation.claims_success


@pytest.mark.requirement("RECIPE-row")
def test_a_row_that_was_made_once_is_verified_and_one_made_twice_is_a_duplicate(
    office: Office, desk: Desk, fresh: Fresh
) -> None:
    assert office.write(desk, fresh("made"), kind="create").verified
    sku = fresh("twice")
    office.pair.run(
        "create or replace function again() returns trigger language plpgsql as $$ begin "
        f"if new.sku = '{sku}' and pg_trigger_depth() < 2 then insert into price select new.*; end if;"
        "return new; end $$;"
        "create or replace trigger again after insert on price for each row execute function again()"
    )
    told = office.write(desk, sku, kind="create")
    assert told.discrepancy is Discrepancy.DUPLICATE_SIDE_EFFECT
    assert len(office.amounts(sku)) == 2


@pytest.mark.requirement("RECIPE-row")
def test_a_row_of_another_tenant_is_neither_written_nor_read(office: Office, desk: Desk, fresh: Fresh) -> None:
    sku = fresh("theirs")
    office.pair.run(f"insert into price (sku, tenant, amount) values ('{sku}', 'globex', 10)")
    assert not office.write(desk, sku).verified
    assert office.amounts(sku) == ["10.00"]


@pytest.mark.requirement("RECIPE-row")
def test_a_token_is_honoured_by_who_is_as_far_and_by_no_one_else(office: Office, fresh: Fresh) -> None:
    sku = fresh("token")
    office.price(sku)
    office.pair.catch_up()
    office.pair.fall_behind()
    said = office.shop.execute_recorded(context(), "update price set amount = 1 where sku = %s", [sku])
    assert isinstance(said, dict)
    token, query = str(said["commit_token"]), "select amount from price where sku = %s"
    behind = office.replica.one(query, [sku], commit_token=token)
    assert (behind.value, behind.commit_token_honoured) == ({"amount": "10.00"}, False)
    assert office.primary.one(query, [sku], commit_token=token).commit_token_honoured
    other = "0000000F" + token[8:]
    assert not office.primary.one(query, [sku], commit_token=other).commit_token_honoured
    office.pair.catch_up()
    level = office.replica.one(query, [sku], commit_token=token)
    assert (level.value, level.commit_token_honoured) == ({"amount": "1.00"}, True)
    assert level.consistency is Consistency.SESSION
    assert office.replica.one("select 1 where false", commit_token=token).presence is Presence.ABSENT


@pytest.mark.requirement("RECIPE-row")
def test_only_the_primary_of_that_timeline_says_what_became_of_a_transaction(office: Office, fresh: Fresh) -> None:
    sku = fresh("xid")
    office.price(sku)
    said = office.shop.execute_recorded(context(), "update price set amount = 1 where sku = %s", [sku])
    assert isinstance(said, dict)
    xid = str(said["xid"])
    assert office.primary.settled(xid).status == "landed"
    assert office.primary.settled("0000000F" + xid[8:]).status == "unknown_key"
    assert office.primary.settled("00000001:3").status == "unknown_key"  # long forgotten
    with pytest.raises(ReaderFailedError):
        office.replica.settled(xid)
    with pytest.raises(ReaderFailedError):
        office.primary.settled("00000001:99999999")  # from the future
    timeline, number, since = xid.split(":")
    for other in (f"{timeline}:{number}", f"{timeline}:{number}:1.1", f"{xid}1"):
        assert office.primary.settled(other).status == "unknown_key", since
    nothing = office.shop.execute_recorded(context(), "update price set amount = 1 where false")
    assert isinstance(nothing, dict)
    assert nothing["xid"] is None


@pytest.mark.requirement("RECIPE-row")
def test_a_number_that_a_crashed_server_gave_to_another_transaction_says_nothing_of_ours() -> None:
    with PostgresPair(standby=False, settings="fsync = on\nwal_writer_delay = '10s'") as pair:
        pair.run("create table price (sku text)")
        shop = SqlExecutor("shop", lambda: Losing.connect(pair.address()))
        primary = SqlSource("shop", pair.primary)
        Losing.how, Losing.crash = "crashes", lambda: crash(pair)
        told = shop.execute_recorded(context(), "insert into price values ('ours')")
        assert isinstance(told, Observation)
        assert isinstance(told.body, dict)
        xid, given = str(told.body["xid"]), ""
        while given != xid.split(":")[1]:
            with closing(pair.connect()) as other:
                other.execute("insert into price values ('theirs')")
                (given,) = other.execute("select pg_current_xact_id()::text").fetchone() or ("",)
                other.commit()
        assert pair.run("select count(*) from price where sku = 'ours'") == (0,)
        assert primary.settled(xid).status == "unknown_key"


def test_a_statement_that_fails_is_rolled_back_and_said(office: Office, fresh: Fresh, desk: Desk) -> None:
    sku = fresh("odd")
    office.price(sku)
    told = office.write(desk, sku, amount=1e12)  # numeric(10, 2) does not hold it
    assert not told.verified
    assert told.observation is not None
    assert told.observation.detail
    assert office.amounts(sku) == ["10.00"]


def test_a_column_that_is_not_in_the_table_is_refused_before_anything_is_written(office: Office, desk: Desk) -> None:
    action = office.action()
    with desk.open() as rb:
        told = rb.run(action(row="x", values={"version": 7}), operation="odd column")
    assert told.attempts == 0
    assert not told.verified


@pytest.mark.requirement("RECIPE-row")
def test_any_other_database_is_written_and_read_the_same_way(tmp_path: Path, desk: Desk) -> None:
    path = tmp_path / "desk.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("create table price (sku text, amount real, note text, stamp text);")
        db.execute("insert into price values ('tea', 1, 'old', null)")
        db.commit()
    shop = SqlExecutor("shop", lambda: sqlite3.connect(path), sole=True)
    source = SqlSource("price", lambda: sqlite3.connect(path))
    table = Table("price", "sku", ("amount", "note"), placeholder="?")
    action = verified_row(shop, source, table, recorded=False)
    with desk.open() as rb:
        assert rb.run(action(row="tea", values={"amount": 2}), operation="2").verified
    with pytest.raises(UsageError):
        shop.execute_recorded(context(), "select 1")
    with pytest.raises(UsageError):
        source.one("select 1", commit_token="00000001:0/1")


@pytest.mark.requirement("RECIPE-row", "IDENT-normal-form")
def test_a_truth_value_that_the_database_keeps_as_a_number_is_verified_where_that_is_said(
    tmp_path: Path, desk: Desk
) -> None:
    path = tmp_path / "desk.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table price (sku text, sold boolean, stamp text)")
        db.execute("insert into price values ('tea', 0, null)")
        db.commit()
    shop = SqlExecutor("shop", lambda: sqlite3.connect(path), sole=True)
    source = SqlSource("price", lambda: sqlite3.connect(path))
    table = Table("price", "sku", ("sold",), placeholder="?", booleans=("sold",))
    action = verified_row(shop, source, table, recorded=False)
    with desk.open() as rb:
        for number, sold in enumerate((True, False)):
            assert rb.run(action(row="tea", values={"sold": sold}), operation=f"{number}").verified
    with pytest.raises(ContractFieldError):
        Table("price", "sku", ("sold",), booleans=("other",))


@pytest.mark.parametrize(
    "odd",
    [
        {"name": 'price"; drop table price; --'},
        {"key": ""},
        {"columns": ()},
        {"columns": ("stamp",)},
        {"placeholder": "'"},
    ],
)
def test_a_name_that_is_none_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(ContractFieldError):
        Table(**{"name": "price", "key": "sku", "columns": ("amount",), **odd})


@pytest.mark.requirement("RECIPE-row")
@pytest.mark.parametrize(
    ("asked", "shown", "same"),
    [
        (7, 7, True), (7, "7.00", True), (7.5, "7.50", True), (-7, "-7", True), (10, "1E+1", True), ("7", "7", True),
        ("7", 7, False), (10, "1_0", False), (7, " 7", False), (7, "", False), (1, True, False),
        (7, "\N{ARABIC-INDIC DIGIT SEVEN}", False), (True, 1, False), (7, None, False), (None, None, True),
        (7, "NaN", False), ([1, {"on": 0}], [1, {"on": 0}], True), ([1], [True], False),
        ([{"on": 0}], [{"on": False}], False),
        ({"n": [1]}, {"n": [1.0]}, True), ([1], "[1]", False), ("7", "7 ", False), (True, True, True),
    ],
)  # fmt: skip
def test_a_number_is_the_same_in_every_scale_and_is_no_text_that_merely_may_be_read_as_one(
    asked: Any, shown: Any, same: bool
) -> None:
    assert written_as_asked({"values": {"n": asked}}, {"n": shown}) is same


def test_the_standby_takes_no_writes(office: Office) -> None:
    shop = SqlExecutor("shop", office.pair.standby)
    with pytest.raises(Exception, match=r"read-only|recovery"):
        shop.execute_recorded(context(), "update price set amount = 1")
    assert office.pair.run("select pg_is_in_recovery()", STANDBY) == (True,)
