"""The ledger store on PostgreSQL, through psycopg. Only `bootstrap` imports this package, and the package imports no
adapter.
"""

from readback.stores.postgres.store import PostgresStore, open_postgres_store

__all__ = ["PostgresStore", "open_postgres_store"]
