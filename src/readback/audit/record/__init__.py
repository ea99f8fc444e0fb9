"""One action as what is on record of it: its ledger entry, its readings, its manifest and its replay bundle."""
