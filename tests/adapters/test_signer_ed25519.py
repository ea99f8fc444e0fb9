"""Keys of approvers: the port's promises, and files that only their owner can open."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from readback.adapters.signer_ed25519 import Ed25519Signer, create_key, open_key, verify
from readback.errors import ApprovalError
from readback.ports.signer import Signer, Verifier
from readback.testing.conformance.signer import MESSAGE, SignerConformance
from readback.testing.signer_memory import MemorySigner, verify_memory

PASSPHRASE = "correct horse battery"


class TestMemory(SignerConformance):
    def signers(self) -> tuple[Signer, Signer, Verifier]:
        return MemorySigner("one"), MemorySigner("two"), verify_memory


class TestEd25519(SignerConformance):
    @pytest.fixture(autouse=True)
    def _keys(self, tmp_path: Path) -> None:
        self.keys = (create_key(tmp_path / "one", PASSPHRASE), create_key(tmp_path / "two", PASSPHRASE))

    def signers(self) -> tuple[Signer, Signer, Verifier]:
        return *self.keys, verify


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    create_key(tmp_path / "keys" / "alice.pem", PASSPHRASE)
    return tmp_path / "keys" / "alice.pem"


def refused(path: Path, passphrase: str = PASSPHRASE) -> ApprovalError:
    with pytest.raises(ApprovalError) as caught:
        open_key(path, passphrase)
    assert caught.value.code == "approval.key"
    return caught.value


def test_a_key_file_opens_with_its_passphrase_and_is_its_owners_alone(key_file: Path) -> None:
    opened = open_key(key_file, PASSPHRASE)
    assert verify(opened.public_key, MESSAGE, opened.sign(MESSAGE))
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    written = key_file.read_bytes()
    assert b"ENCRYPTED PRIVATE KEY" in written
    assert opened.public_key[8:].encode() not in written


@pytest.mark.parametrize("passphrase", ["x" * 1024, "half a \udce9 character"], ids=["too long", "no text"])
def test_a_passphrase_that_cannot_be_used_makes_no_key(tmp_path: Path, passphrase: str) -> None:
    with pytest.raises(ApprovalError) as caught:
        create_key(tmp_path / "key", passphrase)
    assert caught.value.code == "approval.key"
    assert [*tmp_path.iterdir()] == []


def test_its_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_key(tmp_path / "open.pem", PASSPHRASE)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "open.pem").stat().st_mode) == 0o600


@pytest.mark.parametrize("passphrase", ["", "wrong passphrase", PASSPHRASE + " ", PASSPHRASE.upper()])
def test_a_copied_key_file_is_of_no_use_without_the_passphrase(key_file: Path, passphrase: str) -> None:
    assert "does not open" in refused(key_file, passphrase).message


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o622, 0o777, 0o610])
def test_a_key_file_that_others_may_read_is_refused(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    assert "chmod 600" in refused(key_file).remedy


def test_a_link_a_folder_or_nothing_is_no_key_file(key_file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(key_file)
    refused(tmp_path / "link")
    refused(tmp_path)
    refused(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe", 0o600)
    refused(tmp_path / "pipe")


@pytest.mark.parametrize("written", [b"", b"ENCRYPTED", b"\xff" * 99, b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n"])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "odd").write_bytes(written)
    (tmp_path / "odd").chmod(0o600)
    refused(tmp_path / "odd")


def test_a_key_of_another_kind_or_without_a_passphrase_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    other = generate_private_key(SECP256R1())
    hidden = BestAvailableEncryption(PASSPHRASE.encode())
    (tmp_path / "ec").write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
    plain = Ed25519PrivateKey.generate()
    (tmp_path / "plain").write_bytes(plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for name, said in (("ec", "no Ed25519 key"), ("plain", "not encrypted")):
        (tmp_path / name).chmod(0o600)
        assert said in refused(tmp_path / name).message


def test_a_key_is_made_once_and_never_over_another(key_file: Path) -> None:
    before = key_file.read_bytes()
    with pytest.raises(ApprovalError):
        create_key(key_file, PASSPHRASE)
    assert key_file.read_bytes() == before


def test_a_short_passphrase_makes_no_key(tmp_path: Path) -> None:
    with pytest.raises(ApprovalError):
        create_key(tmp_path / "short", "1234567")
    assert not (tmp_path / "short").exists()


def test_two_keys_are_two(tmp_path: Path) -> None:
    made: list[Ed25519Signer] = [create_key(tmp_path / str(n), PASSPHRASE) for n in range(2)]
    assert made[0].public_key != made[1].public_key


def test_cryptography_is_not_imported_before_something_is_signed_or_checked() -> None:
    program = (
        "import sys, readback.bootstrap, readback.config, readback.adapters.signer_ed25519, readback.engine.engine\n"
        "assert not [name for name in sys.modules if name.startswith('cryptography')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
