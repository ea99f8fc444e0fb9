"""What records, bundles and their replay raise. Beside `errors`, since nothing else knows of it.

InputError (2)
├── BundleError (2)             a file is no replay bundle, or not the one that it was: something in it was changed
└── TableMissingError (2)       a bundle cannot be made: a table by which was decided is not at hand
ErasedEvidenceError (1)         what is asked for was erased; its digest remains
"""

from __future__ import annotations

from readback.canon.fault import ReadbackError
from readback.domain.errors import InputError


class BundleError(InputError):
    """The file is no replay bundle, or something in it has another hash than it has to have. Nothing was replayed."""

    code = "bundle"
    remedy_default = "Export it again with `readback ledger export --bundle`; do not edit it."


class TableMissingError(InputError):
    """A recovery table by which was decided is neither the default one nor one that was named. Nothing was written."""

    code = "bundle.table"
    remedy_default = "Name its file with --table; it is known by the hash of its rows."


class ErasedEvidenceError(ReadbackError):
    """The bytes were erased. That is no damage: an entry of the action says so."""

    code = "evidence.erased"
    exit_code = 1
    remedy_default = "`readback show` names the entry that erased it, with its reason."
