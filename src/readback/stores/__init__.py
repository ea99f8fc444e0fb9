"""Ledger stores, and the wake-ups that go with each."""
