"""A saga's nouns: its fold, what may be one, what it does next, its outcome, and what may be said of it."""
