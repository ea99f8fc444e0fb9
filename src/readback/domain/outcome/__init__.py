"""Outcomes: what is reconciled, what may be said of an action, and how planning goes on."""
