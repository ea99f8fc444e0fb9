"""The ledger store: the shipped conformance suite over each store, and what is particular to SQLite."""
