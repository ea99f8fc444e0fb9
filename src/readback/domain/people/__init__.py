"""People's part: reviews, signed statements and incidents."""
