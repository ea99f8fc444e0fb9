"""The chapter of the delegation."""
