"""Templates in contract files, and what may be put where."""
