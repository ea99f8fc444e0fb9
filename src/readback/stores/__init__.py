"""Ledger stores, and the matching wake-ups."""
