"""What is done to a whole ledger by whoever keeps it: payloads erased, a backup restored, the log's key followed."""
