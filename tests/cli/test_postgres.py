"""The commands on a ledger that PostgreSQL keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from readback.config import shown
from tests.cli import shop
from tests.cli.conftest import CONTRACTS, Desk

pytestmark = pytest.mark.slow


@pytest.fixture
def there(desk: Desk, ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("READBACK_URL", ledger_url)
    return desk


def test_an_action_is_run_listed_shown_and_its_ledger_recomputed(there: Desk, ledger_url: str) -> None:
    shipped = there.ship("first", code=0)
    assert shipped["state"] == "reconciled_success"
    assert [one["id"] for one in there("list", "--json", code=0).json] == [shipped["id"]]
    assert shipped["id"] in there("show", shipped["id"], code=0).out
    report = there("ledger", "verify", "--json", code=0).json
    assert (report["ok"], report["url"]) == (True, ledger_url)
    assert report["events"] > 3
    assert "opens, with the schema of this release" in there("doctor", code=0).out
    assert not (there.folder / "readback.db").exists()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER TABLE event DISABLE TRIGGER event_is_never_changed", "event_is_never_changed on event"),
        ("ALTER TABLE event_1 DISABLE TRIGGER event_is_never_changed", "event_is_never_changed on event_1"),
        ("DROP TRIGGER place_is_never_emptied ON place", "place_is_never_emptied on place"),
        (
            "CREATE TRIGGER t BEFORE UPDATE ON frozen FOR EACH ROW EXECUTE FUNCTION event_is_for_good()",
            "trigger on frozen",
        ),
        ("CREATE RULE r AS ON INSERT TO frozen DO INSTEAD NOTHING", "rule on frozen"),
    ],
)
def test_a_ledger_whose_guards_are_others_is_not_sound(there: Desk, ledger_url: str, statement: str, said: str) -> None:
    import psycopg

    from readback.stores.postgres.connection.connect import address_of

    there.ship("first", code=0)
    there("ledger", "verify", code=0)
    address = address_of(ledger_url)
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {address.schema}")  # type: ignore[arg-type]
        connection.execute(statement)  # type: ignore[arg-type]
    faults = there("ledger", "verify", "--json", code=1).json["faults"]
    assert {fault["code"] for fault in faults} == {"store.damage"}
    assert any(said in fault["what"] for fault in faults)


def test_what_waits_is_gone_on_with_by_another_process(there: Desk) -> None:
    waiting = there.ship("late", "--wait", "0", code=3, how="lie")
    orders = shop.load()
    orders["o-17"].update(status="shipped", carrier="dhl")  # somebody mended it by hand
    shop.save(orders)
    there.runtime.advance(2)
    found = there("resume", "--contracts", CONTRACTS, "--json", code=0).json["actions"]
    assert [(one["id"], one["verified"]) for one in found] == [(waiting["id"], True)]
    assert "Nothing is due" in there("resume", "--contracts", CONTRACTS, code=0).out
    assert there("ledger", "verify", "--json", code=0).json["ok"] is True


def test_where_no_ledger_is_the_doctor_says_that_the_first_action_makes_it(there: Desk) -> None:
    assert "the first action creates the ledger" in there("doctor", code=0).out
    assert there("list", code=6).err.startswith("Error: There is no ledger at")


def test_a_backup_is_left_to_the_databases_own_tools(there: Desk, tmp_path: Path) -> None:
    there.ship("first", code=0)
    said = there("ledger", "backup", "--out", str(tmp_path / "copy.db"), code=5)
    assert "pg_dump" in said.err


def test_a_server_that_is_not_there_is_a_store_error(desk: Desk, tmp_path: Path) -> None:
    said = desk("list", "--url", f"postgresql://ops:s3cret@/postgres?host={tmp_path}", code=6)
    assert "cannot be reached" in said.err
    assert "s3cret" not in said.err


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///readback.db", "sqlite:///readback.db"),
        ("sqlite:////srv/a@b/x.db", "sqlite:////srv/a@b/x.db"),
        ("postgresql://ops:p%40ss@db:5432/x?schema=a", "postgresql://ops@db:5432/x?schema=a"),
        ("postgresql://ops@db/x?password=p&schema=a", "postgresql://ops@db/x?schema=a"),
        ("postgresql://db/x?password=p", "postgresql://db/x"),
        ("postgresql://ops:p#?/s@db/x", "postgresql://ops@db/x"),
        ("postgresql://ops:s/p@db/x?schema=a", "postgresql://ops@db/x?schema=a"),
        ("postgresql://ops:12/p@db/x", "postgresql://ops@db/x"),
        ("postgresql://ops:p@db/x?user=a@b", "postgresql://ops@db/x?user=a@b"),
        ("postgresql://g:1,h:2/x?user=a@b", "postgresql://g:1,h:2/x?user=a@b"),
        ("postgresql:ops:p@db/x", "postgresql:ops@db/x"),
        ("postgresql://db/x?objects=s3://key:s3cret@b/p&schema=a", "postgresql://db/x?objects=s3://key@b/p&schema=a"),
        ("postgresql://db/x?objects=s3%3A%2F%2Fkey%3As3cret%40b", "postgresql://db/x?objects=s3://key@b"),
        ("host=db password=s3cret user=ops", "host=db user=ops"),
        ("host=db PASSWORD = 'it\\'s : 3' user=ops", "host=db user=ops"),
        ("password=s3cret", ""),
    ],
)
def test_a_ledgers_address_is_shown_without_its_password(url: str, said: str) -> None:
    assert shown(url) == said


@pytest.mark.parametrize("given", ["host=db password=s3cret", "password='s3:cret' host=db"])
def test_an_address_in_the_words_of_libpq_is_refused_without_its_password(desk: Desk, given: str) -> None:
    for words in (("list",), ("ledger", "verify")):
        said = desk(*words, "--url", given, code=5)
        assert "No ledger store supports" in said.err
        assert "cret" not in said.err + said.out
    assert "cret" not in desk("doctor", "--url", given, code=None).out
