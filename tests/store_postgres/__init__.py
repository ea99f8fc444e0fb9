"""The ledger store on a real PostgreSQL: the shipped conformance suite, and what is particular to a server."""
