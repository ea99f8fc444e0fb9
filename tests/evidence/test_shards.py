"""Several logs side by side, and the log of their checkpoints: proofs across both, and shards that go back or fork."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from readback import bootstrap
from readback.audit.evidence import shards
from readback.audit.evidence.attest import key_of
from readback.audit.evidence.shards import NEW, CheckpointLog, Shard, parse_shard_proof
from readback.audit.maintenance.rotate import following, state
from readback.log.fault import (
    LogCutError,
    LogForkError,
    LogFormatError,
    LogOriginError,
    LogProofError,
    LogRewrittenError,
    LogSignatureError,
    LogUnplacedError,
)
from tests.sealing.given import Log, Signer, authority

HEAD = Signer("example.com/heads", b"\x09" * 32)
BY = authority(HEAD)


class Named(Log):
    """A shard with a key of its own."""

    def __init__(self, name: str, entries: int) -> None:
        super().__init__()
        self.signer = Signer(name, name.encode().ljust(32, b"-")[:32])
        self.authority = authority(self.signer)
        self.append(entries, name)
        self.seal()

    @property
    def shard(self) -> Shard:
        return Shard(self.store, self.authority)


@pytest.fixture
def logs() -> list[Named]:
    return [Named("example.com/a", 5), Named("example.com/b", 300), Named("example.com/c", 1)]


def taken(known: CheckpointLog, logs: list[Named]) -> CheckpointLog:
    return shards.add(known, [log.shard for log in logs], HEAD)


@pytest.mark.requirement("SHARD-heads")
def test_each_shards_new_head_is_an_entry_and_what_has_none_adds_nothing(logs: list[Named]) -> None:
    first = taken(NEW, logs)
    assert first.signed is not None
    assert (first.signed.checkpoint.origin, first.signed.checkpoint.size) == (HEAD.name, 3)
    assert taken(first, logs) is first
    logs[1].append(7)
    assert taken(first, logs) is first, "it is not sealed yet"
    logs[1].seal()
    second = taken(first, logs)
    assert second.notes[:3] == first.notes
    assert [each.size for _, each in second.of("example.com/b")] == [300, 307]
    assert taken(NEW, []).notes == ()


@pytest.mark.requirement("SHARD-heads")
def test_it_is_kept_in_files_and_read_back_only_where_they_make_the_root_that_was_signed(
    logs: list[Named], tmp_path: Path
) -> None:
    tiles = bootstrap.new_tiles(tmp_path / "heads")
    shards.write(tiles, taken(NEW, logs))
    known = shards.read(tiles, BY)
    logs[0].append(1)
    logs[0].seal()
    shards.write(tiles, taken(known, logs))
    assert len(shards.read(tiles, BY).notes) == 4
    with pytest.raises(LogSignatureError):
        shards.read(tiles, authority(Signer(HEAD.name, b"\x01" * 32)))
    bundle = next(path for path in (tmp_path / "heads").rglob("*.p/4") if "entries" in str(path))
    whole = bundle.read_bytes()
    bundle.write_bytes(whole.replace(b"example.com/a", b"example.com/x"))
    with pytest.raises(LogRewrittenError, match="do not lead to the root"):
        shards.read(tiles, BY)
    bundle.unlink()
    with pytest.raises(LogFormatError, match="has no file"):
        shards.read(tiles, BY)


@pytest.mark.requirement("SHARD-heads")
def test_an_entry_of_any_shard_is_proved_offline_by_the_key_of_the_one_log(logs: list[Named]) -> None:
    known = taken(NEW, logs)
    logs[1].append(10)
    logs[1].seal()
    known = taken(known, logs)
    for log, seq, size in ((logs[0], 5, 5), (logs[1], 1, 300), (logs[1], 305, 310), (logs[2], 1, 1)):
        entry = log.entries[seq - 1]
        data = shards.prove(known, entry, log.shard, BY).to_bytes()
        proof = parse_shard_proof(data)
        covering, head = proof.check(log.authority, BY)
        assert (covering.size, head.size, proof.entry.entry) == (size, 4, entry.envelope)
        assert proof.to_bytes() == data
        with pytest.raises(LogSignatureError):
            proof.check(BY, BY)
        with pytest.raises(LogSignatureError):
            proof.check(log.authority, log.authority)


@pytest.mark.requirement("SHARD-heads")
def test_a_proof_with_parts_of_two_or_a_changed_byte_shows_nothing(logs: list[Named]) -> None:
    known = taken(NEW, logs)
    one = shards.prove(known, logs[0].entries[0], logs[0].shard, BY)
    other = shards.prove(known, logs[1].entries[0], logs[1].shard, BY)
    with pytest.raises(LogProofError, match="another checkpoint"):
        replace(one, checkpoint=other.checkpoint).check(logs[0].authority, BY)
    data = one.to_bytes()
    for at in range(0, len(data), 13):
        spoiled = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises((LogFormatError, LogProofError, LogSignatureError)):
            parse_shard_proof(spoiled).check(logs[0].authority, BY)
    for cut in (b"", data[:10], data[:-1], data + b"\n", data.replace(b"@v1\n", b"@v1\n0", 1)):
        with pytest.raises((LogFormatError, LogProofError, LogSignatureError)):
            parse_shard_proof(cut).check(logs[0].authority, BY)


@pytest.mark.requirement("SHARD-heads")
def test_what_no_taken_checkpoint_covers_is_not_proved(logs: list[Named]) -> None:
    known = taken(NEW, logs)
    logs[0].append(1)
    logs[0].seal()
    with pytest.raises(LogProofError, match=r"covers entry 6 was taken yet"):
        shards.prove(known, logs[0].entries[5], logs[0].shard, BY)
    with pytest.raises(LogUnplacedError):
        shards.prove(known, replace(logs[0].entries[0], seq=0), logs[0].shard, BY)
    with pytest.raises(LogProofError, match="has no head"):
        shards.prove(NEW, logs[0].entries[0], logs[0].shard, BY)


def gone_back(log: Named) -> None:
    """Its last checkpoint is taken out, with the entries under it."""
    sealed = log.store._content.sealed
    del sealed.heads[max(sealed.heads)]


def again(log: Named, entries: int, text: str) -> None:
    """The same name and key over other entries."""
    made = Named(log.signer.name, 0)
    made.append(entries, text)
    made.seal()
    log.store = made.store


@pytest.mark.requirement("SHARD-heads")
@pytest.mark.parametrize(
    ("how", "fault"),
    [
        (gone_back, LogCutError),
        (lambda log: again(log, 4, "other"), LogCutError),
        (lambda log: again(log, 9, "other"), LogForkError),
        (lambda log: again(log, 30, "other"), LogRewrittenError),
    ],
)
def test_a_shard_that_goes_back_or_forks_is_found_and_nothing_is_added(
    logs: list[Named], how: Callable[[Named], None], fault: type[LogProofError]
) -> None:
    log = logs[0]
    log.append(4)
    log.seal()
    known = taken(NEW, logs)
    logs[2].append(1)
    logs[2].seal()
    how(log)
    with pytest.raises(fault) as found:
        taken(known, logs)
    assert type(found.value) is fault
    assert len(taken(known, logs[1:]).notes) == len(known.notes) + 1, "the others go on"


@pytest.mark.requirement("SHARD-heads")
def test_two_shards_of_one_name_or_of_the_logs_own_are_refused(logs: list[Named]) -> None:
    twice = Named("example.com/a", 2)
    with pytest.raises(LogOriginError, match="Two logs have the name"):
        taken(NEW, [*logs, twice])
    with pytest.raises(LogOriginError, match="Two logs have the name"):
        taken(NEW, [Named(HEAD.name, 2)])
    assert shards.add(NEW, [Shard(Log().store, logs[0].authority)], HEAD).notes == (), "what was never sealed"


@pytest.mark.requirement("SHARD-heads", "LEDGER-key-rotated", "L21")
def test_no_other_history_of_a_shard_than_was_stated_as_its_key_was_rotated_is_taken_or_shown() -> None:
    log, forged = Named("example.com/a", 5), Named("example.com/a", 0)
    present = Signer(log.signer.name, b"\x08" * 32)
    stated = state(log.store, log.signer, present, 1, log.authority)
    trusted = following(key_of(present), bootstrap.verify_signature, stated)
    forged.append(5, "forged")
    forged.seal()  # by the old key, which somebody still has
    with pytest.raises(LogForkError):
        shards.add(NEW, [Shard(forged.store, trusted)], HEAD)
    for each in (log, forged):
        known = shards.add(NEW, [each.shard], HEAD)  # whoever takes it knows of no rotation
        proof = parse_shard_proof(shards.prove(known, each.entries[2], each.shard, BY).to_bytes())
        if each is log:
            assert proof.check(trusted, BY)[0].size == 5
        else:
            with pytest.raises(LogForkError):
                proof.check(trusted, BY)
