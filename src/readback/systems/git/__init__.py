"""Git repositories as a system of record."""
