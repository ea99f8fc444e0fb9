"""Two releases on one ledger: built, installed apart, and at work beside each other as real processes."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from readback.stores.postgres.connection.connect import address_of
from tests.packaging.conftest import ROOT
from tests.packaging.releases import CLI, PATIENCE_S, STEPS, Release, made

pytestmark = pytest.mark.slow
CONTRACTS = '''
"""A parcel is a line in a file, which is read back from it. The tool says which release called it."""
import asyncio, os
from pathlib import Path
import readback
from readback import Context, Reading, action

HERE = Path(__file__).parent

@action(
    kind="append", side_effect="low_risk_internal", target="parcel/{requested.name}",
    identity={"target": "authoritative.target", "tenant": "authoritative.tenant"},
    ensure={"there": "authoritative.name == requested.name"}, execute={"timeout": "60s"}, within="5s", polls=["0s"],
)
async def send(ctx: Context, name: str) -> object:
    """Sends a parcel; the call ends in a moment, or when the folder says so."""
    with (HERE / "calls").open("a") as file:
        file.write(f"{name} {ctx.stamp} {os.getpid()} {readback.__version__}\\n")
    await asyncio.sleep(0.02)
    while not name.startswith("quick") and not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    return {"status": "ok"}

@send.read(source="file", consistency="strong", independence="other_client", attributes=True)
async def sent(ctx: Context, name: str) -> Reading:
    for line in (HERE / "calls").read_text().splitlines():
        if line.split()[0] == name:
            return Reading.of({"name": name, "target": f"parcel/{name}", "tenant": "acme"}, stamp=line.split()[1])
    return Reading.absent()
'''
ASKING = '''
"""Leaves parcels to the workers: asking URL NAME..."""
import sys
from readback import Readback

url, *names = sys.argv[1:]
with Readback.open(url, tenant="acme", principal="agent:desk") as rb:
    print(*[rb.submit("send", {"name": name}, operation=name) for name in names])
'''
# Who has written an entry stands beside it from there on.
WROTE = """ALTER TABLE event ADD COLUMN wrote text;
ALTER TABLE event ALTER COLUMN wrote SET DEFAULT current_setting('application_name');
"""
LATER = "CREATE TABLE later (number INTEGER PRIMARY KEY) STRICT;\n"
SLOW, QUICK = ["slow0", "slow1"], [f"quick{number}" for number in range(24)]
LOOK_S = 0.05
WORKING = ("--contracts", "parcels", "--poll", "0.05", "--concurrency", "2")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases")
    (folder / "desk").mkdir()
    (folder / "desk" / "parcels.py").write_text(CONTRACTS, encoding="utf-8")
    (folder / "desk" / "asking.py").write_text(ASKING, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def releases(desk: Path) -> tuple[Release, Release, Release, Release]:
    """This one, the next one, and two after it whose ledgers have one more step: it ends what the others may write, or
    serves them too.
    """
    stores = ("postgres", WROTE), ("sqlite", LATER)
    known = {store: len(list((ROOT / STEPS.format(store)).glob("*.sql"))) for store, _ in stores}
    ends = {store: (f"{known[store] + 1:04d}_later.sql", text) for store, text in stores}
    serves = {store: (f"{known[store] + 1:04d}_later.serves_{known[store]}.sql", text) for store, text in stores}
    beside = desk / "desk"
    same = made("0.1.0", desk, beside), made("0.2.0", desk, beside)
    return (*same, made("0.3.0", desk, beside, ends), made("0.4.0", desk, beside, serves))


@pytest.fixture
def fleet(
    releases: tuple[Release, Release, Release, Release], desk: Path
) -> Iterator[tuple[Release, Release, Release, Release]]:
    for name in ("calls", "go"):
        (desk / "desk" / name).unlink(missing_ok=True)
    yield releases
    for release in releases:
        release.end()


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger of either kind that is not there yet."""
    on_postgres = request.param == "postgres"
    return str(request.getfixturevalue("ledger_url")) if on_postgres else f"sqlite:///{tmp_path}/ledger.db"


