"""Who may approve, what a signature is bound to, and what an action's events tell of it."""
