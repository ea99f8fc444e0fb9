"""Commands about the ledger and its evidence."""
