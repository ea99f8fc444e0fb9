"""The programs that are measured side by side: ours are run in small, the others' sources are read.

What the others need is not installed here; each has an environment of its own, which `make bench` makes.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bench.side_by_side import peer as peer_module
from bench.side_by_side.contenders import CONTENDERS, RATIOS, Contender
from bench.side_by_side.environments import LOCKS, ROOT
from bench.side_by_side.peer import Peer, PeerError, recovery
from readback.testing.postgres_server import PostgresPair

WIDTH = 3
NUMBERS = itertools.count(1)
PACKAGES = {"psycopg_pool": "psycopg"}
"""Where a module's name is not that of what is installed: the extra that brings it."""


def place_of(store: str, folder: Path, server: PostgresPair) -> str:
    """A new store of this kind."""
    if store != "postgres":
        return f"sqlite:///{folder / 'ledger.db'}"
    database = f"bench_{next(NUMBERS)}"
    with closing(server.connect(autocommit=True)) as connection:
        connection.execute(f"create database {database}".encode())
    return f"postgresql://postgres@/{database}?host={server.home}&port=5432"


OURS = [each for each in CONTENDERS if not each.environment]


@pytest.mark.slow
@pytest.mark.requirement("BENCH-beside")
@pytest.mark.parametrize("contender", OURS, ids=[each.name for each in OURS])
def test_a_program_settles_every_action_of_its_slices(
    contender: Contender, tmp_path: Path, ledger_server: PostgresPair
) -> None:
    url = place_of(contender.store, tmp_path, ledger_server)
    peer = Peer(Path(sys.executable), contender.program, url, "measure", errors=tmp_path / "errors")
    try:
        assert "settings" in peer.answer()
        for part, width in (("first", 1), ("second", WIDTH)):
            found = peer.ask(slice=part, width=width, seconds=0.02)
            assert found["done"] == len(found["took_us"]) >= width
            assert found["wall_s"] > 0 < found["cpu_s"]
        assert peer.end()["peak_mb"] > 0
    finally:
        peer.kill()
    if contender.store != "postgres":
        assert (tmp_path / "ledger.db").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.requirement("BENCH-killed")
@pytest.mark.parametrize("store", ["file", "sqlite", "postgres"])
def test_what_was_cut_off_is_settled_by_the_next_process_without_another_call(
    store: str, tmp_path: Path, ledger_server: PostgresPair
) -> None:
    program = "json_lines" if store == "file" else "readback_ledger"
    found = recovery(Path(sys.executable), program, place_of(store, tmp_path, ledger_server), tmp_path)
    assert found.seconds is not None
    assert found.seconds > 0
    assert found.calls == 1


@pytest.mark.slow
@pytest.mark.requirement("BENCH-beside")
def test_a_program_that_ends_or_is_late_voids_the_measurement(tmp_path: Path) -> None:
    missing = Peer(Path(sys.executable), "json_lines", f"sqlite:///{tmp_path}/no/such.db", "measure",
                   errors=tmp_path / "errors")  # fmt: skip
    with pytest.raises(PeerError, match="FileNotFoundError"):
        missing.answer()
    missing.kill()
    silent = Peer(Path(sys.executable), "json_lines", f"sqlite:///{tmp_path}/l.db", "measure", errors=tmp_path / "e")
    silent.answer()
    with pytest.raises(PeerError, match="no answer"):
        silent.answer(0.01)
    silent.kill()


@pytest.mark.slow
@pytest.mark.requirement("BENCH-beside")
def test_what_a_library_prints_is_passed_over_and_hides_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench" / "against").mkdir(parents=True)
    (tmp_path / "bench" / "against" / "chatty.py").write_text(
        'print(\'hello\\n{"ready": true}\\n{"done": 1}\\nbye\')\n'
    )
    monkeypatch.setattr(peer_module, "ROOT", tmp_path)
    chatty = Peer(Path(sys.executable), "chatty", "", errors=tmp_path / "errors")
    assert chatty.answer(5.0) == {"ready": True}
    assert chatty.answer(5.0) == {"done": 1}
    with pytest.raises(PeerError, match="it ended"):
        chatty.answer(5.0)
    chatty.kill()


@pytest.mark.requirement("BENCH-pinned")
@pytest.mark.parametrize("contender", CONTENDERS, ids=[each.name for each in CONTENDERS])
def test_a_program_imports_only_what_its_environment_pins(contender: Contender) -> None:
    imported = _imported(contender.program)
    assert {"bench"} <= imported
    if not contender.environment:
        assert imported <= {"bench", "readback", "apsw", "psycopg"}
        return
    pinned = _names(contender.environment, ".in")
    assert {PACKAGES.get(name, name) for name in imported - {"bench"}} <= {name.partition("-")[0] for name in pinned}
    assert pinned <= _names(contender.environment, ".lock")


def _imported(program: str) -> set[str]:
    """Top names of all that a program imports, those of the programs it builds on too, without the library's."""
    tree = ast.parse((ROOT / "bench" / "against" / f"{program}.py").read_text(encoding="utf-8"))
    dotted = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    dotted |= {one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names}
    further = [name.rpartition(".")[2] for name in dotted if name.startswith("bench.against.")]
    found = {name.partition(".")[0] for name in dotted}.union(*map(_imported, further))
    return {name for name in found if name not in sys.stdlib_module_names}


def _names(environment: str, ending: str) -> set[str]:
    """What is pinned; a lock file has a hash for each."""
    text = (LOCKS / f"{environment}{ending}").read_text(encoding="utf-8")
    found = re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)(.*)$", text, re.MULTILINE)
    assert found, environment
    if ending == ".lock":
        assert all(rest.endswith("\\") for *_, rest in found)
        assert text.count("--hash=sha256:") >= len(found)
    return {name for name, *_ in found}


@pytest.mark.requirement("BENCH-beside")
def test_whoever_is_held_against_somebody_is_measured() -> None:
    names = [each.name for each in CONTENDERS]
    assert len({*names}) == len(names)
    assert {name for ours, theirs, *_ in RATIOS for name in (ours, theirs)} <= {*names}
