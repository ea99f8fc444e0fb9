"""Each column of each table of a ledger is changed by hand, and `ledger verify` finds it; or a reason says why not.

The tables and columns are read from the schema, so that a new one is covered or fails here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from readback import bootstrap
from readback.audit.checks.ledger import AuditReport, Fault, audit
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.sealing.seal import seal
from readback.ports.storage.log import AnchorMark
from readback.ports.storage.store import LedgerStore
from tests.cli.conftest import CONTRACTS, Desk
from tests.lifecycle.trip import S, Trip

Value = str | int | bytes | None

CANNOT_MATTER = {
    ("action", "lease_owner"): "who works on an action now: a wrong one delays work until the lease ends",
    ("action", "lease_until_us"): "as its owner: only how long nobody else takes the action up",
    ("action", "fence"): "counts leases; an append is also held to the version, which is checked",
    ("payload", "id"): "the order of arrival; nothing refers to it",
    ("migration", "name"): "a label; number and text's hash are what is checked when the file is opened",
    ("counter", "tenant"): "one of a tenant that has no such actions is found; one of no tenant at all counts for none",
    (
        "counter",
        "subject",
    ): "which source is blamed holds its actions back, and verifies nothing",
    ("counter", "value"): "a fault more or less calls a person earlier or later; more than there are entries is found",
    ("checkpoint", "at_us"): "when it was signed: nothing is decided by it, and no entry says so",
    ("anchor", "name"): "what an anchor was told counts by what it shows itself; this only spares asking it",
    ("anchor", "at_us"): "as its name",
    ("anchor", "said"): "as its name",
    ("subscriber", "name"): "who was told what stands in no entry; the log, out of which it can be told again, does",
    ("subscriber", "tried"): "when the next message is tried, and given up; it stays in the log",
    ("subscriber", "since_us"): "as tried",
    ("subscriber", "next_us"): "as tried",
    ("subscriber", "said"): "as tried",
    ("subscriber", "owner"): "who delivers now: a wrong one delays messages until the lease ends",
    ("subscriber", "until_us"): "as its owner",
    ("dead_letter", "died_us"): "when a message was given up; which one it was is checked",
    ("dead_letter", "tried"): "as died_us",
    ("dead_letter", "said"): "as died_us",
    ("dead_letter", "again"): "whether it is delivered once more",
}
ROWS_CHANGED = 8
OF_SUBSCRIBERS = {"subscriber", "dead_letter"}
REFUSED_ON_OPENING = {("migration", "number"), ("migration", "sha256")}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A ledger with actions that ended in several ways, in one file."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("ledger")
        patch.chdir(folder)
        patch.setenv("SHOP_FILE", str(folder / "shop.json"))
        from readback.testing.runtime_virtual import VirtualRuntime

        runtime = VirtualRuntime()
        patch.setattr(bootstrap, "runtime", lambda: runtime)
        desk = Desk(folder, runtime)
        _subscribe(patch, folder)
        verified = desk.ship("verified", code=0, pin="1234")["id"]
        desk.ship("missing", order_id="o-99", how="lie", code=3)
        desk.ship("waiting", "--wait", "0", how="lie", carrier="ups", code=3)
        desk.run("wipe", "--operation", "held", order_id="o-17", code=4)
        desk.run("annotate", "--operation", "n", order_id="o-17", note="break the reader", code=5)
        runtime.advance(3600)
        desk("resume", "--contracts", CONTRACTS, "--json")
        desk.ship("missing", order_id="o-99", how="lie", code=4)
        _decide(desk)
        desk("ledger", "erase", "--action", verified, "--reason", "Asked for.", "--who", "human:eve", code=0)
        _sagas(desk)
        _seal(desk)
        yield desk.ledger


def _subscribe(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Somebody who takes everything, somebody who takes nothing, and somebody who is tried again."""
    settings = folder / "config" / "readback"
    settings.mkdir(parents=True)
    patch.setenv("XDG_CONFIG_HOME", str(settings.parent))
    said = """
        [subscribers.bus]
        file = "told.jsonl"
        [subscribers.gone]
        file = "/no/such/folder"
        attempts = 1
        give_up_s = 0
        [subscribers.slow]
        file = "/no/such/folder"
        """
    (settings / "config.toml").write_text(said, encoding="utf-8")


