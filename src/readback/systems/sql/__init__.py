"""Databases by DB-API 2 drivers: statements that act, and rows that are read."""
