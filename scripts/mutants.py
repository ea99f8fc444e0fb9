"""The mutation gate: changes the lines that decide about truth one at a time, and asks whether a test notices.

    scripts/mutants.sh                 every mutant; each module has to reach its floor (make mutants)
    scripts/mutants.sh sample          a fixed sample of each room, with a floor for it (make check)
    scripts/mutants.sh stages audit    the mutants of these rooms (see mutants_rooms.py)
    scripts/mutants.sh state reading   the mutants of these modules, with the diff of each survivor
                                       (named as saga/moves in the domain, engine/stages/recover elsewhere)

Why not mutmut, which is in the test dependencies' reach: it changes function bodies alone, and of those none
that is decorated. Here the decisions are data (the recovery rows, the state machine, the depth of each class,
the codes) and properties; nearly half of the mutants below are ones that it cannot make.

`mutants_known.toml` lists survivors: `equivalent` (no test can tell it from the original; it counts
neither way) or `open` (a test could, none does yet; it counts as survived, and does not stop the sample).
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from mutants_child import AT_IMPORT, BROKEN, INVALID, SURVIVED
from mutants_make import Mutant, mutants_of, vocabularies_of
from mutants_rooms import PACKAGE, ROOMS, ROOT, SOURCE, Room, label_of, path_of
from mutants_run import CONTROL, RedTestsError, cold, preload, pytest_arguments, warm

KNOWN = Path(__file__).with_name("mutants_known.toml")
SEED = "readback/mutants/1"
"""Which mutants the sample holds: those whose id hashes lowest with it."""
SAMPLE_SURVIVORS_MAX = 3
"""How many of the domain's sample may survive unlisted; elsewhere the room's floor holds for its sample."""
STRICT_FLOOR = 0.95
STRICT = (
    "action/action_state",
    "action/approval_record",
    "action/key_release",
    "contract/approval",
    "contract/freezing",
    "idempotency",
    "people/review",
    "recovery/action",
    "recovery/rows",
    "recovery/rows_own",
    "recovery/rule",
    "recovery/table",
    "saga/check",
    "saga/fold",
    "saga/planner",
    "state",
    "verification/attribution",
    "verification/change",
    "verification/observation",
    "verification/observation_signs",
    "verification/reconcile",
    "verification/reconciliation",
)
"""What decides whether an action succeeded, what is done about it, and whether it may run again."""

CONTROL_FILES = 8
"""How many files of tests have to show, cold, that nothing dies of no change."""
DESELECTED = (
    # These start a type checker of their own, which reads the files and not what is changed here.
    "tests/unit/test_reporting.py::test_a_false_report_is_a_type_error",
    "tests/unit/test_belief.py::test_an_observation_is_a_type_error",
)


@dataclass(slots=True)
class Run:
    """What one call works on, and what it has found."""

    sources: dict[str, bytes]
    known: dict[str, tuple[str, str]]
    base: Path
    room: Room
    tests: Sequence[str]
    green: dict[str, Any] = field(default_factory=dict)
    result: dict[str, int] = field(default_factory=dict)
    killed_by: dict[str, str] = field(default_factory=dict)
    """The test that noticed a mutant, in a warm process."""
    hangs: str = ""
    """What a warm session did when it had to be ended."""
    importing: float = 0.0
    """Processor seconds that importing Readback and a file of tests takes, at most; as the cold control has shown."""
    again: dict[str, list[str]] = field(default_factory=dict)
    """What survived warm and has to be tried cold, with the files that may tell; none stands for all."""
    killers: dict[str, Counter[str]] = field(default_factory=dict)

    def arguments(self, files: Iterable[str]) -> list[str]:
        return pytest_arguments(files, DESELECTED, self.base / "tests")

    def files_for(self, module: str) -> list[str]:
        """Cold files, the likeliest first: those that name the module, then what imports it, and so on."""
        killers = self.killers.setdefault(module, Counter())
        texts = {file: with_helpers(ROOT / file) for file in self.green["cost"]}
        near: dict[str, int] = {}
        names, wider, depth = set[str](), {module}, 0
        while wider > names:
            names = wider
            for file, text in texts.items():
                if file not in near and names_any(text, names):
                    near[file] = depth
            wider = names | {name for name, text in self.sources.items() if names_any(text.decode(), names)}
            depth += 1
        cost = self.green["cost"]
        own = f"test_{module.replace('/', '_')}"
        return sorted(near, key=lambda one: (-killers[one], near[one], own not in one, cost[one]))


@lru_cache
def taken_from(test: Path) -> frozenset[str]:
    """The other files of tests that a test file takes something from."""
    names = re.findall(r"^from (tests[.\w]*) import", test.read_text(encoding="utf-8"), re.M)
    return frozenset(path for name in names if (ROOT / (path := f"{name.replace('.', '/')}.py")).is_file())


@lru_cache
def with_helpers(test: Path) -> str:
    """A test file's text with the texts of what it takes from other files of tests."""
    files = [test, *(ROOT / path for path in sorted(taken_from(test)))]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def names_any(text: str, modules: Iterable[str]) -> bool:
    """Whether a source imports one of these modules of the domain."""
    return any(re.search(_import_of(name), text) for name in modules)


