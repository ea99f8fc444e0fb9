"""The ledger store on PostgreSQL, through psycopg. Only `bootstrap` imports it; it knows no other adapter."""

from readback.stores.postgres.store import PostgresStore, open_postgres_store

__all__ = ["PostgresStore", "open_postgres_store"]
