"""Domain: pure values and tables for all other packages, without I/O or a clock."""
