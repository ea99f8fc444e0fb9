"""What a ledger's entries say of contracts, tools and sources. Off the hot path; it decides nothing."""
