"""What people decide: reviews, signed statements and incidents."""