@lru_cache
def _import_of(module: str) -> str:
    """What a source says that imports this module, as a pattern."""
    *rooms, name = module.split("/")
    return rf"{re.escape('.'.join((PACKAGE, 'domain', *rooms)))}(\.| import [^\n]*\b){name}\b"


def _files_at(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("test_*.py"))


def test_files(room: Room, places: Iterable[str]) -> list[str]:
    """The test files that have to do with the room."""
    files = [file for place in places for file in _files_at(ROOT / place)]
    name = "readback.domain" if room.whole else PACKAGE
    return [file.relative_to(ROOT).as_posix() for file in files if name in with_helpers(file)]


def try_all(run: Run, mutants: Sequence[Mutant]) -> None:
    """Fill `run.result`: warm where that is possible, else cold.

    A control stands first both times: a change of nothing, which has to survive, or no death here means anything.
    """
    control = Mutant(*control_of(mutants), 0, 0, b"", CONTROL)
    named = {one.id: one for one in mutants}

    def take(line: dict[str, Any]) -> None:
        if "again" in line:
            run.again[line["again"]] = line["files"]
        elif "hangs" in line:
            run.hangs = line["hangs"]
        elif "id" not in line:
            run.green = line
        else:
            run.result[line["id"]] = line["status"]
            if line.get("test"):
                run.killed_by[line["id"]] = line["test"]
            if line["status"] == SURVIVED and line["id"] in named:
                show_survivor(run, named[line["id"]])

    files = test_files(run.room, run.tests)
    warm([control, *(one for one in mutants if one.scope)], run.sources, run.arguments(files), take)
    if run.hangs:
        raise RedTestsError(f"the session was ended, since it did nothing any more: {run.hangs}")
    if not run.green or run.green["red"]:
        raise RedTestsError(", ".join(run.green.get("red", [])) or "the tests could not be started")
    if run.result.get(CONTROL) != SURVIVED:
        killer = run.killed_by.get(CONTROL, "its bounds of time")
        raise RedTestsError(f"a change of nothing, in a warm process: ended by {killer}")
    if not run.room.whole:
        run.result |= {
            one.id: SURVIVED if one.id in run.again else INVALID for one in mutants if one.id not in run.result
        }
        return
    preload(run.green["modules"])
    run.importing = run.green["collecting"]
    for one in [control, *(one for one in mutants if one.id not in run.result)]:
        try_cold(run, one)
        if one is control and run.result[CONTROL] != SURVIVED:
            raise RedTestsError("a change of nothing, in a cold process")


def control_of(mutants: Sequence[Mutant]) -> tuple[str, str]:
    """The function that is left as it is: that of the first mutant of a function."""
    first = next(one for one in mutants if one.scope)
    return first.module, first.scope


