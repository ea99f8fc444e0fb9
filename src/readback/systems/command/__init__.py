"""Programs: one that acts, and one that is a system of record."""
