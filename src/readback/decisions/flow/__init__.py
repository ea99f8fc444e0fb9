"""What enforces an envelope round one action: gates before it, its ladder, and what is concluded from its outcome.

Pure functions over the nouns of `domain.decision`; `sdk.deciding` keeps the time and runs the action in between.
"""