def _sagas(desk: Desk) -> None:
    """One that is verified, one that was reversed, and one that waits."""
    store = bootstrap.store(f"sqlite:///{desk.ledger}")
    trip = Trip(store=store, runtime=desk.runtime)
    trip.run(operation="verified")
    trip.world.faults["car"] = "refused"
    trip.run(trip.steps("t-2"), operation="reversed")
    trip.work()
    trip.world.faults["car"] = "late"
    trip.driver.drive(trip.begin(trip.steps("t-3"), "waiting"), desk.runtime.now_us() + S)
    store.close()


def _seal(desk: Desk) -> None:
    """Two checkpoints, and an anchor that took the first of them."""
    signer = bootstrap.create_log_key(desk.folder / "log.key", "example.com/ledger")
    authority = Authority(key_of(signer), bootstrap.verify_signature)
    store = bootstrap.store(f"sqlite:///{desk.ledger}")
    first = store.entries(0, 40)
    half = _Half(store, len(first))
    seal(half, signer, authority, 1)  # type: ignore[arg-type]
    store.mark(AnchorMark("file:///elsewhere", len(first), 1, ""))
    seal(store, signer, authority, 2)
    store.close()


class _Half:
    """A store that shows only its first entries."""

    def __init__(self, store: LedgerStore, size: int) -> None:
        self._store, self._size = store, size

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def entries(self, after_seq: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        return self._store.entries(after_seq, min(limit, self._size - after_seq))


def _decide(desk: Desk) -> None:
    """Freezes, one of them lifted; incidents, one of them closed; reviews that were decided in several ways."""
    twice = [desk.run("charge", "--operation", ref, ref=ref, amount="5", how="twice", code=4).json for ref in "abc"]
    _resolve(desk, twice[0]["id"], "attest_done")
    desk("freezes", "lift", "resource:charge/a", "--reason", "Refunded by hand.", "--who", "human:eve", code=0)
    desk.run("charge", "--operation", "again", ref="b", amount="5", code=1)  # frozen
    _resolve(desk, twice[2]["id"], "compensate", "--contracts", CONTRACTS)
    rung = [desk.run("ring", "--operation", text, desk="d", text=text, code=4).json for text in ("x", "y", "z")]
    _resolve(desk, rung[0]["id"], "attest_not_done")
    _resolve(desk, rung[1]["id"], "abandon")
    _resolve(desk, rung[2]["id"], "attest_not_done")
    desk.run("ring", "--operation", "z", desk="d", text="z", code=4)  # takes the key over
    _resolve(desk, rung[0]["id"], "reopen", "--contracts", CONTRACTS)


def _resolve(desk: Desk, action_id: str, decision: str, *more: str) -> None:
    version = desk("review", "show", action_id, "--json", code=0).json["version"]
    given = ("--decision", decision, "--expect-version", str(version), "--reason", "Because.", "--who", "human:eve")
    desk("review", "resolve", action_id, *given, *more, code=0)


@pytest.fixture(scope="module")
def unsubscribed(untouched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without anybody who is told: fewer checks look at it, and what is found in it they find in both."""
    copy = Path(shutil.copy(untouched, tmp_path_factory.mktemp("unsubscribed") / "readback.db"))
    for table in OF_SUBSCRIBERS:
        tamper(copy, lambda connection, name=table: connection.execute(f"delete from {name}"))  # type: ignore[misc]
    assert checked(copy).faults == []
    return copy


@pytest.fixture
def ledger(untouched: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(untouched, tmp_path / "readback.db"))


def checked(path: Path) -> AuditReport:
    store = bootstrap.store(f"sqlite:///{path}", read_only=True)
    try:
        report = audit(store)
        for line in bootstrap.store_damage(store):
            report.faults_total += 1
            report.faults.append(_of_store(line))
        return report
    finally:
        store.close()


def _of_store(line: str) -> Fault:
    return Fault("store.damage", line)


def schema() -> list[tuple[str, str]]:
    """Every column of every table, by the migrations alone."""
    connection = apsw.Connection(":memory:")
    from readback.stores.sqlite.schema import migrate

    migrate(connection, Path("memory"))
    tables = [str(row[0]) for row in connection.execute("select name from sqlite_schema where type = 'table'")]
    return [(t, str(row[1])) for t in tables for row in connection.execute(f"pragma table_info({t})")]


def tamper(path: Path, change: Callable[[apsw.Connection], None]) -> None:
    """As somebody would who has the file: the triggers are no obstacle, and are put back."""
    connection = apsw.Connection(str(path))
    connection.pragma("synchronous", "off")  # a copy that nobody misses
    connection.execute("begin immediate")
    triggers = [str(row[0]) for row in connection.execute("select sql from sqlite_schema where type = 'trigger'")]
    for row in list(connection.execute("select name from sqlite_schema where type = 'trigger'")):
        connection.execute(f"drop trigger {row[0]}")
    change(connection)
    for trigger in triggers:
        connection.execute(trigger)
    connection.execute("commit")
    connection.close()


def other(value: Value, column: str) -> Value:
    match value:
        case None:
            return b"x" if column == "body" else 1
        case int():
            return value + 1_000_000
        case str():
            return value + "x" if value else "x"
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:]


def change_cell(table: str, column: str, rowid: int) -> Callable[[apsw.Connection], None]:
    """The rows of a table WITHOUT ROWID are told apart by their place."""

    def change(connection: apsw.Connection) -> None:
        if without_rowid(connection, table):
            names = primary_key(connection, table)
            chosen = f"select {', '.join(names)} from {table} order by {', '.join(names)} limit 1 offset {rowid - 1}"
            row = connection.execute(chosen).fetchall()[0]
            where = " and ".join(f"{name} = ?" for name in names)
            before = connection.execute(f'select "{column}" from {table} where {where}', row).get
            connection.execute(f'update {table} set "{column}" = ? where {where}', (other(before, column), *row))
            return
        before = connection.execute(f'select "{column}" from {table} where rowid = ?', (rowid,)).get
        connection.execute(f'update {table} set "{column}" = ? where rowid = ?', (other(before, column), rowid))

    return change


def without_rowid(connection: apsw.Connection, table: str) -> bool:
    return any(bool(row[4]) for row in connection.execute("pragma table_list") if row[1] == table)


def primary_key(connection: apsw.Connection, table: str) -> list[str]:
    found = [(int(row[5]), str(row[1])) for row in connection.execute(f"pragma table_info({table})") if row[5]]
    return [name for _, name in sorted(found)]


def rowids(path: Path, table: str) -> list[int]:
    connection = apsw.Connection(str(path))
    try:
        if without_rowid(connection, table):
            return [*range(1, int(connection.execute(f"select count(*) from {table}").get) + 1)]
        return [int(row[0]) for row in connection.execute(f"select rowid from {table}")]
    finally:
        connection.close()


def test_the_ledger_is_sound_before_it_is_touched(ledger: Path) -> None:
    report = checked(ledger)
    assert report.faults == []
    assert report.actions == 30
    assert report.events > 100
    assert report.keys == 26


@pytest.mark.requirement("PRINCIPLE-replayable-evidence", "L22")
@pytest.mark.parametrize(("table", "column"), schema())
def test_l22_a_changed_column_is_found_in_every_row_or_cannot_matter(
    untouched: Path, unsubscribed: Path, tmp_path: Path, table: str, column: str
) -> None:
    ledger = untouched if table in OF_SUBSCRIBERS else unsubscribed
    rows = rowids(ledger, table)
    assert rows, f"the table {table} is empty: nothing would be proven"
    unseen = 0
    for number in rows[:: max(1, len(rows) // ROWS_CHANGED)]:
        copy = Path(shutil.copy(ledger, tmp_path / "tampered.db"))
        tamper(copy, change_cell(table, column, number))
        if (table, column) in REFUSED_ON_OPENING:
            with pytest.raises(Exception, match=r"schema|migration"):
                checked(copy)
        elif (table, column) in CANNOT_MATTER:
            unseen += checked(copy).ok
        else:
            report = checked(copy)
            assert not report.ok, f"{table}.{column} of row {number} was changed, and nobody saw it"
            assert report.faults[0].what
    assert (unseen > 0) == ((table, column) in CANNOT_MATTER), "it is always found: take it off the list"


def test_the_list_of_what_cannot_matter_names_columns_that_are_there() -> None:
    assert CANNOT_MATTER.keys() | REFUSED_ON_OPENING <= set(schema())


@pytest.mark.parametrize(
    "table", ["event", "action", "idempotency", "payload", "contract_text", "freeze", "incident", "tile", "reliance"]
)
def test_a_removed_row_is_found(unsubscribed: Path, tmp_path: Path, table: str) -> None:
    numbers = rowids(unsubscribed, table)
    for number in [*numbers[:: max(1, len(numbers) // ROWS_CHANGED)], numbers[-1]]:
        copy = Path(shutil.copy(unsubscribed, tmp_path / "tampered.db"))
        tamper(copy, lambda connection, n=number: _remove(connection, table, n))  # type: ignore[misc]
        assert not checked(copy).ok, f"row {number} of {table} was removed, and nobody saw it"


def test_a_key_that_was_made_up_is_found(ledger: Path) -> None:
    """It would answer for an operation that never was."""

    def invent(connection: apsw.Connection) -> None:
        columns = "tenant, 'made up', request_hash, action_id, status, 0, 0"
        connection.execute(f"insert into idempotency select {columns} from idempotency limit 1")

    tamper(ledger, invent)
    assert "made up" in checked(ledger).faults[0].what


def test_a_freeze_in_a_tenant_that_has_no_actions_yet_is_found(ledger: Path) -> None:
    """It would refuse that tenant's first ones."""

    def invent(connection: apsw.Connection) -> None:
        columns = "'initech', 'tenant:initech', action_id, reason, since_us"
        connection.execute(f"insert into freeze select {columns} from freeze limit 1")

    tamper(ledger, invent)
    assert ["initech" in fault.what for fault in checked(ledger).faults] == [True]


@pytest.mark.parametrize(
    "sql",
    [
        "insert into freeze select tenant, 'tenant:default', action_id, reason, since_us from freeze limit 1",
        "insert into incident select tenant, 'inc-x-1', 'x', severity, action_id, 1, 1, 0 from incident limit 1",
        "update incident set closed_us = 0 where closed_us > 0",
        "delete from incident",
        "delete from freeze",
    ],
)
def test_a_freeze_or_an_incident_that_no_entry_tells_of_is_found(ledger: Path, sql: str) -> None:
    def change(connection: apsw.Connection) -> None:
        connection.execute(sql)

    tamper(ledger, change)
    codes = {fault.code for fault in checked(ledger).faults}
    assert "control" in codes
    assert codes <= {"control", "outbox"}, "what is told of an incident follows from it"


def _remove(connection: apsw.Connection, table: str, rowid: int) -> None:
    if without_rowid(connection, table):
        names = ", ".join(primary_key(connection, table))
        chosen = f"select {names} from {table} order by {names} limit 1 offset {rowid - 1}"
        connection.execute(f"delete from {table} where ({names}) in ({chosen})")
        return
    connection.execute(f"delete from {table} where rowid = ?", (rowid,))


@pytest.mark.requirement("L22")
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("drop trigger event_is_never_removed", "event_is_never_removed"),
        ("drop trigger event_is_never_changed", "event_is_never_changed"),
        ("drop index event_of_action", "event_of_action"),
        ("create trigger t after insert on idempotency begin delete from freeze; end", "'t'"),
        ("alter table freeze rename to f; create view freeze as select * from f where false", "freeze"),
        ("alter table action add column more text", "action"),
    ],
)
def test_a_schema_that_guards_less_or_does_more_is_found(ledger: Path, sql: str, said: str) -> None:
    """A trigger of somebody's own changes whatever is written next, and came along in every backup."""
    connection = apsw.Connection(str(ledger))
    connection.execute(sql).fetchall()
    connection.close()
    found = [fault for fault in checked(ledger).faults if fault.code == "store.damage"]
    assert any(said in fault.what for fault in found)


