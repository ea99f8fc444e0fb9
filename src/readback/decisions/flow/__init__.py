"""Enforces an envelope around one action: gates, the ladder, and the conclusion from the outcome.

Pure functions over the nouns of `decisions.model`. `decisions.api` measures time and runs the action between them.
"""
