"""Changes of a PostgreSQL ledger: one writer a process, groups of commands in one transaction."""
