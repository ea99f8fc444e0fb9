"""The ledger-schema gate: earlier records stay readable, and new entries stay readable for the last release.

The gate compares the schema of this release with the kept schema of the last release, path by path. A difference needs
a declaration with a reason. Kept ledgers and bundles are opened, verified and replayed. A kept reader (a wheel of the
last release) verifies and replays new entries in a process of its own.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

import readback.bootstrap as bootstrap
from readback.assurance.drills.ledger_sample import write_sample
from readback.assurance.gate_input import DamagedAction, GateInput
from readback.assurance.history.recorded import Selection, history_of, ledger_url
from readback.assurance.results import Finding, GateResult, Standing, gate_result
from readback.audit.checks.ledger import audit
from readback.audit.record.action import FORMAT
from readback.audit.record.bundle import FIELDS, Bundle
from readback.audit.replay.action import replay
from readback.canon import ReadbackError, parse_json
from readback.canon.frozen import dataclass
from readback.client.operations.replaying import recorded_plan_of
from readback.domain.events import ENVELOPE_FIELDS, ENVELOPE_FORMAT, EventKind
from readback.domain.records.replayed import Comparison
from readback.domain.state import State
from readback.errors import InputError
from readback.ports.storage.store import Projection, StoredEvent
from readback.testing.store_memory import MemoryStore

GATE: Final = "ledger-schema"
RELEASED: Final = "released_schema.json"
DECLARED: Final = "declared_changes.json"
STORES: Final = ("sqlite", "postgres")
REPLAYED_MAX: Final = 500
"""How many actions of a ledger to replay."""
READER_SECONDS_MAX: Final = 120
READER: Final = """
import sys
from readback.cli.cli import main
url, actions, folder = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
def run(*arguments):
    try:
        main([*arguments])
    except SystemExit as ended:
        if ended.code:
            sys.exit(f"readback {' '.join(arguments[:2])} ended with {ended.code}")
run("ledger", "verify", "--url", url, "--json")
for number, action in enumerate(actions):
    out = f"{folder}/{number}.json"
    run("ledger", "export", "--bundle", action, "--out", out, "--url", url)
    run("replay", out, "--json")
