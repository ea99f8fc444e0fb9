"""The log outside the ledger: the log's key, anchors, and tiles in a folder."""