def until(seen: Callable[[], bool], *running: Release) -> None:
    """Looks again and again for what other processes do, for as long as these run."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / LOOK_S)):
        if seen():
            return
        ended = [p.communicate()[1] for each in running for p in each.started if p.poll() not in (None, 0)]
        assert not ended, ended
        pause.wait(LOOK_S)
    raise AssertionError("It never came.")


def calls(desk: Path) -> list[list[str]]:
    """Parcel, stamp, process and release of each call."""
    path = desk / "desk" / "calls"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def submitted(release: Release, url: str, names: list[str]) -> list[str]:
    asking = release.process("asking", url, *names)
    out, err = asking.communicate(timeout=PATIENCE_S)
    assert asking.returncode == 0, err
    return out.split()


def column(url: str, sql: str) -> list[str | None]:
    """What stands in the ledger's tables: to start a process for each look would take longer than all the rest."""
    if url.startswith("sqlite"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)) as file:
            file.set_busy_timeout(1000)
            return [row[0] for row in file.execute(sql)]
    address = address_of(url)
    with closing(psycopg.connect(address.url, options=f"-c search_path={address.schema}")) as server:
        return [row[0] for row in server.execute(sql.encode())]


def entries(url: str) -> list[str | None]:
    """One for each entry: who wrote it, where the ledger says so."""
    return column(url, "SELECT NULL FROM event" if url.startswith("sqlite") else "SELECT wrote FROM event")


def ended(url: str) -> bool:
    return set(column(url, "SELECT state FROM action")) == {"reconciled_success"}


def verified(release: Release, url: str, ids: list[str]) -> bool:
    _, out, _ = release.run("list", "--url", url, "--tenant", "acme", "--limit", "100", "--json")
    told = {each["id"]: each["state"] for each in json.loads(out)}
    return all(told[each] == "reconciled_success" for each in ids)


@pytest.mark.requirement("FLEET-releases")
def test_two_releases_work_side_by_side_and_each_goes_on_with_what_the_other_left(
    fleet: tuple[Release, Release, Release, Release], desk: Path, ledger_url: str
) -> None:
    old, new, *_ = fleet
    for release in (old, new):
        code, out, _ = release.run("version", "--json")
        assert (code, json.loads(out)["readback"]) == (0, release.version), "it is that release that runs"
    ids = submitted(old, ledger_url, ["a0", "a1"]) + submitted(new, ledger_url, ["b0", "b1"])
    workers = [each.process(CLI, "worker", *WORKING, "--url", ledger_url, "--tenant", "acme") for each in (old, new)]
    until(lambda: len(calls(desk)) == 4, old, new)
    by_release = Counter(each[3] for each in calls(desk))
    assert by_release == {"0.1.0": 2, "0.2.0": 2}, "each has as many in hand as it may"
    workers[0].kill()  # in the middle of its calls
    workers[0].wait()
    (desk / "desk" / "go").touch()
    until(lambda: ended(ledger_url), new)
    assert verified(new, ledger_url, ids)
    done = Counter(each[0] for each in calls(desk))
    assert len(done) == 4
    assert set(done.values()) == {1}, "nothing was done twice"
    for release in (old, new):
        code, out, err = release.run("ledger", "verify", "--url", ledger_url, "--json")
        assert (code, json.loads(out)["ok"]) == (0, True), err


