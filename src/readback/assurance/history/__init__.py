"""Recorded actions as the evidence of release gates: from a ledger or from a folder of bundles."""