def test_an_index_of_somebodys_own_is_no_fault(ledger: Path) -> None:
    connection = apsw.Connection(str(ledger))
    connection.execute("create index mine on action (updated_us); analyze").fetchall()
    connection.close()
    assert checked(ledger).faults == []


@pytest.mark.requirement("SEC-audit-beside")
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("create table notes (text)", "notes"),
        ("create view approved as select * from action", "approved"),
        ("create unique index once on action (action_id, target)", "once"),
        ("create virtual table words using fts5 (x)", "words"),
        ("pragma user_version = 3", "user_version"),
    ],
)
def test_what_stands_beside_the_ledger_s_own_schema_is_named(sql: str, said: str, ledger: Path) -> None:
    tamper(ledger, lambda connection: connection.execute(sql).fetchall())
    [*found] = checked(ledger).faults
    assert found
    assert any(said in each.what for each in found)


@pytest.mark.requirement("SEC-audit-beside")
@pytest.mark.parametrize(
    ("subject", "name", "value"),
    [
        ("contract:ship", "mismatch", 1_000),
        ("contract:never", "mismatch", 1),
        ("contract:ship", "sighted:0123456789abcdef", 1),
        ("contract:never", "sighted:0123456789abcdef", 1),
        ("anything", "at all", 1),
    ],
)
def test_a_counter_that_no_entry_can_have_moved_is_found(subject: str, name: str, value: int, ledger: Path) -> None:
    def made_up(connection: apsw.Connection) -> None:
        tenant = connection.execute("select tenant from action limit 1").get
        connection.execute("insert or replace into counter values (?, ?, ?, ?)", (tenant, subject, name, value))

    tamper(ledger, made_up)
    [fault] = checked(ledger).faults
    assert fault.code == "counter"
    assert subject in fault.what


