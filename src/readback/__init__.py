"""Readback: an agent's action counts once its effect has been read back from the system of record."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
