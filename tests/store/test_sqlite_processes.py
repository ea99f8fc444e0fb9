"""Real processes on one file: they race and one wins, they are killed and what they acknowledged is there."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from readback.stores.sqlite import open_sqlite_store
from readback.testing.conformance.store_work import everything
from readback.testing.store_samples import TENANT, sample_append, sample_creation, sample_evidence, sample_projection
from tests.workers import forks
from tests.workers.limit import PATIENCE_S, killed_after

PROCESSES = 3
KEYS = 40
LEASES = 40
KILLS = (1, 7, 25, 60)

RACE = f"""
import sys
from readback.stores.sqlite import open_sqlite_store
from readback.ports.storage.store import Appended
from readback.testing.store_samples import sample_append, sample_creation
me, path = sys.argv[1], sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
with open_sqlite_store(path, busy_timeout_ms=60_000) as store:
    for number in range({KEYS}):
        [found] = store.append([sample_creation(f"{{me}}-{{number:03}}", key_hash=f"k{{number}}")])
        if isinstance(found, Appended):
            print("key", number, flush=True)
    for number in range({LEASES}):
        fence = store.lease("shared", me, number, number + 1)
        if fence is not None:
            print("lease", number, fence, flush=True)
    version, fence = 0, 0
    while version < 30:
        [found] = store.append([sample_append("counter", version, fence=fence)])
        if isinstance(found, Appended):
            print("version", found.version, flush=True)
        version = found.version
"""


def _children(code: str, path: Path, names: list[str]) -> Iterator[subprocess.Popen[str]]:
    for name in names:
        yield forks.start(
            [sys.executable, "-c", code, name, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def test_processes_that_race_on_one_file_never_both_win(tmp_path: Path) -> None:
    """They also race to create it: nobody has opened it before."""
    path = tmp_path / "ledger.db"
    names = [f"w{number}" for number in range(PROCESSES)]
    children = list(_children(RACE, path, names))
    said: list[tuple[str, ...]] = []
    for child in children:
        assert child.stdout is not None
        with killed_after(child):
            assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        output, errors = child.communicate(timeout=PATIENCE_S)
        assert (child.returncode, errors) == (0, "")
        said += [tuple(line.split()) for line in output.splitlines()]
    wins = Counter(line[:2] for line in said)
    assert {wins["key", str(number)] for number in range(KEYS)} == {1}
    assert {wins["version", str(number)] for number in range(1, 31)} == {1}
    assert not [line for line in said if line[0] == "lease"], "there was nothing to lease"
    with open_sqlite_store(path) as store:
        log = list(store.scan())
        assert [event.seq for event in log] == list(range(1, KEYS + 31))
        assert [event.version for event in store.events("counter")] == list(range(1, 31))
        assert store.damage() == []


def test_a_lease_that_processes_race_for_has_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with open_sqlite_store(path) as store:
        store.append([sample_creation("shared")])
    said: list[list[str]] = []
    children = list(_children(RACE, path, [f"w{number}" for number in range(PROCESSES)]))
    for child in children:
        output, errors = child.communicate("go\n")
        assert (child.returncode, errors) == (0, "")
        said += [line.split() for line in output.splitlines()]
    fences = [int(line[2]) for line in said if line[0] == "lease"]
    assert sorted(fences) == list(range(1, len(fences) + 1)), "each fence was given once"
    moments = Counter(line[1] for line in said if line[0] == "lease")
    assert max(moments.values()) == 1, "a lease of one moment is live until the next, and has one holder"


WRITE = """
import sys, threading
from readback.stores.sqlite import store as folding, open_sqlite_store
from readback.testing.store_samples import sample_append, sample_creation, sample_evidence
from dataclasses import replace
if sys.argv[1] == "folds":
    folding.LONG_PAGES, folding.REST_PAGES_MAX, folding.AGAIN_PAGES, folding.TOO_LONG_PAGES = 30, 10, 15, 60
store = open_sqlite_store(sys.argv[2])
lock = threading.Lock()
def work(name):
    for number in range(10_000):
        action = f"{name}{number:05}"
        body = sample_evidence(action.encode() * 200)
        store.append([replace(sample_creation(action, events=3), evidence=(body,))])
        with lock:
            sys.stdout.write(action + "\\n")
            sys.stdout.flush()
for name in "abcd":
    threading.Thread(target=work, args=(name,)).start()
"""


@pytest.mark.parametrize("way", ["writes", "folds"])
@pytest.mark.parametrize("acknowledged", KILLS)
def test_a_killed_writer_loses_nothing_it_acknowledged_and_leaves_nothing_half(
    tmp_path: Path, acknowledged: int, way: str
) -> None:
    """`folds`: nearly always in the middle of folding its log back."""
    path = tmp_path / "ledger.db"
    [child] = _children(WRITE, path, [way])
    assert child.stdout is not None
    with killed_after(child):
        seen = [child.stdout.readline().strip() for _ in range(acknowledged)]
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    seen += [line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    with open_sqlite_store(path) as store:
        held = {stored.projection.action_id: stored.version for stored in store.projections()}
        assert set(seen) <= set(held)
        assert set(held.values()) == {3}
        assert [event.seq for event in store.scan()] == list(range(1, 3 * len(held) + 1))
        for name in held:
            assert [event.version for event in store.events(name)] == [1, 2, 3]
            assert store.key(TENANT, sample_projection(name).key_hash) is not None
            assert store.evidence(TENANT, name, sample_evidence(name.encode() * 200).digest) is not None
        assert store.damage() == []
        store.append([sample_creation("z")])


def test_a_log_that_was_cut_anywhere_gives_the_ledger_of_an_earlier_moment(tmp_path: Path) -> None:
    """As after a power cut on a disk that lied about what it had written: older, but whole."""
    path = tmp_path / "ledger.db"
    moments = []
    with open_sqlite_store(path) as store:
        moments.append(everything(store))
        store.append([sample_creation("a0", due_us=5)])
        for number in range(1, 6):
            moments.append(everything(store))
            evidence = (sample_evidence(f"evidence of a{number}".encode()),)
            store.append([sample_append("a0", number), sample_append(f"a{number}", events=2, evidence=evidence)])
        moments.append(everything(store))
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{tmp_path}/kept{suffix}")
    log = (tmp_path / "kept-wal").read_bytes()
    found = []
    for length in range(len(log), 0, -3331):
        shutil.copyfile(tmp_path / "kept", tmp_path / "cut")
        (tmp_path / "cut-wal").write_bytes(log[:length])
        (tmp_path / "cut-shm").unlink(missing_ok=True)
        with open_sqlite_store(tmp_path / "cut") as store:
            found.append(moments.index(everything(store)))
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (len(moments) - 1, 0)
    assert set(found) == set(range(len(moments)))