@pytest.mark.requirement("L21")
def test_l21_a_log_that_was_cut_off_looks_sound_and_the_answer_says_that_it_cannot_tell(
    ledger: Path, desk: Desk
) -> None:
    url = f"sqlite:///{ledger}"
    head = desk("ledger", "verify", "--json", "--url", url, code=0).json["head"]
    tamper(ledger, _cut_off_everything)
    answer = desk("ledger", "verify", "--url", url, code=0)
    assert "truncation not detectable" in answer.out
    assert desk("ledger", "verify", "--json", "--url", url, code=0).json["events"] == 0
    kept = f"{head['seq']}:{head['leaf']}"
    with_head = desk("ledger", "verify", "--json", "--url", url, "--head", kept, code=1).json
    assert with_head["faults"][0]["code"] == "log.head"
    assert "not detectable" not in with_head["truncation"]


def _cut_off_everything(connection: apsw.Connection) -> None:
    tables = (
        "event",
        "action",
        "idempotency",
        "payload",
        "contract_text",
        "weight",
        "counter",
        "freeze",
        "incident",
        "reliance",
    )
    for table in (*tables, "tile", "checkpoint", "anchor", "subscriber", "dead_letter"):
        connection.execute(f"delete from {table}")


def test_a_forged_entry_whose_leaf_was_made_anew_breaks_the_link_behind_it(ledger: Path) -> None:
    from readback.log.tree import leaf_hash

    def forge(connection: apsw.Connection) -> None:
        envelope = connection.execute("select envelope from event where seq = 3").get
        forged = envelope.replace(b"validated", b"rejected_")
        row = (forged, leaf_hash(forged))
        connection.execute("update event set envelope = ?, leaf = ? where seq = 3", row)

    tamper(ledger, forge)
    report = checked(ledger)
    assert not report.ok
    assert report.faults[0].seq == 3