def try_cold(run: Run, mutant: Mutant) -> None:
    """Try one mutant from the import on."""
    files = run.files_for(mutant.module)[: CONTROL_FILES if mutant.id == CONTROL else None]
    importing = run.again.get(mutant.id)
    if importing:
        files = [file for file in files if file in importing or taken_from(ROOT / file) & {*importing}] or files
    cost = {file: run.green["cost"][file] for file in files}
    status, killer, used = cold(mutant, run.sources[mutant.module], cost, run.arguments, run.importing)
    if status == BROKEN:
        raise RedTestsError(f"pytest itself, in {killer or 'an import'}, with {mutant.id}")
    run.result[mutant.id] = status
    if mutant.id == CONTROL:
        run.importing = used
    if killer:
        run.killers[mutant.module][killer] += 1
    elif status == SURVIVED and mutant.id != CONTROL:
        show_survivor(run, mutant)


# --- what is said ---


def diff(mutant: Mutant, source: bytes) -> str:
    """The change as a diff without context."""
    name = path_of(mutant.module).relative_to(SOURCE).as_posix()
    old, new = (text.decode().splitlines() for text in (source, mutant.apply(source)))
    return "\n".join(difflib.unified_diff(old, new, name, name, lineterm="", n=0))


def show_survivor(run: Run, mutant: Mutant) -> None:
    """Print a survivor that nobody listed, as soon as it is one."""
    if mutant.id not in run.known:
        print(f"\nsurvived: {mutant.id}\n{diff(mutant, run.sources[mutant.module])}", flush=True)


def show_rates(run: Run, mutants: Sequence[Mutant]) -> list[str]:
    """Print a line for each module and one for all; the modules below their floor."""
    below = []
    print(f"\n{run.room.name}")
    print(f"{'module':<34}{'mutants':>8}{'killed':>8}{'survived':>9}{'equivalent':>11}{'rate':>8}{'floor':>7}")
    for module in [*run.sources, ""]:
        mine = [one for one in mutants if module in ("", one.module) and run.result[one.id] != INVALID]
        lived = [one for one in mine if run.result[one.id] == SURVIVED]
        same = sum(run.known.get(one.id, ("",))[0] == "equivalent" for one in lived)
        counted = len(mine) - same
        if not counted:
            continue
        killed = len(mine) - len(lived)
        floor = STRICT_FLOOR if module in STRICT else run.room.floor
        rate = killed / counted
        print(
            f"{module or 'all':<34}{len(mine):>8}{killed:>8}{len(lived) - same:>9}{same:>11}{rate:>8.3f}{floor:>7.2f}"
        )
        if rate < floor:
            below.append(module or "all")
    return below


def read_known() -> dict[str, tuple[str, str]]:
    """Listed survivors: id -> status and reason."""
    data = tomllib.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    return {each["mutant"]: (group, each["reason"]) for group in ("equivalent", "open") for each in data.get(group, [])}


def stale(run: Run, mutants: Sequence[Mutant]) -> list[str]:
    """Listed mutants that no longer exist, or that a test kills by now."""
    ids = {one.id for one in mutants}
    modules = {one.module for one in mutants}
    gone = [name for name in run.known if name.split(":")[0].split(".")[0] in modules and name not in ids]
    return gone + [name for name in run.known if run.result.get(name, SURVIVED) != SURVIVED]


def chosen(mutants: Sequence[Mutant], size: int) -> list[Mutant]:
    """The fixed sample."""
    order = sorted(mutants, key=lambda one: hashlib.sha256(f"{SEED}/{one.id}".encode()).digest())
    picked = {one.id for one in order[:size]}
    return [one for one in mutants if one.id in picked]


def make(sources: Mapping[str, bytes], modules: Sequence[str]) -> list[Mutant]:
    """The mutants of these modules (of all, where none is named)."""
    vocabularies = vocabularies_of(sources)
    return [
        mutant
        for module, source in sources.items()
        if not modules or module in modules
        for mutant in mutants_of(module, source, vocabularies)
    ]


