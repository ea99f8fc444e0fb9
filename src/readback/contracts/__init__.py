"""Compiles an operator's contracts into domain contracts. Runs no action."""
