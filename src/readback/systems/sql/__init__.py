"""Databases by DB-API 2 drivers: acting statements, and reads of rows."""
