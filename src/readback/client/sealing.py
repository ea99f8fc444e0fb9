"""The sealer made from settings and `Readback.open(seal=...)`; and the fourth level of trust.

Called by the session. Without a key of the log nothing is sealed, and `log_keys` names the accepted checkpoints' keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from readback.bootstrap import (
    anchor,
    kept_file,
    log_key,
    log_key_in_use,
    rotations_of,
    verify_signature,
)
from readback.canon.frozen import dataclass
from readback.config import Settings
from readback.domain.outcome.outcome import Outcome
from readback.domain.records.seal_schedule import SEAL_DEFAULT, SealSchedule, seal_schedule_of
from readback.domain.verdict import Level
from readback.errors import SettingsError
from readback.ports.runtime import Runtime
from readback.ports.storage.store import LedgerStore

if TYPE_CHECKING:  # most ledgers that are opened for a moment are not sealed by who opens them
    from readback.audit.evidence.attest import Authority
    from readback.background.sealer import Sealer
    from readback.ports.anchor import Anchor
    from readback.ports.signer import LogSigner

SealLike: TypeAlias = bool | Mapping[str, object] | None
"""False: never; True: a key is required; None: by the settings; a mapping: as the settings' `[seal]`, with `key_file`.
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """The signer, schedule and anchors of a log's seals, and the keys of accepted checkpoints."""

    authority: Authority | None = None
    signer: LogSigner | None = None
    cadence: SealSchedule = SEAL_DEFAULT
    anchors: tuple[Anchor, ...] = ()
    key_file: str = ""
    log_keys: tuple[str, ...] = ()

    def renewed(self, signer: LogSigner) -> tuple[LogSigner, Authority] | None:
        """Return the new signer and authority after a change of the key file; None for an unchanged key."""
        found = log_key(Path(self.key_file))
        if found.raw_key == signer.raw_key and found.name == signer.name:
            return None
        return found, _authority(found, self.key_file, self.log_keys)

    def sealer(self, store: LedgerStore, runtime: Runtime) -> Sealer | None:
        """Return the sealer of this ledger; None where sealing is off."""
        if self.signer is None or self.authority is None or self.cadence.off:
            return None
        from readback.background.anchoring import Anchoring
        from readback.background.sealer import Sealer

        anchoring = Anchoring(store, runtime, self.authority, self.anchors) if self.anchors else None
        if not self.key_file:
            return Sealer(store, runtime, self.signer, self.authority, self.cadence, anchoring)
        place = Path(self.key_file)
        return Sealer(
            store, runtime, self.signer, self.authority, self.cadence, anchoring, self.renewed,
            lambda: log_key_in_use(place),
        )  # fmt: skip


NOT_SEALED: Final = Terms()


def terms_of(settings: Settings, given: SealLike = None) -> Terms:
    """Return the terms in force. Raises SettingsError for a missing or unusable key, and for a malformed URL."""
    cadence, key_file = settings.seal, settings.signing_key_file
    if isinstance(given, Mapping):
        named = dict(given)
        key_file = str(named.pop("key_file", key_file))
        cadence = seal_schedule_of(named, "seal")
    elif given is not None:
        cadence = replace(cadence, off=not given)
    if given and not key_file:
        raise SettingsError(
            "Sealing needs a log key, and no key is named.",
            remedy="Run `readback ledger keys create --key-file FILE`, then set READBACK_SIGNING_KEY_FILE.",
            code="settings.signing-key",
        )
    log_keys = tuple(settings.log_keys)
    if not key_file:
        return Terms(_authority_of(log_keys) if log_keys else None)
    signer = log_key(Path(key_file))
    anchors = () if cadence.off else tuple(anchor(url, cadence.secret) for url in cadence.anchors)
    return Terms(_authority(signer, key_file, log_keys), signer, cadence, anchors, key_file, log_keys)


def _authority_of(log_keys: Sequence[str]) -> Authority:
    from readback.audit.evidence.attest import Authority
    from readback.log.note import parse_key

    former = tuple(parse_key(each) for each in log_keys)
    return Authority(former[0], verify_signature, former[1:])


def _authority(signer: LogSigner, key_file: str, log_keys: Sequence[str]) -> Authority:
    from readback.audit.evidence.attest import key_of
    from readback.audit.maintenance.rotate import following
    from readback.log.note import parse_key
    from readback.log.rotation import ROTATIONS_MAX_BYTES

    rotations = kept_file(rotations_of(Path(key_file)), ROTATIONS_MAX_BYTES)
    return following(key_of(signer), verify_signature, rotations, [parse_key(each) for each in log_keys])


def confirmed(outcome: Outcome, store: LedgerStore, authority: Authority | None) -> Outcome:
    """Return the outcome with level 4 if proven; otherwise unchanged. Sagas are unchanged: their steps have levels."""
    if authority is None or outcome.level is not Level.RECONCILED or not outcome.verified:
        return outcome
    from readback.audit.sealing.confirm import is_confirmed

    if not is_confirmed(store, outcome.id, authority):
        return outcome
    return replace(outcome, level=Level.AUDIT_CONFIRMED)
