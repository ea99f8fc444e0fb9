"""Full re-read of the ledger from its first entry. Each module checks one part; `ledger` runs all of them."""
