"""JSON Schemas of the package, for `readback ledger schema` and for checks of records."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

LEDGER_ENTRY: Final = "action-ledger-entry.schema.json"
"""The action ledger entry (JSON Schema 2020-12), as printed in the action verification specification."""


def schema_text(name: str = LEDGER_ENTRY) -> str:
    """Return a schema's JSON text from the package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
