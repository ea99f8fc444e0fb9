"""Evidence for others: heads, proofs and exports of the log, and the check of an export from its files alone."""
