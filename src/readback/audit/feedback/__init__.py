"""Statistics of contracts, tools and sources from a ledger's entries. Off the hot path, and without influence on
decisions.
"""
