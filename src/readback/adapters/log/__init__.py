"""The log outside the ledger: its key, its anchors, and its tiles in a folder."""
