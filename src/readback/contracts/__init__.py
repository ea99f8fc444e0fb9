"""Compiles what an operator wrote into domain contracts. Runs no action."""
