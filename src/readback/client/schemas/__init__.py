"""JSON Schemas that come with the package. Read by `readback ledger schema`, and by whoever checks records."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

LEDGER_ENTRY: Final = "action-ledger-entry.schema.json"
"""The action ledger entry (JSON Schema 2020-12), as the action verification specification prints it."""


def schema_text(name: str = LEDGER_ENTRY) -> str:
    """A schema's JSON, as it stands in the package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
