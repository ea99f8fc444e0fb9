"""The ledger read again from its first entry: a part of it a module, and `ledger`, which goes through all of them."""
