"""Storage of a ledger: the store, its log, its outbox and its wake-ups."""
