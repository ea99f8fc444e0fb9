"""Recorded calls of a ledger: as bundles for replay, and as plain values for proposals and for drift."""
