"""Rotate: a new key succeeds the key of a log, and heads of both keys count, each in its span.

Called by `readback ledger keys`, and by all code with rules for accepted checkpoint keys. Before the statement, the log
is read and its head signed by the old key, so the statement names the end of the old key's span.
"""

from __future__ import annotations

from collections.abc import Iterable

from readback.audit.checks.ledger import no_progress
from readback.audit.evidence.attest import Authority, Progress, head, key_of
from readback.audit.sealing.seal import seal_all
from readback.log.note import Check, VerifierKey
from readback.log.rotation import Rotation, parse_rotations, sign_rotation, spans, within
from readback.ports.signer import LogSigner
from readback.ports.storage.store import LedgerStore


def state(
    store: LedgerStore,
    old: LogSigner,
    new: LogSigner,
    at_us: int,
    authority: Authority,
    progress: Progress = no_progress,
) -> bytes:
    """Return the statement: `new` succeeds `old` from the present size of the log. `authority`: keys accepted until
    now.

    The old key first seals a sealed log to its end. The log must extend the heads signed by the old key.

    Raises StoreCorruptError or LogError. No statement exists then.
    """
    before = [seal_all(store, old, authority, at_us).checkpoint] if store.checkpoint() is not None else []
    found = head(store, old, before, progress).checkpoint
    return sign_rotation(Rotation(found, key_of(old), key_of(new), at_us), old.sign, new.sign)


def following(key: VerifierKey, check: Check, rotations: bytes | None, former: Iterable[VerifierKey] = ()) -> Authority:
    """Return the keys accepted by a holder of `key`: `key` itself, and every key reachable through the rotations.

    `former`: further trusted keys, independent of statements. Raises LogFormatError for malformed rotations, and
    LogSignatureError for rotations of another key.
    """
    if not rotations:
        return Authority(key, check, tuple(former))
    statements = parse_rotations(rotations, check)
    known = spans(key, statements)
    others = dict.fromkeys((*(each.key for each in known if each.key != key), *former))
    return Authority(key, within(check, known), tuple(others), tuple(each.head for each in statements))
