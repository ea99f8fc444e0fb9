"""Sagas: the fold, the definition check, the planner, the outcome, and its texts."""
