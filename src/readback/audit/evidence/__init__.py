"""What is handed to others: heads, proofs and exports out of the log, and the check of an export by its files alone."""