def test_the_first_bad_entry_is_named_with_its_place(ledger: Path, desk: Desk) -> None:
    tamper(ledger, change_cell("event", "leaf", 7))
    url = f"sqlite:///{ledger}"
    answer = desk("ledger", "verify", "--url", url, code=1)
    assert "first: entry 7: entry.leaf" in answer.out
    assert "Nothing was changed" in answer.err
    fault = desk("ledger", "verify", "--url", url, "--json", code=1).json["faults"][0]
    assert (fault["seq"], fault["code"]) == (7, "entry.leaf")
    assert fault["action_id"]


def test_a_due_time_that_was_brought_forward_is_no_fault(ledger: Path) -> None:
    """A signal does that: it wakes the next reading, and decides nothing."""

    def make_due(connection: apsw.Connection) -> None:
        connection.execute(
            "update action set due_us = due_us - 1000, ready_us = ready_us - 1000 where due_us is not null"
        )

    tamper(ledger, make_due)
    assert checked(ledger).ok


def test_a_due_time_that_was_put_off_is_found(ledger: Path) -> None:
    """An action that is due in a year is taken up by no worker: it is lost."""

    def put_off(connection: apsw.Connection) -> None:
        year = 366 * 86_400_000_000
        connection.execute(
            f"update action set due_us = due_us + {year}, ready_us = ready_us + {year} where due_us is not null"
        )

    tamper(ledger, put_off)
    report = checked(ledger)
    assert report.faults
    assert {fault.code for fault in report.faults} == {"projection.column"}
    assert all("due_us" in fault.what for fault in report.faults)


def test_what_is_moved_on_while_it_is_looked_at_is_no_fault(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process appends between two reads: the audit looks again and folds what is there then."""
    store = bootstrap.store(f"sqlite:///{ledger}", read_only=True)
    stale = list(store.projections())
    events = type(store).events
    before = stale[0]

    def shortly_before(self: object) -> Iterator[object]:
        from dataclasses import replace

        yield replace(before, version=before.version - 1, projection=replace(before.projection, state="executing"))
        yield from stale[1:]

    monkeypatch.setattr(type(store), "projections", shortly_before)
    assert audit(store).faults == []
    assert events is not None
    store.close()
