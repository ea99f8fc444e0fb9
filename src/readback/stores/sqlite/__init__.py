"""The ledger store on SQLite, through apsw. Only `bootstrap` imports it; it knows no other adapter."""

from readback.stores.sqlite.store import SqliteStore, open_sqlite_store, path_of

__all__ = ["SqliteStore", "open_sqlite_store", "path_of"]
