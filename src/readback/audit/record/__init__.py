"""The record of one action: ledger entry, readings, manifest and replay bundle."""
