"""Templates in contract files, and the rules for the places of values."""
