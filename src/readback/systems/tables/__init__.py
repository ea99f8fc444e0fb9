"""SQLite databases as a system of record, table by table."""
