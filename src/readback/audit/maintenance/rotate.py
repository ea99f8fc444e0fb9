"""Rotate: one key of a log is followed by another, and heads of both count, each in its span.

Called by `readback ledger keys`, and wherever it is said whose checkpoints count. The log is read and its head signed
by the old key before anything is stated, so that the statement says up to where that key signed.
"""

from __future__ import annotations

from collections.abc import Iterable

from readback.audit.checks.ledger import nobody
from readback.audit.evidence.attest import Authority, Progress, head, key_of
from readback.audit.sealing.seal import seal_all
from readback.log.note import Check, VerifierKey
from readback.log.rotation import Rotation, parse_rotations, sign_rotation, spans, within
from readback.ports.signer import LogSigner
from readback.ports.storage.store import LedgerStore


def state(
    store: LedgerStore, old: LogSigner, new: LogSigner, at_us: int, authority: Authority, progress: Progress = nobody
) -> bytes:
    """The statement that `new` follows `old` from the present size of the log on. `authority`: whose heads count up to
    now. A log that is sealed is sealed to its end by the old key first, and has to go on from what it had signed.

    Raises StoreCorruptError, LogError: then nothing is stated.
    """
    before = [seal_all(store, old, authority, at_us).checkpoint] if store.checkpoint() is not None else []
    found = head(store, old, before, progress).checkpoint
    return sign_rotation(Rotation(found, key_of(old), key_of(new), at_us), old.sign, new.sign)


def following(key: VerifierKey, check: Check, rotations: bytes | None, former: Iterable[VerifierKey] = ()) -> Authority:
    """Whose heads count for whoever trusts this key: its own, and those of every key that the rotations lead to.

    `former`: keys that are trusted besides, whatever is stated. Raises LogFormatError and LogSignatureError for
    rotations that are none, or another key's.
    """
    if not rotations:
        return Authority(key, check, tuple(former))
    statements = parse_rotations(rotations, check)
    known = spans(key, statements)
    others = dict.fromkeys((*(each.key for each in known if each.key != key), *former))
    return Authority(key, within(check, known), tuple(others), tuple(each.head for each in statements))
