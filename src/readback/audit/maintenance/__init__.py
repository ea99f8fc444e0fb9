"""Operators' work on a whole ledger: erase payloads, restore a backup, rotate the log's key."""
