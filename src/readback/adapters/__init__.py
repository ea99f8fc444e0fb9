"""Implementations of ports, one module for each. Only `bootstrap` imports from here."""
