"""The reference implementation of notes and tiled logs, in Go and by others, checks what we sign, prove and export.

`make test` tries to install it (scripts/reference_log.sh). Where it is not there these tests skip, and say so aloud.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from readback import bootstrap
from readback.log.tiles import bundle_bytes, parse_bundle
from tests.cli.conftest import Desk
from tests.evidence.conftest import NAME, Made

SOURCES = Path("/usr/share/gocode")
PROGRAM = Path(__file__).parent / "go" / "verify.go"
THERE = shutil.which("go") is not None and (SOURCES / "src/golang.org/x/mod/sumdb/tlog").is_dir()

Verify = Callable[..., str]


@pytest.fixture(scope="session")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not THERE:
        pytest.fail("golang-go and golang-golang-x-mod-dev are not installed. Run scripts/reference_log.sh as root.")
    folder = tmp_path_factory.mktemp("go")
    built = folder / "verify"
    more = {"GO111MODULE": "off", "GOPATH": str(SOURCES), "GOCACHE": str(folder / "cache"), "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", built, PROGRAM], check=True, timeout=300, env={**os.environ, **more})
    return built


@pytest.fixture
def verify(verifier: Path, at_hand: Made) -> Verify:
    def run(*args: str) -> str:
        done = subprocess.run([verifier, *args, at_hand.key], capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.startswith("OK" if done.returncode == 0 else "BAD"), done
        return done.stdout.strip()

    return run


@pytest.mark.requirement("LEDGER-others-check")
def test_others_find_our_evidence_sound(at_hand: Made, desk: Desk, verify: Verify) -> None:
    assert verify("export", "export") == f"OK {at_hand.size}"
    assert verify("grown", "export", "early") == f"OK {at_hand.early_size} {at_hand.size}"
    for number, action in enumerate(at_hand.ids[::10]):
        desk("ledger", "prove", action, "--version", str(number + 1), "--out", "p", code=0)
        assert verify("proof", "p").startswith("OK ")


@pytest.mark.requirement("LEDGER-others-check", "LEDGER-sealed")
def test_others_find_every_checkpoint_of_the_cadence_sound(at_hand: Made, desk: Desk, verify: Verify) -> None:
    """Each was signed when a process ended; each begins with the one before, and the export with all of them."""
    store = bootstrap.store(f"sqlite:///{desk.ledger}", read_only=True)
    heads = list(store.checkpoints())
    store.close()
    assert len(heads) > 50
    for head in heads[:: len(heads) // 7]:
        Path("head").write_bytes(head.note)
        assert verify("grown", "export", "head") == f"OK {head.size} {at_hand.size}"


@pytest.mark.requirement("LEDGER-others-check")
def test_others_find_a_flipped_byte(at_hand: Made, verify: Verify) -> None:
    place = Path("export/tile/entries/000")
    entries = parse_bundle(place.read_bytes(), 256)
    entries[41] = entries[41].replace(b"default", b"defauld")
    place.write_bytes(bundle_bytes(entries))
    assert verify("export", "export") == "BAD: entry 42 has another hash"


@pytest.mark.requirement("LEDGER-others-check")
def test_others_find_a_reordered_pair(at_hand: Made, verify: Verify) -> None:
    place = Path("export/tile/entries/000")
    entries = parse_bundle(place.read_bytes(), 256)
    entries[41], entries[42] = entries[42], entries[41]
    place.write_bytes(bundle_bytes(entries))
    assert verify("export", "export") == "BAD: entry 42 has another hash"


@pytest.mark.requirement("LEDGER-others-check")
def test_others_find_a_cut_end(at_hand: Made, verify: Verify) -> None:
    rest = at_hand.size - 256
    place = Path(f"export/tile/entries/001.p/{rest}")
    place.write_bytes(bundle_bytes(parse_bundle(place.read_bytes(), rest)[:-1]))
    assert verify("export", "export") == f"BAD: entry {at_hand.size} is cut"
    place.unlink()
    assert "no such file" in verify("export", "export")


@pytest.mark.requirement("LEDGER-others-check")
def test_others_find_a_forged_signature_and_a_forked_log(
    at_hand: Made, desk: Desk, verify: Verify, by_hand: Callable[..., None]
) -> None:
    desk("ledger", "keys", "create", "--key-file", "thief.key", "--name", NAME, code=0)
    by_hand("DELETE FROM tile", "DELETE FROM checkpoint")
    by_hand("DELETE FROM tile", "DELETE FROM checkpoint")
    desk("ledger", "export", "--tiles", "forged", "--key-file", "thief.key", code=0)
    assert verify("export", "forged").startswith("BAD: ")
    desk.ledger.unlink()
    for n in range(40):
        desk.ship(f"other-{n}", code=0)
    desk("ledger", "export", "--tiles", "anew", code=0)
    assert verify("export", "anew").startswith("OK ")
    assert verify("grown", "anew", "early").startswith("BAD: ")


@pytest.mark.requirement("LEDGER-others-check", "PRIVACY-proofs-stand")
def test_others_find_our_evidence_sound_after_payloads_were_erased(at_hand: Made, desk: Desk, verify: Verify) -> None:
    before = desk("ledger", "export", "--tiles", "before", "--json", code=0).json["size"]
    desk("ledger", "checkpoint", "--out", "head", code=0)
    desk("ledger", "erase", "--all", "--reason", "Asked for.", "--who", "human:dpo")
    assert verify("export", "before") == f"OK {before}"
    after = desk("ledger", "export", "--tiles", "after", "--json", code=0).json["size"]
    assert after > before
    assert verify("export", "after") == f"OK {after}"
    assert verify("grown", "after", "head") == f"OK {before} {after}"
    desk("ledger", "prove", at_hand.ids[0], "--version", "1", "--out", "p", code=0)
    assert verify("proof", "p").startswith("OK ")