def verdict(run: Run, mutants: Sequence[Mutant], *, sample: bool, partial: bool) -> int:
    """Print what was found; the exit status."""
    unlisted = sum(run.result[one.id] == SURVIVED and one.id not in run.known for one in mutants)
    below = show_rates(run, mutants)
    at_import = sum(run.result[one.id] == AT_IMPORT for one in mutants)
    print(f"{at_import} of the killed did not get past an import.")
    faults = []
    if sample:
        if run.room.whole and unlisted > SAMPLE_SURVIVORS_MAX:
            faults.append(f"{unlisted} of the sampled mutants survived and are not in {KNOWN.name}")
        if not run.room.whole and "all" in below:
            faults.append(f"the sample of {run.room.name} is below the floor of {run.room.floor}")
    else:
        if below:
            faults.append(f"below the floor: {', '.join(below)}")
        out_of_date = stale(run, mutants)
        for name in out_of_date:
            print(f"listed, and killed or gone: {name}")
        if out_of_date and not partial:
            faults.append(f"{KNOWN.name} is out of date")
    for fault in faults:
        print(f"mutation gate: {fault}", file=sys.stderr)
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="mutants.sh", description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", nargs="*", help="'sample', names of rooms or of modules; nothing: all of them")
    parser.add_argument("--size", type=int, help="how many mutants the sample of each room has")
    parser.add_argument("--tests", action="append", help="look in these folders for tests, not in the room's")
    asked = parser.parse_args()
    began = time.monotonic()
    sample = "sample" in asked.what
    named = [word for word in asked.what if word != "sample"]
    rooms = [room for room in ROOMS if room.name in named] or list(ROOMS)
    modules = [word for word in named if word not in {room.name for room in ROOMS}]
    known = {label for room in rooms for label in labels(room)}
    if gone := sorted(set(STRICT) - {label_of(path) for room in ROOMS for path in room.files()}):
        parser.error(f"STRICT names modules that no room has: {', '.join(gone)}")
    if unknown := sorted(set(modules) - known):
        parser.error(f"no room has a module {', '.join(unknown)}")
    chosen_rooms = [room for room in rooms if not modules or set(modules) & labels(room)]
    if len(chosen_rooms) == 1:
        status = try_room(chosen_rooms[0], modules, asked, sample=sample)
    else:
        status = side_by_side(chosen_rooms, modules, asked, sample=sample)
    print(f"{', '.join(room.name for room in chosen_rooms)}: {time.monotonic() - began:.0f} s.")
    return status


def labels(room: Room) -> set[str]:
    """The modules of a room."""
    return {label_of(path) for path in room.files()}


def try_room(room: Room, modules: Sequence[str], asked: argparse.Namespace, *, sample: bool) -> int:
    """Try a room's mutants; the exit status."""
    sources = {label_of(path): path.read_bytes() for path in room.files()}
    mutants = [one for one in make(sources, modules) if room.whole or one.scope]
    if sample:
        mutants = chosen(mutants, asked.size or room.sample)
    with tempfile.TemporaryDirectory(prefix="mutants-") as base:
        run = Run(sources, read_known(), Path(base), room, asked.tests or room.tests)
        if sample:  # a known survivor runs every test there is: the whole run tries it again
            run.result = {one.id: SURVIVED for one in mutants if one.id in run.known}
        try:
            try_all(run, [one for one in mutants if one.id not in run.result])
        except RedTestsError as error:
            print(f"mutation gate, {room.name}: these fail without any change: {error}", file=sys.stderr)
            return 2
    return verdict(run, mutants, sample=sample, partial=bool(modules))


def side_by_side(rooms: Sequence[Room], modules: Sequence[str], asked: argparse.Namespace, *, sample: bool) -> int:
    """Try each room in a process of its own, one on each core: what a room loads changes nothing for the next.

    What a room says is shown when it is through.
    """

    def run(room: Room) -> int:
        words = [*(["sample"] if sample else []), room.name, *(one for one in modules if one in labels(room))]
        options = [*([f"--size={asked.size}"] if asked.size else []), *(f"--tests={one}" for one in asked.tests or ())]
        done = subprocess.run(
            [sys.executable, __file__, *words, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(done.stdout, flush=True)
        return done.returncode

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return max(pool.map(run, sorted(rooms, key=lambda room: -room.sample)), key=abs)


if __name__ == "__main__":
    raise SystemExit(main())