@pytest.mark.requirement("FLEET-releases")
def test_a_release_is_refused_only_where_the_ledger_has_a_newer_schema(
    fleet: tuple[Release, Release, Release, Release], desk: Path, ledger_url: str
) -> None:
    old, new, later, _ = fleet
    (desk / "desk" / "go").touch()
    ids = submitted(old, ledger_url, ["a0"])
    working = ("worker", *WORKING, "--url", ledger_url, "--tenant", "acme")
    code, _, err = later.run(*working, "--until-idle")
    assert code == 0, err
    assert [each[3] for each in calls(desk)] == ["0.3.0"], "the older ledger was taken over to the newer schema"
    for release in (old, new):
        for words in (
            working,
            ("list", "--url", ledger_url),
            ("submit", "send", "--operation", "x", "--url", ledger_url),
        ):
            code, out, err = release.run(*words, "--json")
            assert code == 6, err
            error = json.loads(out)["error"]
            assert error["code"] == "store.version"
            assert error["remedy"]
    assert verified(later, ledger_url, ids)
    assert later.run("ledger", "verify", "--url", ledger_url)[0] == 0


@pytest.mark.requirement("FLEET-upgrade")
def test_an_old_worker_whose_ledger_a_newer_release_takes_over_writes_nothing_more_and_loses_and_doubles_nothing(
    fleet: tuple[Release, Release, Release, Release], desk: Path, url: str
) -> None:
    old, _, later, _ = fleet
    ids = submitted(old, url, SLOW + QUICK)
    working = ("worker", "--contracts", "parcels", "--poll", "0.05", "--concurrency", "3", "--url", url)
    worker = old.process(CLI, *working, "--tenant", "acme", "--json")
    until(lambda: {each[0] for each in calls(desk)} > set(SLOW), old)  # two in the middle of their calls
    ids += submitted(later, url, ["last"])
    before = len(entries(url))
    (desk / "desk" / "go").touch()  # and now they end, in a release that may not write it down
    out, err = worker.communicate(timeout=PATIENCE_S)
    assert (worker.returncode, json.loads(out)["error"]["code"]) == (6, "store.version"), err
    assert "continues the actions in progress" in json.loads(out)["error"]["remedy"]
    assert "Traceback" not in err
    assert len(entries(url)) == before, "it knew that schema before it wrote again"
    left = {each[0] for each in calls(desk)}
    assert "last" not in left
    code, _, err = later.run(*working, "--tenant", "acme", "--until-idle")
    assert code == 0, err
    assert verified(later, url, ids)
    done = Counter(each[0] for each in calls(desk))
    assert done == dict.fromkeys([*SLOW, *QUICK, "last"], 1), "nothing was lost, and nothing done twice"
    assert {each[3] for each in calls(desk) if each[0] not in left} == {"0.3.0"}
    assert set(entries(url)) <= {None, "0.3.0"}
    code, out, err = later.run("ledger", "verify", "--url", url, "--json")
    assert (code, json.loads(out)["ok"]) == (0, True), err


@pytest.mark.requirement("FLEET-upgrade")
def test_an_old_worker_goes_on_where_the_newer_schema_serves_it_too(
    fleet: tuple[Release, Release, Release, Release], desk: Path, url: str
) -> None:
    old, _, _, later = fleet
    ids = submitted(old, url, SLOW)
    working = ("worker", *WORKING, "--url", url, "--tenant", "acme")
    workers = [old.process(CLI, *working)]
    until(lambda: len(calls(desk)) == 2, old)
    ids += submitted(later, url, QUICK)
    workers.append(later.process(CLI, *working))
    until(lambda: len(calls(desk)) > 2, old, later)
    (desk / "desk" / "go").touch()
    until(lambda: ended(url), old, later)
    assert verified(old, url, ids)
    assert Counter(each[0] for each in calls(desk)) == dict.fromkeys([*SLOW, *QUICK], 1)
    assert {each[3] for each in calls(desk) if each[0] in SLOW} == {"0.1.0"}
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        assert (worker.wait(timeout=PATIENCE_S), "Warning" in worker.communicate()[1]) == (0, False)
    if url.startswith("postgresql"):
        assert set(entries(url)) == {None, "0.1.0", "0.4.0"}, "both wrote after the step"
    assert old.run("ledger", "verify", "--url", url)[0] == later.run("ledger", "verify", "--url", url)[0] == 0
