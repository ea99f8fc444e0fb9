"""The ledger as a whole: pointers, replays, subscribers, messages and the seal schedule."""
