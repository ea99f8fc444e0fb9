"""Outcomes: the reconciled result of an action, its texts, and the planning rules after the result."""
