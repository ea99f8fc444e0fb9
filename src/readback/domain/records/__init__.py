"""Records of the whole ledger: pointers, replays, subscribers, messages and the seal schedule."""
