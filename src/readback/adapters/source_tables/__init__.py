"""An SQLite database as a system of record, by its tables. The way in is `TablesSource`."""

from readback.adapters.source_tables.source import TablesSource as TablesSource
