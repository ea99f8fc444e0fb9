"""Where a ledger is kept: the store, its log, its outbox and its wake-ups."""
