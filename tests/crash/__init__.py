"""Real processes that really die, at every durable step and between any two, and what the world is like then."""
