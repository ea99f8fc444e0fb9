"""The naive agent: what its tools answered, and what it makes of that."""
