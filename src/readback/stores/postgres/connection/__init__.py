"""Connections to a PostgreSQL ledger: addresses, schema, rows and faults."""
