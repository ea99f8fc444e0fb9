"""Entries of the ledger: made, projected, and read back."""
