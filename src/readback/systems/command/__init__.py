"""Programs: an acting program, and a program as system of record."""
