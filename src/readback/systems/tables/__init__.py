"""SQLite databases as a system of record, by their tables."""
