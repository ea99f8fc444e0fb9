"""What erasing, backing up and restoring raise. Beside `errors`, since nothing else knows of it.

InputError (2)
└── ErasureError (2)        something is not erased: it is still at work; nothing was erased
StoreError (6)
├── BackupError (6)         no backup was made, or it is not what it should be
└── RestoreError (6)        a backup was not put in place: it is damaged, cut, or would take another one's place
"""

from __future__ import annotations

from readback.domain.errors import InputError, StoreError


class ErasureError(InputError):
    """Something is still to happen to the action, and needs what was to be erased. Nothing was erased."""

    code = "erasure.at-work"
    remedy_default = "Let it settle, cancel it or decide its review; then erase it."


class BackupError(StoreError):
    """There is no backup: it could not be written, or what was written is not sound."""

    code = "backup"
    remedy_default = "Name a file that is not there yet, on a volume with space; then take it again."


class RestoreError(StoreError):
    """The backup was not put in place. Neither it nor what stands at the target was changed."""

    code = "restore"
    remedy_default = "Take another backup, or read what is said about it and decide."