"""
Schema = Mapping[str, str]


class SchemaFileError(InputError):
    """A kept schema or a declaration of changes cannot be read."""

    code = "gates.schema-file"
    remedy_default = "Write the file again with `python scripts/released_schema.py`."


@dataclass(frozen=True, slots=True)
class Release:
    """The kept schema of a release, and the declared changes since, each with a reason."""

    name: str
    schema: Schema
    declared: Mapping[str, str]


def ledger_schema(given: GateInput) -> GateResult:
    """Compare the schema with the last release's, and read every kept and recorded ledger.

    Returns the result, with a finding for each difference, kept file and damaged record.
    """
    counts: Counter[str] = Counter(paths=0, changes=0, ledgers=0, bundles=0, readers=0, replayed=0)
    release = last_release()
    findings = [*compare(release, schema_of_this(), counts)]
    for folder in given.kept:
        findings += _kept(Path(folder), release, counts)
    findings += _recorded("the history", given.history(), counts)
    return gate_result(GATE, findings, counts)


# --- the schema ---


@cache
def last_release() -> Release:
    """Return the last release, as shipped. Raises SchemaFileError."""
    folder = resources.files(__package__)
    kept = _object(RELEASED, folder.joinpath(RELEASED).read_bytes())
    declared = _object(DECLARED, folder.joinpath(DECLARED).read_bytes())
    if not isinstance(kept.get("schema"), dict) or not all(isinstance(each, str) for each in declared.values()):
        raise SchemaFileError(f"{RELEASED} or {DECLARED} is malformed.")
    return Release(str(kept.get("release")), kept["schema"], declared)


def _object(name: str, data: bytes) -> dict[str, Any]:
    try:
        found = parse_json(data)
    except ReadbackError as error:
        raise SchemaFileError(f"{name}: {error.message}") from error
    if not isinstance(found, dict):
        raise SchemaFileError(f"{name} holds no object.")
    return cast("dict[str, Any]", found)


def schema_of_this() -> dict[str, str]:
    """Return the schema of this release by path: envelopes, kinds, states, columns, steps, and the form of entries."""
    found = {
        "envelope.format": str(ENVELOPE_FORMAT),
        "envelope.fields": " ".join(sorted(ENVELOPE_FIELDS)),
        "bundle.format": FORMAT,
        "bundle.fields": " ".join(sorted(FIELDS)),
    }
    found |= {f"kind.{kind.value}": "known" for kind in EventKind}
    found |= {f"state.{state.value}": "known" for state in State}
    found |= {f"projection.{name}": "column" for name in Projection.__slots__}
    for store in STORES:
        steps = bootstrap.store_migrations(store)
        found |= {f"migration.{store}.{step.number:04}": step.checksum for step in steps}
    return dict(sorted({**found, **entry_forms()}.items()))


def entry_forms() -> dict[str, str]:
    """Return the type of each field of each kind of entry, from a sample written now."""
    store = MemoryStore()
    kept = store.reopened()
    write_sample("memory:", store)
    forms: dict[str, set[str]] = {}
    for stored in kept.scan():
        for path, form in _fields(stored):
            forms.setdefault(path, set()).add(form)
    return {path: " ".join(sorted(found)) for path, found in forms.items()}


def _fields(stored: StoredEvent) -> Iterator[tuple[str, str]]:
    envelope = parse_json(stored.envelope)
    assert isinstance(envelope, dict)
    for part in ("data", "refs"):
        held = envelope[part]
        assert isinstance(held, dict)
        yield from ((f"entry.{stored.kind}.{part}.{name}", type(value).__name__) for name, value in held.items())


def compare(release: Release, schema: Schema, counts: Counter[str]) -> Iterator[Finding]:
    """Yield a finding for each path that differs from the release. A difference without a declaration fails."""
    counts["paths"] = len(schema)
    changed = [path for path in sorted({*schema, *release.schema}) if schema.get(path) != release.schema.get(path)]
    counts["changes"] = len(changed)
    for path in changed:
        then, now = release.schema.get(path, "absent"), schema.get(path, "absent")
        said = f"{path} is {now:.80} and was {then:.80} in release {release.name}."
        reason = release.declared.get(path)
        if reason is None:
            lost = f"{said} The change is not declared in {DECLARED}."
            yield Finding(GATE, "schema.undeclared", Standing.FAILED, lost, case=path)
        else:
            yield Finding(GATE, "schema.declared", Standing.PASSED, f"{said} Declared: {reason}", case=path)
    for path in sorted(release.declared.keys() - {*changed} - {*_readers(release.declared)}):
        said = f"{DECLARED} declares {path}, and nothing has changed there."
        yield Finding(GATE, "schema.stale-declaration", Standing.FAILED, said, case=path)
    if not changed:
        said = f"The schema is that of release {release.name}."
        yield Finding(GATE, "schema.unchanged", Standing.PASSED, said)


def _readers(declared: Iterable[str]) -> Iterator[str]:
    yield from (path for path in declared if path.startswith("reader."))


# --- kept files ---


def _kept(folder: Path, release: Release, counts: Counter[str]) -> Iterator[Finding]:
    if not folder.is_dir():
        said = f"There is no folder {str(folder)!r} of kept ledgers."
        yield Finding(GATE, "schema.no-kept", Standing.UNDETERMINED, said)
        return
    files = sorted(each for each in folder.iterdir() if each.is_file())
    with tempfile.TemporaryDirectory() as name:
        for file in files:
            if file.name.endswith((".db", ".db.gz")):
                counts["ledgers"] += 1
                yield from _ledger(file, Path(name), counts)
            elif file.suffix == ".whl":
                counts["readers"] += 1
                yield _reader(file, Path(name), release)
    if any(each.suffix == ".json" for each in files):
        counts["bundles"] += sum(each.suffix == ".json" for each in files)
        yield from _recorded(str(folder), history_of(str(folder))(), counts)


def _ledger(file: Path, folder: Path, counts: Counter[str]) -> Iterator[Finding]:
    """Open a copy of a kept ledger with this release, verify the whole, and replay the actions."""
    place = folder / file.name.removesuffix(".gz")
    place.write_bytes(gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes())
    url = ledger_url(str(place))
    try:
        bootstrap.store(url).close()  # brings an older schema up
        store = bootstrap.store(url, read_only=True)
        try:
            report = audit(store)
        finally:
            store.close()
    except ReadbackError as error:
        said = f"{file.name} cannot be opened: {error.message}"
        yield Finding(GATE, "schema.unreadable", Standing.FAILED, said, case=file.name)
        return
    if not report.ok:
        fault = report.faults[0]
        said = f"{file.name} does not verify: {fault.code}: {fault.what}"
        yield Finding(GATE, "schema.not-verified", Standing.FAILED, said, case=file.name)
        return
    yield from _recorded(file.name, history_of(url, Selection(limit=REPLAYED_MAX))(), counts)


def _recorded(name: str, actions: Iterable[object], counts: Counter[str]) -> Iterator[Finding]:
    """Replay recorded actions by their recorded contracts. One finding for a sound place, and one for each fault."""
    sound = seen = 0
    for each in islice(actions, REPLAYED_MAX):
        seen += 1
        fault = each.reason if isinstance(each, DamagedAction) else _replayed(cast("Bundle", each))
        if fault:
            action_id = each.name if isinstance(each, DamagedAction) else cast("Bundle", each).action_id
            said = f"{name}: {action_id} cannot be replayed: {fault}"
            standing = Standing.UNDETERMINED if isinstance(each, DamagedAction) else Standing.FAILED
            yield Finding(GATE, "schema.not-replayed", standing, said, case=name, actions=(action_id,))
        else:
            sound += 1
    counts["replayed"] += sound
    if seen and sound == seen:
        said = f"{name}: {sound} actions open, verify and replay."
        yield Finding(GATE, "schema.readable", Standing.PASSED, said, case=name)


def _replayed(bundle: Bundle) -> str:
    """Return why a bundle does not replay to the recorded decisions; "" if it does."""
    try:
        found = replay(bundle, recorded_plan_of(bundle, bootstrap.predicate_engine()))
    except ReadbackError as error:
        return error.message
    differs = next((each for each in found.judgements if each.comparison is Comparison.DIFFERS), None)
    return "" if differs is None else f"entry {differs.version} is decided otherwise"


def _reader(wheel: Path, folder: Path, release: Release) -> Finding:
    """Let the reader of an earlier release verify and replay entries of this release."""
    home = folder / wheel.stem
    home.mkdir()
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(home / "package")
    place = home / "new.db"
    actions = write_sample(ledger_url(str(place)))
    named = ",".join(actions[:-1])  # the last one is the saga, without a bundle
    command = [sys.executable, "-c", READER, ledger_url(str(place)), named, str(home)]
    environment = {"PYTHONPATH": str(home / "package"), "PATH": "", "HOME": str(home), "NO_COLOR": "1"}
    ended = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=READER_SECONDS_MAX, check=False
    )
    shutil.rmtree(home)
    if ended.returncode == 0:
        said = f"{wheel.name} verifies and replays {len(actions) - 1} new actions."
        return Finding(GATE, "schema.read-by-release", Standing.PASSED, said, case=wheel.name)
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    why = lines[-1] if lines else f"exit code {ended.returncode}"
    reason = release.declared.get(f"reader.{wheel.name}")
    if reason is not None:
        said = f"{wheel.name} does not read new entries ({why:.200}). Declared: {reason}"
        return Finding(GATE, "schema.declared", Standing.PASSED, said, case=wheel.name)
    said = f"{wheel.name} does not read new entries: {why:.300}"
    return Finding(GATE, "schema.unread", Standing.FAILED, said, case=wheel.name)


def released(release: str) -> bytes:
    """Return the bytes of the kept schema for a release made now."""
    content = {"release": release, "schema": schema_of_this()}
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"
