"""Two releases on one ledger: built, installed apart, and at work beside each other as real processes."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.packaging.releases import PATIENCE_S, Release, made

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
    """Sends a parcel; the call ends when the folder says so."""
    with (HERE / "calls").open("a") as file:
        file.write(f"{name} {ctx.stamp} {os.getpid()} {readback.__version__}\\n")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    return {"status": "ok"}

@send.read(source="file", consistency="strong", independence="other_client", attributes=True)
async def sent(ctx: Context, name: str) -> Reading:
    for line in (HERE / "calls").read_text().splitlines():
        if line.split()[0] == name:
            return Reading.of({"name": name, "target": f"parcel/{name}", "tenant": "acme"}, stamp=line.split()[1])
    return Reading.absent()
'''
NEWER = ("0099_later.sql", "CREATE TABLE later (number bigint PRIMARY KEY);\n")
LOOK_S = 0.05
WORKING = ("--contracts", "parcels", "--poll", "0.05", "--concurrency", "2")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("releases")
    (folder / "desk").mkdir()
    (folder / "desk" / "parcels.py").write_text(CONTRACTS, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def releases(desk: Path) -> tuple[Release, Release, Release]:
    """This one, the next one, and one after it whose ledger has another schema."""
    name, text = NEWER
    steps = sorted((Path(__file__).parents[2] / "src/readback/adapters/store_postgres/migrations").glob("*.sql"))
    newer = (f"{len(steps) + 1:04d}{name[4:]}", text)
    beside = desk / "desk"
    return made("0.1.0", desk, beside), made("0.2.0", desk, beside), made("0.3.0", desk, beside, newer)


@pytest.fixture
def fleet(releases: tuple[Release, Release, Release], desk: Path) -> Iterator[tuple[Release, Release, Release]]:
    for name in ("calls", "go"):
        (desk / "desk" / name).unlink(missing_ok=True)
    yield releases
    for release in releases:
        release.end()


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
    found = []
    for name in names:
        words = ("submit", "send", "--operation", name, "--arg", f"name={name}", "--url", url, "--tenant", "acme")
        code, out, err = release.run(*words)
        assert code == 0, err
        found.append(out.strip())
    return found


def verified(release: Release, url: str, ids: list[str]) -> bool:
    _, out, _ = release.run("list", "--url", url, "--tenant", "acme", "--limit", "100", "--json")
    told = {each["id"]: each["state"] for each in json.loads(out)}
    return all(told[each] == "reconciled_success" for each in ids)


@pytest.mark.requirement("FLEET-releases")
def test_two_releases_work_side_by_side_and_each_goes_on_with_what_the_other_left(
    fleet: tuple[Release, Release, Release], desk: Path, ledger_url: str
) -> None:
    old, new, _ = fleet
    for release in (old, new):
        code, out, _ = release.run("version", "--json")
        assert (code, json.loads(out)["readback"]) == (0, release.version), "it is that release that runs"
    ids = submitted(old, ledger_url, ["a0", "a1"]) + submitted(new, ledger_url, ["b0", "b1"])
    workers = [each.process("worker", *WORKING, "--url", ledger_url, "--tenant", "acme") for each in (old, new)]
    until(lambda: len(calls(desk)) == 4, old, new)
    by_release = Counter(each[3] for each in calls(desk))
    assert by_release == {"0.1.0": 2, "0.2.0": 2}, "each has as many in hand as it may"
    workers[0].kill()  # in the middle of its calls
    workers[0].wait()
    (desk / "desk" / "go").touch()
    until(lambda: verified(new, ledger_url, ids), new)
    done = Counter(each[0] for each in calls(desk))
    assert len(done) == 4
    assert set(done.values()) == {1}, "nothing was done twice"
    for release in (old, new):
        code, out, err = release.run("ledger", "verify", "--url", ledger_url, "--json")
        assert (code, json.loads(out)["ok"]) == (0, True), err


@pytest.mark.requirement("FLEET-releases")
def test_a_release_is_refused_only_where_the_ledger_has_a_newer_schema(
    fleet: tuple[Release, Release, Release], desk: Path, ledger_url: str
) -> None:
    old, new, later = fleet
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
