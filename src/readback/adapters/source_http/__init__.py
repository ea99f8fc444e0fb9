"""A system of record behind HTTP: reads JSON by GET, and says what each answer proves.

Constructed by users (or from a contract file) and called inside reader functions. It must not act, and shares nothing
with what does.
"""

from __future__ import annotations

from readback.adapters.source_http.answer import CommitToken
from readback.adapters.source_http.source import HttpSource

__all__ = ["CommitToken", "HttpSource"]
