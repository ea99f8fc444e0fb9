"""The ledger store on SQLite, through apsw. Only `bootstrap` imports this package. The package imports no adapter."""

from readback.stores.sqlite.store import SqliteStore, open_sqlite_store, path_of

__all__ = ["SqliteStore", "open_sqlite_store", "path_of"]
